"""The fold: how the commits of a pipeline's log add up to its state, entry by entry. No I/O, no race, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import (
    AnyEntry,
    Attempted,
    Audited,
    Created,
    Pinned,
    Published,
    RecordsCounted,
    Reloaded,
    Restarted,
    Rewound,
    Snapshotted,
    Verified,
    Voided,
)
from airflow_kafka_offsets.ledger.state import State, Window
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

    def _add(self, entry: AnyEntry) -> None:
        match entry:
            case Created():
                self._created = entry
            case Snapshotted():
                self._snapshots[entry.at_ms] = entry._replace(number=self._number)
            case Pinned(name, manifest, offsets, by):
                self._windows[name] = Window(name, *window_extent(name), self._number, manifest, offsets, by)
            case Voided():
                self._take_away(entry.window)
            case Rewound():
                self._rewind(entry.to_ms)
            case Restarted():
                self._restarts.append(entry._replace(number=self._number))
                self._turned = self._number
            case _:
                self._windows[entry.window] = self._changed(self._windows[entry.window], entry)

    def _changed(
        self, window: Window, entry: RecordsCounted | Attempted | Published | Verified | Audited | Reloaded
    ) -> Window:
        """A window after an entry about it."""
        match entry:
            case RecordsCounted():
                return window._replace(census=entry.census)
            case Attempted():
                return window._replace(attempts=(*window.attempts, entry._replace(number=self._number)))
            case Published():
                # Earlier attempts can't be published any more; later ones may have replaced rows in a table.
                attempts = tuple(each for each in window.attempts if each.number >= entry.attempt)
                return window._replace(attempts=attempts, publication=entry._replace(number=self._number))
            case Verified():
                counts = window.publication
                if counts is None or counts.attempt != entry.attempt:
                    raise LedgerCorruptError(f"Commit {self._number} is a verdict on what isn't published: {entry}.")
                return window._replace(publication=counts._replace(verdict=entry.verdict))
            case Audited():
                audits = {each.table: each for each in window.audits}
                audits[entry.table] = entry._replace(number=self._number)
                return window._replace(audits=tuple(audits[table] for table in sorted(audits)))
            case Reloaded():
                by = (entry.by,) if entry.by else ()
                return window._replace(reloaded=self._number, reloaded_by=(*window.reloaded_by, *by))

    def _rewind(self, to_ms: int) -> None:
        counts = self.state().counts_after(to_ms)
        self._snapshots = {at_ms: each for at_ms, each in self._snapshots.items() if counts(each.number, at_ms)}
        for window in [each for each in self._windows.values() if not counts(each.number, each.end_ms)]:
            self._take_away(window.name)
        self._restarts = [each for each in self._restarts if each.at_ms <= to_ms]
        self._turned = self._number

    def _take_away(self, name: str) -> None:
        window = self._windows.pop(name)
        if window.attempts and window.offsets:
            self._rows_left.add(name)
