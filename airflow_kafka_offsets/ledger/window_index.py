"""The windows of a ledger in order of time, from one listing.

File names tell the windows' times and revisions, and which were forgotten, so no file is read. To ask several questions
about the same moment, share one index; to see later changes, make a new one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, islice

from airflow_kafka_offsets.offsets.windows.ledger_names import live_revisions, window_extent


class WindowIndex:
    """The windows that count, with their revisions and times.

    :param names: names in the months' folders.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.live = live_revisions(names)
        """The revisions that count, oldest first, by window, in order of the windows' starts."""
        self.extents = {window: window_extent(window) for window in self.live}
        """Starts and ends, Unix milliseconds."""
        self._by_start = list(self.live)
        self._by_end = sorted(self._by_start, key=self._end_ms)
        # The latest end of the windows up to each one: so that a search back in time can stop.
        self._reach = list(accumulate((end_ms for _, end_ms in self.extents.values()), max))

    def latest_first(self) -> list[str]:
        """All windows, the one that ends last first."""
        return self._by_end[::-1]

    def ending_by(self, time_ms: int) -> Iterator[str]:
        """The windows that end at or before a time, the one that ends last first."""
        place = bisect_right(self._by_end, time_ms, key=self._end_ms)
        return map(self._by_end.__getitem__, range(place - 1, -1, -1))

    def starting_from(self, time_ms: int) -> Iterator[str]:
        """The windows that start at or after a time, in order of their starts."""
        return islice(self._by_start, self._place(time_ms), None)

    def crossing(self, start_ms: int, end_ms: int) -> list[str]:
        """The windows that overlap the time between two instants, in order of their starts."""
        place, found = self._place(end_ms), []
        while place and self._reach[place - 1] > start_ms:
            place -= 1
            if self.extents[self._by_start[place]][1] > start_ms:
                found.append(self._by_start[place])
        return found[::-1]

    def in_a_row(self, apart: Collection[int] = ()) -> list[str]:
        """Windows that don't overlap each other in time, in order. Of windows that do, the ones that end first, so one
        that spans many others is left out.

        :param apart: instants, Unix milliseconds: windows that start or end there are left out.
        """
        row: list[str] = []
        until_ms = 0
        # Of windows that end together, the shortest comes first.
        for window, (start_ms, end_ms) in sorted(self.extents.items(), key=lambda each: (each[1][1], -each[1][0])):
            if start_ms >= until_ms and start_ms not in apart and end_ms not in apart:
                row.append(window)
                until_ms = end_ms
        return row

    def _end_ms(self, window: str) -> int:
        return self.extents[window][1]

    def _place(self, time_ms: int) -> int:
        return bisect_left(self._by_start, time_ms, key=lambda window: self.extents[window][0])
