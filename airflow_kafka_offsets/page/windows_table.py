"""The table of a pipeline's windows by partition, in order of time. Time that no window has is an entry between them: a
hole if there are offsets in it, else ``absent``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from airflow_kafka_offsets.ledger.audits import audit_words
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.window_status import WindowStatus, running_ms, statuses
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.page.losses import lost_of

Json = dict[str, Any]
_Places = Mapping[TopicPartition, int]


def windows_table(ledger: Ledger, before: str | None, most: int) -> Json:
    """The last windows, or the last ones before a given window.

    Values that every cell has are a list with an item for each partition; values that few cells have are a mapping by
    the partition's index.

    :param before: a window's name; None for the last windows of the pipeline.
    :param most: how many windows.
    :raises LedgerError: when a file can't be read or is damaged.
    """
    upto = [each for each in ledger.state.windows.values() if before is None or each.name < before]
    shown = upto[-most:]
    manifests = in_parallel(lambda each: ledger.pinned(each).manifest, shown)
    ranges = {each.name: manifest.ranges for each, manifest in zip(shown, manifests, strict=True)}
    gaps = {
        later.name: (earlier.end_ms, later.start_ms, ledger.between(earlier.end_ms, later.start_ms))
        for earlier, later in pairwise(upto[-most - 1 :])
        if earlier.end_ms < later.start_ms
    }
    partitions = sorted(
        {TopicPartition.of(each) for own in ranges.values() for each in own}
        | {TopicPartition.of(each) for *_, missing in gaps.values() for each in missing}
    )
    places = {key: place for place, key in enumerate(partitions)}
    status = statuses(ledger, shown)
    entries: list[Json] = []
    for each in shown:
        if each.name in gaps:
            entries.append(_gap(*gaps[each.name], places))
        entries.append(_window(each, status[each.name], ranges[each.name], places))
    return {
        "partitions": [[key.topic, key.partition] for key in partitions],
        "entries": entries,
        "more": len(upto) > len(shown),
    }


def _window(window: Window, status: WindowStatus, ranges: tuple[OffsetRange, ...], places: _Places) -> Json:
    spans = {places[TopicPartition.of(each)]: each.span for each in ranges}
    return {
        "kind": "window",
        "window": window.name,
        "state": status,
        "running_ms": running_ms(window) if status is WindowStatus.LOADING else None,
        "start": iso_instant(window.start_ms),
        "end": iso_instant(window.end_ms),
        "offsets": [spans.get(place) for place in range(len(places))],
        "rows": None if window.publication is None else window.publication.rows,
        "lost": {places[key]: count for key, count in lost_of(window).items()},
        "audits": audit_words(window.audits),
    }


def _gap(start_ms: int, end_ms: int, missing: list[LogRange], places: _Places) -> Json:
    return {
        "kind": "hole",
        "state": "hole" if missing else "absent",
        "start": iso_instant(start_ms),
        "end": iso_instant(end_ms),
        "gaps": {places[TopicPartition.of(each)]: each.span for each in missing},
    }
