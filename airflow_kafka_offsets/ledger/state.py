"""The state: what the commits of a pipeline's log add up to, entry by entry. A value that nobody changes; no I/O, no
race, no clock.

Two rules make it simple. Snapshots are in the order of their times, and each lies above the offsets of the one before
it. Windows never cross in time. So a window's name, which is the times of its two snapshots, says what it shares with
others; nobody needs to read its ranges for that.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import (
    AnyEntry,
    Attempted,
    Audited,
    Created,
    Entries,
    Pinned,
    Published,
    RecordsCounted,
    Refused,
    Reloaded,
    Restarted,
    Rewound,
    Snapshotted,
    Verified,
    Voided,
)
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
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
    :param refusal: the last load that was refused before an attempt began; None if none was.
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
    refusal: Refused | None = None

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
    def refused(self) -> Refused | None:
        """Why the newest load was refused before an attempt began; None if one has begun or was asked for since, or
        none is needed."""
        newest, refusal = self.newest_attempt, self.refusal
        since = max(self.reloaded, 0 if newest is None else newest.number)
        return refusal if self.loaded is None and refusal is not None and refusal.number > since else None

    @property
    def is_elsewhere(self) -> bool:
        """Whether something else has loaded it, and nothing that this ledger knows: all tables that were audited are
        complete."""
        return self.publication is None and bool(self.audits) and not any(each.counts for each in self.audits)

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


@dataclass(frozen=True, slots=True)
class Commit:
    """One step of the log, which happened or didn't.

    :param number: its number, from 1 on, without gaps.
    :param entries: what it says.
    """

    number: int
    entries: Entries


def fold(state: State, commits: Iterable[Commit]) -> State:
    """What a state and the commits after it add up to.

    :raises LedgerCorruptError: when commits are missing between the two, or say what nothing could have decided.
    """
    # Their entries change copies, made once, however many commits there are.
    folded = replace(state, snapshots=dict(state.snapshots), windows=dict(state.windows))
    for number, entries in ((commit.number, commit.entries) for commit in commits):
        if number != folded.number + 1:
            raise LedgerCorruptError(
                f"Commit {number} of the ledger's log follows {folded.number}: what is between is missing."
            )
        folded = replace(folded, number=number)
        try:
            for entry in entries:
                folded = _after(folded, entry)
        except KeyError as error:
            raise LedgerCorruptError(f"Commit {number} is about {error}, which the log doesn't have.") from error
    return replace(
        folded, snapshots=dict(sorted(folded.snapshots.items())), windows=dict(sorted(folded.windows.items()))
    )


def _after(state: State, entry: AnyEntry) -> State:
    """The state after an entry of its newest commit."""
    number = state.number
    match entry:
        case Created():
            return replace(state, created=entry)
        case Snapshotted():
            state.snapshots[entry.at_ms] = entry._replace(number=number)
        case Pinned(name, manifest, offsets, by):
            state.windows[name] = Window(name, *window_extent(name), number, manifest, offsets, by)
        case Voided():
            return _without(state, [entry.window])
        case Rewound():
            counts = state.counts_after(entry.to_ms)
            for stored in [each for at_ms, each in state.snapshots.items() if not counts(each.number, at_ms)]:
                del state.snapshots[stored.at_ms]
            gone = [each.name for each in state.windows.values() if not counts(each.number, each.end_ms)]
            restarts = tuple(each for each in state.restarts if each.at_ms <= entry.to_ms)
            return replace(_without(state, gone), restarts=restarts, turned=number)
        case Restarted():
            return replace(state, restarts=(*state.restarts, entry._replace(number=number)), turned=number)
        case _:
            state.windows[entry.window] = _window_after(state.windows[entry.window], entry, number)
    return state


def _without(state: State, names: Iterable[str]) -> State:
    gone = [state.windows.pop(name) for name in names]
    rows_left = {each.name for each in gone if each.attempts and each.offsets}
    return replace(state, rows_left=state.rows_left | rows_left)


def _window_after(
    window: Window, entry: RecordsCounted | Attempted | Refused | Published | Verified | Audited | Reloaded, number: int
) -> Window:
    match entry:
        case RecordsCounted():
            return window._replace(census=entry.census)
        case Attempted():
            return window._replace(attempts=(*window.attempts, entry._replace(number=number)))
        case Refused():
            return window._replace(refusal=entry._replace(number=number))
        case Published():
            # Earlier attempts can't be published any more; later ones may have replaced rows in a table.
            attempts = tuple(each for each in window.attempts if each.number >= entry.attempt)
            return window._replace(attempts=attempts, publication=entry._replace(number=number), refusal=None)
        case Verified():
            counts = window.publication
            if counts is None or counts.attempt != entry.attempt:
                raise LedgerCorruptError(f"Commit {number} is a verdict on what isn't published: {entry}.")
            return window._replace(publication=counts._replace(verdict=entry.verdict))
        case Audited():
            audits = {each.table: each for each in window.audits} | {entry.table: entry._replace(number=number)}
            return window._replace(audits=tuple(audits[table] for table in sorted(audits)))
        case Reloaded():
            by = (entry.by,) if entry.by else ()
            return window._replace(reloaded=number, reloaded_by=(*window.reloaded_by, *by))
