"""Finding the window of a record, by its offset. Windows are in order of their offsets too, so a search by halves reads
few manifests: 14 for a year of hours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.partitions import TopicPartition


class Whereabouts(StrEnum):
    """Where an offset is."""

    WINDOW = "window"
    LOST = "lost"
    """In a window, but Kafka no longer had it when the published attempt began."""
    HOLE = "hole"
    """Between two windows: no window has it."""
    BEFORE = "before"
    """Before the first window."""
    AFTER = "after"
    """After the last window: it isn't pinned yet."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where an offset of a partition is.

    :param window: the window that has it; None when none does.
    :param earlier: the last window before it, if no window has it; None when there is none.
    :param later: the first window after it, if no window has it.
    """

    where: Whereabouts
    window: Window | None = None
    earlier: Window | None = None
    later: Window | None = None


def find(ledger: Ledger, partition: TopicPartition, offset: int) -> list[Found]:
    """Where an offset is. A topic whose log has begun anew may have had it several times: all are found, the oldest
    first; what is only before or after one of these logs' windows is left out then. Empty when no window has the
    partition.
    """
    places = [
        place
        for windows in _logs(ledger, partition.topic)
        if (place := _search(ledger, partition, windows, offset)) is not None
    ]
    inside = [place for place in places if place.where not in (Whereabouts.BEFORE, Whereabouts.AFTER)]
    return inside or places[-1:]


def _logs(ledger: Ledger, topic: str) -> Iterator[list[Window]]:
    """The windows of each log that a topic has had, in order."""
    windows = list(ledger.state.windows.values())
    restarts = [restart.at_ms for _, restart in ledger.state.restarts if topic in restart.topics]
    places = [bisect_left(windows, at_ms, key=lambda window: window.end_ms) for at_ms in restarts]
    for first, last in zip([0, *places], [*places, len(windows)], strict=True):
        if first < last:
            yield windows[first:last]


def _search(ledger: Ledger, partition: TopicPartition, windows: Sequence[Window], offset: int) -> Found | None:
    """Where an offset is among the windows of one log, at least one; None when no window has the partition."""

    def extent(window: Window) -> tuple[int, int] | None:
        """A window's first offset on the partition, and its end; None if it hasn't got the partition yet."""
        ranges = ledger.pinned(window).manifest.ranges
        extents = ((each.start_offset, each.end_offset) for each in ranges if TopicPartition.of(each) == partition)
        return next(extents, None)

    if extent(windows[-1]) is None:
        return None
    place = bisect_right(windows, offset, key=lambda window: (extent(window) or (-1, -1))[1])
    if place == len(windows):
        return Found(Whereabouts.AFTER, earlier=windows[-1])
    window = windows[place]
    start_offset, _ = extent(window) or (offset, -1)
    if start_offset <= offset:
        return Found(Whereabouts.LOST if _is_lost(window, partition, offset) else Whereabouts.WINDOW, window)
    earlier = windows[place - 1] if place else None
    if earlier is None or extent(earlier) is None:
        return Found(Whereabouts.BEFORE, later=window)
    return Found(Whereabouts.HOLE, earlier=earlier, later=window)


def _is_lost(window: Window, partition: TopicPartition, offset: int) -> bool:
    ranges = (each for each in window.lost if TopicPartition.of(each) == partition)
    return any(each.start_offset <= offset < each.end_offset for each in ranges)
