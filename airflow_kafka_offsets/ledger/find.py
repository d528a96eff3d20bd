"""Finding the window of a record, by its offset. Reads few files, however many windows there are.

Windows are in order of their offsets too, so the window is searched for. How many offsets each one has is in the log:
where a partition's offset should be is guessed by that, as most partitions grow alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.partitions import TopicPartition


class OffsetPlace(StrEnum):
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

    where: OffsetPlace
    window: Window | None = None
    earlier: Window | None = None
    later: Window | None = None


def find(ledger: Ledger, partition: TopicPartition, offset: int) -> list[Found]:
    """Where an offset is. A topic whose log has begun anew may have had it several times: all are found, the oldest
    first; what is only before or after one of these logs' windows is left out then. Empty when no window has the
    partition.
    """
    found: list[Found] = []
    for goes_on, windows in _logs(ledger, partition.topic):
        place = _Search(ledger, partition, windows).of(offset)
        if place is not None:
            found[-1:] = _joined(found[-1], place) if goes_on and found else [*found[-1:], place]
    inside = [place for place in found if place.where not in (OffsetPlace.BEFORE, OffsetPlace.AFTER)]
    return inside or found[-1:]


def _logs(ledger: Ledger, topic: str) -> Iterator[tuple[bool, list[Window]]]:
    """The windows of each log that a topic has had, in order, and whether it is the one before, which was truncated."""
    windows = list(ledger.state.windows.values())
    restarts = [restart for restart in ledger.state.restarts if topic in restart.topics]
    places = [bisect_left(windows, restart.at_ms, key=lambda window: window.end_ms) for restart in restarts]
    on = [topic in {place.topic for place in restart.truncated} for restart in restarts]
    is_one = False
    for goes_on, first, last in zip([False, *on], [0, *places], [*places, len(windows)], strict=True):
        is_one = is_one and goes_on
        if first < last:
            yield is_one, windows[first:last]
            is_one = True


def _joined(earlier: Found, later: Found) -> list[Found]:
    """Where an offset is in a log that was truncated, by its windows before that and after it."""
    if later.where is not OffsetPlace.BEFORE:
        return [earlier, later]
    if earlier.where is OffsetPlace.AFTER:
        return [Found(OffsetPlace.HOLE, earlier=earlier.earlier, later=later.later)]
    return [earlier]


class _Search:
    """A search in some windows, in order of time.

    :param windows: at least one.
    """

    def __init__(self, ledger: Ledger, partition: TopicPartition, windows: Sequence[Window]) -> None:
        self._ledger = ledger
        self._partition = partition
        self._windows = windows
        self._before = [0, *accumulate(window.offsets + 1 for window in windows)]
        """How many offsets, of all partitions, the windows before each one have. One more each, so that it grows."""

    def of(self, offset: int) -> Found | None:
        """Where an offset is; None when no window has the partition."""
        low, high = 0, len(self._windows) - 1
        starts, ends, guesses = (0, 0), (self._before[-1], 0), 0
        while low <= high:
            # The last window, the first one, then where it should be; holes and bursts mustn't make it a long walk.
            places = (high, low, *[self._guess(offset, starts, ends)] * 2, (low + high) // 2)
            place = min(max(places[guesses % len(places)], low), high)
            guesses += 1
            found = self._range(place)
            if found is None and place == len(self._windows) - 1:
                return None
            if found is None or offset >= found[1]:
                low, starts = place + 1, (self._before[place + 1], 0 if found is None else found[1])
            elif offset < found[0]:
                high, ends = place - 1, (self._before[place], found[0])
            else:
                return self._in(place, offset)
        if low == len(self._windows):
            return Found(OffsetPlace.AFTER, earlier=self._windows[high])
        if high < 0 or self._range(high) is None:
            return Found(OffsetPlace.BEFORE, later=self._windows[low])
        return Found(OffsetPlace.HOLE, earlier=self._windows[high], later=self._windows[low])

    def _guess(self, offset: int, starts: tuple[int, int], ends: tuple[int, int]) -> int:
        """The window that should have an offset, between two places whose offsets on the partition are known."""
        share = (offset - starts[1]) / max(1, ends[1] - starts[1])
        return bisect_right(self._before, starts[0] + share * (ends[0] - starts[0])) - 1

    def _range(self, place: int) -> tuple[int, int] | None:
        """A window's first offset on the partition, and its end; None if it hasn't got the partition yet."""
        for each in self._ledger.pinned(self._windows[place]).manifest.ranges:
            if TopicPartition.of(each) == self._partition:
                return each.start_offset, each.end_offset
        return None

    def _in(self, place: int, offset: int) -> Found:
        window = self._windows[place]
        gone = any(
            TopicPartition.of(each) == self._partition and each.start_offset <= offset < each.end_offset
            for each in window.lost
        )
        return Found(OffsetPlace.LOST if gone else OffsetPlace.WINDOW, window)
