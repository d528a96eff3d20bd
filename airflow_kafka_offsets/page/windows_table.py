"""The table of a pipeline's windows by partition, in order of time. Holes are entries between the windows.

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
from airflow_kafka_offsets.ledger.verification import tiling_of
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.tiling import Misfit

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
    misfits = tiling_of(ledger, _neighbours(earlier, shown), ranges).misfits
    return {
        "partitions": [[key.topic, key.partition] for key in partitions],
        "entries": _with_misfits(windows, misfits, places),
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

    These are the published one that ends last, and all that reach past its end or into what is shown.
    """
    published = [summary for summary in earlier if summary.attempt is not None]
    if not published or not shown:
        return []
    furthest = max(published, key=lambda summary: summary.end_ms)
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


def _with_misfits(
    windows: Sequence[Json], misfits: Iterable[Misfit], places: Mapping[TopicPartition, int]
) -> list[Json]:
    """The windows with their overlaps, and each hole before the window that follows it."""
    by_name = {each["window"]: each for each in reversed(windows)}  # of two revisions, the published one comes first
    holes: dict[str, Json] = {}
    for misfit in misfits:
        later = by_name.get(misfit.later)
        if later is None:
            continue
        for common in misfit.shared:
            for each in filter(None, (by_name.get(misfit.earlier), later)):
                each["overlap"][places[TopicPartition.of(common)]] = common.end_offset - common.start_offset
        for seam in misfit.seams:
            if not seam.is_gap:
                for each in filter(None, (by_name.get(misfit.earlier), later)):
                    each["overlap"][places[TopicPartition.of(seam)]] = seam.size
        gaps = {places[TopicPartition.of(seam)]: seam.size for seam in misfit.missing}
        if gaps:
            holes[misfit.later] = _hole(misfit, gaps)
    found: list[Json] = []
    for window in windows:
        hole = holes.pop(window["window"], None)
        found += [window] if hole is None else [hole, window]
    return found


def _hole(misfit: Misfit, gaps: dict[int, int]) -> Json:
    start, end = window_extent(misfit.earlier)[1], window_extent(misfit.later)[0]
    return {"kind": "hole", "state": "hole", "start": iso_instant(start), "end": iso_instant(end), "gaps": gaps}
