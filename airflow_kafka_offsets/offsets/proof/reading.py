"""Reading: which published windows can be read together.

Windows are read whole, and no record is read twice. The reader gets an error if a window crosses a bound, if two share
offsets, or if two that meet in time don't meet in offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from airflow_kafka_offsets.errors import IntervalError, LedgerConflictError, shorten
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.tiling import seams, shared

_FAR_FUTURE_MS = 253_402_300_799_000
"""End of the year 9999, the last instant that a name can have."""

RangesOf = Callable[[str], tuple[OffsetRange, ...]]
"""Gives a window's offsets, which are read on first use."""


def bounds(start_ms: int | None, end_ms: int | None) -> tuple[int, int]:
    """The bounds of what is read, Unix milliseconds; None means no bound.

    :raises IntervalError: when nothing lies between them.
    """
    low, high = 0 if start_ms is None else start_ms, _FAR_FUTURE_MS if end_ms is None else end_ms
    if low >= high:
        raise IntervalError(f"Nothing lies between the start {iso_instant(low)} and the end {iso_instant(high)}.")
    return low, high


def overlaps(window: str, low: int, high: int) -> bool:
    """Whether any of a window's time lies between two bounds."""
    start, end = window_extent(window)
    return start < high and end > low


def refuse_unreadable(published: Mapping[str, Publication], low: int, high: int, ranges: RangesOf) -> None:
    """Check that windows can be read together.

    :param published: the publication of each window, in order of the windows' starts.
    :raises IntervalError: when a window crosses a bound.
    :raises LedgerConflictError: when two with rows share offsets, or two that meet in time don't meet in offsets.
    """
    _refuse_crossing(published, low, high)
    _refuse_overlaps(published, ranges)
    _refuse_seams(published, ranges)


def _refuse_crossing(windows: Iterable[str], low: int, high: int) -> None:
    crossing = [window for window in windows if window_extent(window)[0] < low or window_extent(window)[1] > high]
    if crossing:
        raise IntervalError(
            f"The bounds cut through {shorten(crossing)}. Give the start and the end of whole windows, and "
            "filter rows by their timestamp if that is what you mean."
        )


def _refuse_overlaps(published: Mapping[str, Publication], ranges: RangesOf) -> None:
    """Refuse windows with rows that share offsets. Windows that only share time have no record in common."""
    for earlier, later in _overlapping(name for name, publication in published.items() if publication.rows):
        found = shared(ranges(earlier), ranges(later))
        if found:
            raise LedgerConflictError(
                f"The published windows {earlier} and {later} share offsets, whose rows would be returned "
                f"twice: {shorten(map(str, found))}. Narrow start and end so that only one of them is read."
            )


def _overlapping(windows: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The pairs of windows that share time; the windows are in order of their starts."""
    begun: list[str] = []
    for later in windows:
        begun = [window for window in begun if window_extent(window)[1] > window_extent(later)[0]]
        yield from ((earlier, later) for earlier in begun)
        begun.append(later)


def _refuse_seams(published: Mapping[str, Publication], ranges: RangesOf) -> None:
    """Refuse neighbours that meet in time but not in offsets: one was resolved again and loaded, the other wasn't yet.
    Neighbours with time between them may leave offsets out, but must not share any."""
    for earlier, later in pairwise(name for name, publication in published.items() if publication.rows):
        if window_extent(earlier)[1] < window_extent(later)[0]:
            back = [seam for seam in seams([ranges(earlier), ranges(later)]) if not seam.is_gap]
            if back:
                raise LedgerConflictError(
                    f"The published windows {earlier} and {later} lie apart in time, but not in offsets: "
                    f"{shorten(map(str, back))}. Resolve both again (ledger re-resolve) and load them."
                )
    starting: dict[int, list[str]] = defaultdict(list)
    for window in published:
        starting[window_extent(window)[0]].append(window)
    for earlier in published:
        for later in starting[window_extent(earlier)[1]]:
            if published[earlier].end_snapshot == published[later].start_snapshot:
                continue
            # If the earlier window lacks a topic, anything before the later window's start may be missing.
            found = seams([ranges(earlier), ranges(later)], lambda _: 0)
            if found:
                raise LedgerConflictError(
                    f"Windows {earlier} and {later} don't meet: {shorten(map(str, found))}. One of them was "
                    "resolved again. Load the newest revision of both."
                )
