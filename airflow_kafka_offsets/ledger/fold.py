"""The fold: how the commits of a pipeline's log add up to its state, entry by entry. No I/O, no race, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import (
    AnyEntry,
    Attempted,
    Audited,
    Counted,
    Created,
    Pinned,
    Published,
    Reloaded,
    Restarted,
    Rewound,
    Snapshotted,
    Verified,
    Voided,
)
from airflow_kafka_offsets.ledger.state import Attempt, Audit, Publication, State, StoredSnapshot, Window
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent


@dataclass(frozen=True, slots=True)
class Commit:
    """One step of the log, which happened or didn't.

    :param number: its number, from 1 on, without gaps.
    :param entries: what it says.
    """

    number: int
    entries: tuple[AnyEntry, ...]


def fold(state: State, commits: Iterable[Commit]) -> State:
    """What a state and the commits after it add up to.

    :raises LedgerCorruptError: when commits are missing between the two, or say what nothing could have decided.
    """
    folded = _Fold(state)
    for commit in commits:
        folded.add(commit)
    return folded.state()


class _Fold:
    """A state while commits are added, so that its parts are copied once, however many commits there are."""

    def __init__(self, state: State) -> None:
        self._number = state.number
        self._created = state.created
        self._snapshots = dict(state.snapshots)
        self._windows = dict(state.windows)
        self._restarts = list(state.restarts)
        self._turned = state.turned
        self._rows_left = set(state.rows_left)

    def state(self) -> State:
        """The state now."""
        return State(
            self._number,
            self._created,
            dict(sorted(self._snapshots.items())),
            dict(sorted(self._windows.items())),
            tuple(self._restarts),
            self._turned,
            frozenset(self._rows_left),
        )

    def add(self, commit: Commit) -> None:
        """Add the next commit."""
        if commit.number != self._number + 1:
            raise LedgerCorruptError(
                f"Commit {commit.number} of the ledger's log follows {self._number}: what is between is missing."
            )
        self._number = commit.number
        try:
            for entry in commit.entries:
                self._add(entry)
        except KeyError as error:
            raise LedgerCorruptError(f"Commit {commit.number} is about {error}, which the log doesn't have.") from error

    @singledispatchmethod
    def _add(self, entry: AnyEntry) -> None:
        raise TypeError(entry)

    @_add.register
    def _(self, entry: Created) -> None:
        self._created = entry

    @_add.register
    def _(self, entry: Snapshotted) -> None:
        stored = StoredSnapshot(self._number, entry.at_ms, entry.as_of.kind, entry.offsets, bool(entry.is_origin))
        self._snapshots[entry.at_ms] = stored

    @_add.register
    def _(self, entry: Pinned) -> None:
        extent = window_extent(entry.window)
        made = Window(entry.window, *extent, self._number, entry.manifest, entry.offsets, entry.by)
        self._windows[entry.window] = made

    @_add.register
    def _(self, entry: Counted) -> None:
        self._set(entry.window, census=entry.census)

    @_add.register
    def _(self, entry: Attempted) -> None:
        attempts = (*self._windows[entry.window].attempts, Attempt(self._number, entry.who, entry.lost, entry.begun_ms))
        self._set(entry.window, attempts=attempts)

    @_add.register
    def _(self, entry: Published) -> None:
        # Earlier attempts can't be published any more; later ones may have replaced rows in a table.
        attempts = tuple(each for each in self._windows[entry.window].attempts if each.number >= entry.attempt)
        stands = (entry.attempt, entry.run, entry.result, entry.outputs, entry.apart, entry.published_ms)
        made = Publication(self._number, *stands)
        self._set(entry.window, attempts=attempts, publication=made)

    @_add.register
    def _(self, entry: Verified) -> None:
        counts = self._windows[entry.window].publication
        if counts is None or counts.attempt != entry.attempt:
            raise LedgerCorruptError(f"Commit {self._number} is a verdict on what isn't published: {entry}.")
        self._set(entry.window, publication=counts._replace(verdict=entry.verdict))

    @_add.register
    def _(self, entry: Audited) -> None:
        found = (entry.run, entry.report, entry.counts, entry.rows, entry.records, entry.who, entry.audited_ms)
        made = Audit(self._number, entry.table, *found)
        others = (each for each in self._windows[entry.window].audits if each.table != entry.table)
        self._set(entry.window, audits=tuple(sorted((*others, made), key=lambda each: each.table)))

    @_add.register
    def _(self, entry: Reloaded) -> None:
        asked = self._windows[entry.window].reloaded_by
        self._set(entry.window, reloaded=self._number, reloaded_by=(*asked, entry.by) if entry.by else asked)

    def _set(self, window: str, **changed: Any) -> None:
        self._windows[window] = self._windows[window]._replace(**changed)

    @_add.register
    def _(self, entry: Voided) -> None:
        self._take_away(entry.window)

    def _take_away(self, name: str) -> None:
        window = self._windows.pop(name)
        if window.attempts and window.offsets:
            self._rows_left.add(name)

    @_add.register
    def _(self, entry: Rewound) -> None:
        counts = self.state().counts_after(entry.to_ms)
        self._snapshots = {at_ms: each for at_ms, each in self._snapshots.items() if counts(each.number, at_ms)}
        for window in [each for each in self._windows.values() if not counts(each.number, each.end_ms)]:
            self._take_away(window.name)
        self._restarts = [(number, each) for number, each in self._restarts if each.at_ms <= entry.to_ms]
        self._turned = self._number

    @_add.register
    def _(self, entry: Restarted) -> None:
        self._restarts.append((self._number, entry))
        self._turned = self._number
