"""The state: what the commits of a pipeline's log add up to. A value that nobody changes; no I/O, no race, no clock.

Two rules make it simple. Snapshots are in the order of their times, and each lies above the offsets of the one before
it. Windows never cross in time. So a window's name, which is the times of its two snapshots, says what it shares with
others; nobody needs to read its ranges for that.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import Attempted, Audited, Created, Published, Restarted, Snapshotted
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot


class Window(NamedTuple):
    """A window that counts.

    :param name: the times of its two snapshots.
    :param start_ms: the first one, Unix milliseconds.
    :param end_ms: the other one.
    :param number: that of the commit that pinned it.
    :param manifest: hash of the file with its exact ranges.
    :param offsets: how many offsets it has.
    :param by: the run that it belongs to, if it is an increment.
    :param reloaded: number of the commit that last said that it is to be loaded again; 0 if none did.
    :param reloaded_by: the runs of tasks that have ever asked for it: each does once.
    :param attempts: those that may still be published, and the published one, in order.
    :param publication: the one that counts; None when nothing is published.
    :param audits: the last one of each table, by its name.
    :param census: hash of the file that says which of its offsets have a record; None if nobody has counted them.
    """

    name: str
    start_ms: int
    end_ms: int
    number: int
    manifest: str
    offsets: int
    by: str | None = None
    reloaded: int = 0
    reloaded_by: tuple[str, ...] = ()
    attempts: tuple[Attempted, ...] = ()
    publication: Published | None = None
    audits: tuple[Audited, ...] = ()
    census: str | None = None

    @property
    def loaded(self) -> Published | None:
        """The publication, if it satisfies a load: the window wasn't reloaded since."""
        published = self.publication
        return published if published is not None and published.number > self.reloaded else None

    @property
    def open_attempts(self) -> tuple[Attempted, ...]:
        """The attempts that may still be published, in order: those that began since the window was last reloaded. None
        once one of them is published."""
        return () if self.loaded is not None else tuple(each for each in self.attempts if each.number > self.reloaded)

    @property
    def newest_attempt(self) -> Attempted | None:
        """The attempt that began last, if the window wasn't reloaded since; None when there is none."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.number > self.reloaded else None

    @property
    def lost(self) -> tuple[LogRange, ...]:
        """What Kafka no longer had of the window when the attempt began that counts: the published one, or else the
        newest."""
        published = self.publication
        attempt = self.newest_attempt if published is None else self.attempt(published.attempt)
        return () if attempt is None else attempt.lost

    def attempt(self, number: int) -> Attempted | None:
        """One of :attr:`attempts`."""
        return next((each for each in self.attempts if each.number == number), None)


@dataclass(frozen=True, slots=True)
class State:
    """What a log's commits add up to.

    :param number: number of the newest commit; 0 for an empty log.
    :param created: the first entry; None for an empty log.
    :param snapshots: those that count, by time, in order.
    :param windows: those that count, by name, in order of time.
    :param restarts: all that count, in order.
    :param turned: number of the newest commit with a rewind or a restart; 0 when there is none. What Kafka said before
        it may be about other logs.
    :param rows_left: names of windows that were voided or rewound after an attempt at them had begun: its rows may be
        in a table under that name.
    """

    number: int = 0
    created: Created | None = None
    snapshots: dict[int, Snapshotted] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    restarts: tuple[Restarted, ...] = ()
    turned: int = 0
    rows_left: frozenset[str] = frozenset()

    def needs_driver(self, window: Window) -> bool:
        """Whether a load of a window has anything to do: to write rows, or to take away those of another window that
        had its name."""
        return bool(window.offsets) or window.name in self.rows_left

    @property
    def begun(self) -> Created:
        """The first entry.

        :raises LedgerCorruptError: when there is none.
        """
        if self.created is None:
            raise LedgerCorruptError("The ledger's log doesn't begin with its identity: restore its first commit.")
        return self.created

    def window(self, name: str, manifest: str | None = None) -> Window:
        """A window that counts.

        :param manifest: hash of the manifest that its reader has; None if it has none.
        :raises LedgerConflictError: when there is none of that name, or it is another one.
        """
        window = self.windows.get(name)
        if window is None:
            raise LedgerConflictError(
                f"Pipeline {self.begun.pipeline} has no window {name}: it was never resolved, or was voided since. "
                "Clear the task that resolves it."
            )
        if manifest is not None and window.manifest != manifest:
            raise LedgerConflictError(
                f"Window {name} was resolved anew, to other offsets (manifest {window.manifest}, and {manifest} "
                "before). Clear the task that resolves it."
            )
        return window

    @property
    def cluster_id(self) -> str | None:
        """The cluster that new offsets belong to; None for an empty log."""
        moved = (restart.cluster_id for restart in reversed(self.restarts) if restart.cluster_id is not None)
        return next(moved, None if self.created is None else self.created.cluster_id)

    @property
    def newest_snapshot(self) -> Snapshotted | None:
        """The one that is last in time."""
        return next(reversed(self.snapshots.values()), None) if self.snapshots else None

    def crossing(self, start_ms: int, end_ms: int) -> list[Window]:
        """The windows that have some of the time between two instants, in order."""
        windows = list(self.windows.values())
        first = bisect_right(windows, start_ms, key=lambda window: window.end_ms)
        return list(takewhile(lambda window: window.start_ms < end_ms, windows[first:]))

    @property
    def last_window(self) -> Window | None:
        """The window that is last in time; None when there is none."""
        return next(reversed(self.windows.values()), None) if self.windows else None

    @property
    def published(self) -> Iterator[Window]:
        """The published windows, in order of time."""
        return (window for window in self.windows.values() if window.publication is not None)

    def increment(self, by: str) -> Window | None:
        """The increment of a run; None when it has none."""
        return next((window for window in reversed(self.windows.values()) if window.by == by), None)

    def anew(self, snapshot: OffsetSnapshot, at_ms: int, number: int = sys.maxsize) -> OffsetSnapshot:
        """A snapshot's offsets as the logs go on: without what restarts have taken since.

        Offsets are compared, and ranges made, only of snapshots that have both been brought to the same commit: what
        is between them is then of the same logs.

        :param at_ms: the snapshot's place in time.
        :param number: as the ledger knew the logs after this commit; now by default.
        """
        for restart in self.restarts:
            if at_ms < restart.at_ms and restart.number <= number:
                snapshot = snapshot.begun_anew(restart.topics, restart.truncated, restart.cluster_id, restart.resumed)
        return snapshot

    def counts_after(self, to_ms: int) -> Callable[[int, int], bool]:
        """What still counts after a rewind to an instant: whether something does, by its commit's number and its time.
        What was decided after a restart that stops counting doesn't: it may be without the restart's topics."""
        gone = min((restart.number for restart in self.restarts if restart.at_ms > to_ms), default=sys.maxsize)
        return lambda number, at_ms: at_ms <= to_ms and number < gone
