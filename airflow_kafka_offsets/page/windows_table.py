"""The table of a pipeline's windows by partition, in order of time. Time that no window has is an entry between them: a
hole if there are offsets in it, else ``absent``.

In all of the page, rows are those that the output holds; in the first one, if a job has several. Which partition they
are from is known only if each record is a row, not if a job makes other rows of the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.unloaded import tiling_of
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.tiling import Misfit, Seam

Json = dict[str, Any]


def windows_table(ledger: Ledger, summaries: Sequence[WindowSummary], before: str | None, most: int) -> Json:
    """The last windows, or the last ones before a given window.

    Values that every cell has are a list with an item for each partition; values that few cells have are a mapping by
    the partition's index.

    :param before: a window's name; None for the last windows of the pipeline.
    :param most: how many windows.
    :raises LedgerError: when a file can't be read or is damaged.
    """
    upto = [each for each in summaries if before is None or each.window < before]
    earlier, shown = _cut(upto, most)
    manifests = in_parallel(lambda each: ledger.pinned(each.window, each.revision).manifest, shown)
    ranges = {each: manifest.ranges for each, manifest in zip(shown, manifests, strict=True)}
    partitions = sorted({TopicPartition.of(each) for own in ranges.values() for each in own})
    places = {key: place for place, key in enumerate(partitions)}
    windows = in_parallel(lambda each: _window(ledger, each, ranges[each], places), shown)
    neighbours = _neighbours(earlier, shown)
    misfits = tiling_of(ledger, neighbours, ranges).misfits
    _mark_overlaps(windows, misfits, places)
    missing = _missing(neighbours, ranges, misfits, places)
    return {
        "partitions": [[key.topic, key.partition] for key in partitions],
        "entries": [entry for window in windows for entry in (*missing.pop(window["window"], ()), window)],
        "more": bool(earlier),
    }


def _cut(summaries: Sequence[WindowSummary], most: int) -> tuple[Sequence[WindowSummary], Sequence[WindowSummary]]:
    """Earlier windows, and the last ones. The revisions of a window stay together."""
    cut = max(0, len(summaries) - most)
    while 0 < cut < len(summaries) and summaries[cut - 1].window == summaries[cut].window:
        cut -= 1
    return summaries[:cut], summaries[cut:]


def _neighbours(earlier: Sequence[WindowSummary], shown: Sequence[WindowSummary]) -> Sequence[WindowSummary]:
    """The earlier windows that may touch what is shown.

    These are the published one that ends last (if none is published, the one that ends last), and all that reach past
    its end or into what is shown.
    """
    if not earlier or not shown:
        return []
    published = [summary for summary in earlier if summary.attempt is not None]
    furthest = max(published or earlier, key=lambda summary: summary.end_ms)
    since_ms = min(furthest.end_ms, shown[0].start_ms)
    return [summary for summary in earlier if summary is furthest or summary.end_ms > since_ms]


def _window(
    ledger: Ledger, summary: WindowSummary, ranges: Iterable[OffsetRange], places: Mapping[TopicPartition, int]
) -> Json:
    by_place = {places[TopicPartition.of(each)]: each for each in ranges}
    lost = Counter({place: each.lost_offsets for place, each in by_place.items() if each.lost_offsets})
    if summary.state is WindowState.LOST:
        later = ledger.window_folders.folder(summary.window, summary.revision).lost_since()
        lost.update({places[partition]: count for partition, count in later.items()})
    return {
        "kind": "window",
        "window": summary.window,
        "revision": summary.revision,
        "state": summary.state,
        "start": iso_instant(summary.start_ms),
        "end": iso_instant(summary.end_ms),
        "offsets": [by_place[place].span if place in by_place else None for place in range(len(places))],
        "rows": summary.rows,
        "partition_rows": _rows_by_place(ledger, summary, places),
        "lost": lost,
        "overlap": {},
    }


def _rows_by_place(ledger: Ledger, summary: WindowSummary, places: Mapping[TopicPartition, int]) -> list[int] | None:
    """Rows of each partition; 0 if it has none. None if nothing is published, or no result says how many, or a job made
    other rows of the records."""
    if summary.attempt is None:
        return None
    result = ledger.window_folders.folder(summary.window, summary.revision).result(summary.attempt)
    rows = rows_by_partition(result)
    return None if rows is None else [rows.get(partition, 0) for partition in places]


def rows_by_partition(result: RunResult | None) -> dict[TopicPartition, int] | None:
    """Rows of each partition that has any; None without a result, and if a job made other rows of the records."""
    if result is None or result.derived:
        return None
    return {TopicPartition.of(tally): tally.count for tally in result.written}


def _mark_overlaps(windows: Sequence[Json], misfits: Iterable[Misfit], places: Mapping[TopicPartition, int]) -> None:
    by_name = {each["window"]: each for each in reversed(windows)}  # of two revisions, the published one comes first
    for misfit in misfits:
        twice = {TopicPartition.of(each): each.end_offset - each.start_offset for each in misfit.shared}
        twice |= {TopicPartition.of(seam): seam.size for seam in misfit.seams if not seam.is_gap}
        for each in filter(None, map(by_name.get, (misfit.earlier, misfit.later))):
            each["overlap"] |= {places[partition]: count for partition, count in twice.items()}


def _missing(
    neighbours: Iterable[WindowSummary],
    shown: Mapping[WindowSummary, Sequence[OffsetRange]],
    misfits: Iterable[Misfit],
    places: Mapping[TopicPartition, int],
) -> dict[str, list[Json]]:
    """What is missing directly before a window, by its name: time that no window has, with the offsets of that time."""
    found: dict[str, list[Json]] = {}
    until_ms = max((each.end_ms for each in neighbours), default=None)
    ordered = sorted(shown, key=lambda each: each.start_ms)
    for each in ordered:
        if until_ms is not None and each.start_ms > until_ms:
            found[each.window] = [_stretch(until_ms, each.start_ms)]
        until_ms = max(until_ms or 0, each.end_ms)
    for misfit in misfits:
        within = [each for each in ordered if misfit.start_ms <= each.start_ms <= misfit.end_ms]
        for seam in misfit.missing:
            window = next((each.window for each in within if _comes_after(seam, shown[each])), None)
            if window is not None:
                (stretch,) = found.setdefault(window, [_stretch(misfit.start_ms, window_extent(window)[0])])
                stretch["state"] = "hole"
                stretch["gaps"][places[TopicPartition.of(seam)]] += seam.size
    return found


def _comes_after(seam: Seam, ranges: Iterable[OffsetRange]) -> bool:
    """Whether a window starts where offsets that are missing end, or later."""
    partition = TopicPartition.of(seam)
    return any(TopicPartition.of(each) == partition and each.window_start >= seam.start_offset for each in ranges)


def _stretch(start_ms: int, end_ms: int) -> Json:
    return {
        "kind": "hole",
        "state": "absent",
        "start": iso_instant(start_ms),
        "end": iso_instant(end_ms),
        "gaps": Counter[int](),
    }
