"""A draft: a state, and the snapshots and windows that a decision is about to add; as many as a year has, maybe."""

from __future__ import annotations

from bisect import bisect_left, insort

from airflow_kafka_offsets.ledger.entries import AnyEntry, Pinned, Snapshotted
from airflow_kafka_offsets.ledger.state import State, StoredSnapshot, Window
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent


class Draft:
    """What a state becomes. The state itself stays as it is.

    :param entries: what was added, in order.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.entries: list[AnyEntry] = []
        self._number = state.number + 1
        self._times = list(state.snapshots)
        self._snapshots: dict[int, StoredSnapshot] = {}
        self._windows: list[Window] = []

    def add_snapshot(self, entry: Snapshotted) -> None:
        self.entries.append(entry)
        self._snapshots[entry.at_ms] = StoredSnapshot(self._number, entry.at_ms, entry.as_of.kind, entry.offsets)
        insort(self._times, entry.at_ms)

    def add_window(self, entry: Pinned) -> None:
        """Add a window that crosses none, after all that were added before."""
        self.entries.append(entry)
        self._windows.append(
            Window(entry.window, *window_extent(entry.window), self._number, entry.manifest, entry.offsets, entry.by)
        )

    def snapshot(self, at_ms: int) -> StoredSnapshot | None:
        """The snapshot at a time; None when there is none."""
        return self.state.snapshots.get(at_ms) or self._snapshots.get(at_ms)

    def neighbours(self, at_ms: int) -> tuple[StoredSnapshot | None, StoredSnapshot | None]:
        """The snapshots before and after a time that has none; None where there is none."""
        place = bisect_left(self._times, at_ms)
        before, after = self._times[max(0, place - 1) : place], self._times[place : place + 1]
        return (self.snapshot(before[0]) if before else None), (self.snapshot(after[0]) if after else None)

    @property
    def newest_ms(self) -> int:
        """Time of the newest snapshot; -1 when there is none."""
        return self._times[-1] if self._times else -1

    def crossing(self, start_ms: int, end_ms: int) -> Window | None:
        """A window that has some of the time between two instants; None when there is none."""
        last = self._windows[-1:]  # those added before it end where it starts, or earlier
        added = (window for window in last if window.start_ms < end_ms and window.end_ms > start_ms)
        return next(iter(self.state.crossing(start_ms, end_ms)), None) or next(added, None)
