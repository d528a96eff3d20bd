"""Entries of the log of snapshots, named in the index by time like ``20261121T060000000Z_00000042_instant``; and a
writer's view of the log: the neighbours of a new snapshot, which it must not contradict."""

from __future__ import annotations

import math
import re
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from airflow_kafka_offsets.errors import InstantError, LedgerError
from airflow_kafka_offsets.offsets.instants import compact_instant, duration_text, iso_instant, parse_instant
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot

FORGET = "forget"
_MOST_AHEAD_MS = 300_000
"""How far another machine's clock may be ahead of this one's."""
_MARKER = re.compile(rf"(\d{{8}}T\d{{9}}Z)_(\d{{8}})_({'|'.join([*AsOfKind, FORGET])})(?:-([0-9a-z]+))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One entry of the log.

    :param timestamp_ms: its place in time, Unix milliseconds.
    :param number: its place in the log.
    :param kind: an :class:`AsOfKind`; or ``forget``, if it forgets an earlier entry of that time.
    :param about: the run whose increment it ends, or whose first increment it starts; or the number that it forgets;
        empty for other entries.
    """

    timestamp_ms: int
    number: int
    kind: str
    about: str = ""

    @property
    def marker(self) -> str:
        """Its name in the index."""
        about = f"-{self.about}" if self.about else ""
        return f"{compact_instant(self.timestamp_ms)}_{self.number:08d}_{self.kind}{about}"

    @property
    def month(self) -> str:
        """Its folder in the index."""
        return compact_instant(self.timestamp_ms)[:6]

    @property
    def once(self) -> int | str | None:
        """The key that only one snapshot may have, its instant or its run; None when there may be several."""
        return self.timestamp_ms if self.kind == AsOfKind.INSTANT else self.about or None

    @property
    def chained(self) -> bool:
        """Whether it is a snapshot in the chain, which never runs backwards."""
        return self.kind != FORGET and AsOfKind(self.kind).chained

    @classmethod
    def of(cls, snapshot: OffsetSnapshot) -> Self:
        """The entry of a numbered snapshot."""
        assert snapshot.number is not None
        return cls(snapshot.timestamp_ms, snapshot.number, str(snapshot.as_of.kind), snapshot.as_of.run or "")

    @classmethod
    def of_marker(cls, name: str) -> Self | None:
        """The entry that a marker names; None for another name."""
        match = _MARKER.fullmatch(name)
        if match is None:
            return None
        try:
            return cls(parse_instant(match[1]), int(match[2]), match[3], match[4] or "")
        except InstantError:  # digits that form no valid time
            return None

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any] | None) -> Self | None:
        """The entry that a file of the log holds; None when there is no file."""
        if fields is None:
            return None
        if "forgets_ms" in fields:
            return cls(fields["forgets_ms"], fields["number"], FORGET, str(fields["forgets"]))
        as_of = AsOf.from_json(fields["as_of"])
        timestamp_ms = fields["resolved_at_ms"] if as_of.timestamp_ms is None else as_of.timestamp_ms
        return cls(timestamp_ms, fields["number"], str(as_of.kind), as_of.run or "")


def forgotten_instants(entries: Iterable[Entry]) -> dict[int, list[int]]:
    """The instants that were forgotten and not resolved again: numbers of all their snapshots, oldest first."""
    ordered = [entry for entry in sorted(entries) if entry.kind in (AsOfKind.INSTANT, FORGET)]
    forgotten, again = forgotten_numbers(ordered), {entry.timestamp_ms for entry in live(ordered)}
    found: dict[int, list[int]] = {}
    for entry in ordered:
        if entry.number in forgotten and entry.timestamp_ms not in again:
            found.setdefault(entry.timestamp_ms, []).append(entry.number)
    return found


def unchained_times(entries: Iterable[Entry]) -> set[int]:
    """Times of the snapshots outside the chain, Unix milliseconds, including forgotten ones."""
    return {entry.timestamp_ms for entry in entries if entry.kind != FORGET and not entry.chained}


def forgotten_numbers(entries: Iterable[Entry]) -> set[int]:
    """Numbers of the snapshots that these entries forget."""
    return {int(entry.about) for entry in entries if entry.kind == FORGET}


def live(entries: Iterable[Entry]) -> list[Entry]:
    """The snapshots that count, in order of time: without forgotten ones, and without ``forget`` entries."""
    ordered = sorted(entries)
    forgotten = forgotten_numbers(ordered)
    return [entry for entry in ordered if entry.kind != FORGET and entry.number not in forgotten]


class SnapshotIndex:
    """A writer's view of the log.

    :param entries: all entries.
    :param last: number of the newest entry.
    :param in_use: numbers of snapshots that windows which still count were made from. The forgotten ones among them
        bound new snapshots too. A task that later tries to pin a window from one gets an error.
    """

    def __init__(self, entries: list[Entry], last: int, in_use: Collection[int] = ()) -> None:
        self.entries = live(entries)
        self.last = last
        self.in_use = in_use
        self._chain = [entry for entry in self.entries if entry.chained]
        self._once: dict[int | str | None, Entry] = {
            entry.once: entry for entry in self.entries if entry.once is not None
        }
        # An instant may have been forgotten several times, and a window keeps the number that it was made from.
        self.forgotten = {
            at: next((number for number in reversed(numbers) if number in in_use), numbers[-1])
            for at, numbers in forgotten_instants(entries).items()
        }
        """A forgotten snapshot of each instant that wasn't resolved again, numbers by instant: the last one in use; or
        the last one, if none is."""

    def nearer(
        self, timestamp_ms: int, before: OffsetSnapshot | None, after: OffsetSnapshot | None
    ) -> tuple[list[int], list[int]]:
        """Numbers of the forgotten snapshots in use that are nearer to an instant than its neighbours: the earlier ones
        and the later ones, each nearest first."""
        low = -math.inf if before is None else before.timestamp_ms
        high = math.inf if after is None else after.timestamp_ms
        used = sorted(at for at, number in self.forgotten.items() if number in self.in_use and low < at < high)
        earlier = [self.forgotten[at] for at in reversed(used) if at < timestamp_ms]
        return earlier, [self.forgotten[at] for at in used if at > timestamp_ms]

    def find(self, as_of: AsOf) -> Entry | None:
        """The entry of the same instant, or of the same run."""
        return self._once.get(as_of.timestamp_ms if as_of.run is None else as_of.run)

    def following(self, snapshot: OffsetSnapshot) -> OffsetSnapshot:
        """Make an increment's end follow the last increment; the first increment follows the snapshot it was given."""
        before = [entry.number for entry in self.entries if entry.kind == AsOfKind.INCREMENT]
        if snapshot.as_of.kind is not AsOfKind.INCREMENT or not before:
            return snapshot
        return replace(snapshot, as_of=replace(snapshot.as_of, follows=before[-1]))

    def refuse_ahead(self, fresh: OffsetSnapshot, pipeline: str) -> None:
        """Refuse to store a snapshot whose next neighbour in time has a time in the future.

        :raises LedgerError: with the command that forgets that neighbour.
        """
        at_instant = fresh.as_of.kind is AsOfKind.INSTANT
        last = self.entries[-1] if self.entries else None
        neighbour = self.neighbours(fresh.timestamp_ms)[1] if at_instant else last
        if neighbour is not None:
            _refuse_ahead(neighbour, fresh.resolved_at_ms, pipeline)

    def placed(self, snapshot: OffsetSnapshot) -> OffsetSnapshot:
        """The snapshot with a time after all stored ones, even if another machine's clock was ahead: a snapshot as of
        latest must be the newest, and no two may have the same name."""
        if snapshot.as_of.kind is AsOfKind.INSTANT:
            return snapshot
        # Snapshots outside the chain too: windows start and end at them, and go forward in time.
        behind = self.entries[-1].timestamp_ms + 1 if self.entries else 0
        return replace(snapshot, resolved_at_ms=max(snapshot.resolved_at_ms, behind))

    def neighbours(self, timestamp_ms: int) -> tuple[Entry | None, Entry | None]:
        """The last entry of the chain at or before an instant, and the first one after it."""
        place = bisect_right(self._chain, timestamp_ms, key=lambda entry: entry.timestamp_ms)
        return self._chain[place - 1] if place else None, self._chain[place] if place < len(self._chain) else None

    def add(self, snapshot: OffsetSnapshot) -> None:
        """Add an entry that this writer has stored."""
        entry = Entry.of(snapshot)
        self.last = entry.number
        insort(self.entries, entry)
        if entry.once is not None:
            self._once[entry.once] = entry
            self.forgotten.pop(snapshot.timestamp_ms, None)
        if snapshot.as_of.chained:
            insort(self._chain, entry)


def _refuse_ahead(entry: Entry, now_ms: int, pipeline: str) -> None:
    """Refuse to continue if a stored snapshot is from a clock that was ahead, or this clock is behind: that snapshot
    would end every window up to its time at its own offsets.

    :param now_ms: the current time by this machine's clock, Unix milliseconds.
    :raises LedgerError: with the command that forgets the snapshot.
    """
    if entry.timestamp_ms - now_ms <= _MOST_AHEAD_MS:
        return
    ahead, now = duration_text((entry.timestamp_ms - now_ms) / 1000), iso_instant(now_ms)
    after = iso_instant(now_ms + _MOST_AHEAD_MS)
    raise LedgerError(
        f"Snapshot {entry.number} of the ledger was stored for {iso_instant(entry.timestamp_ms)}, {ahead} ahead of "
        f"this machine's clock ({now}). Windows up to then would end at its offsets and miss their records. "
        "Nothing was stored. If this machine's clock is behind, correct it, and clear the task. If it is "
        "right, the clock of the machine that stored the snapshot was ahead: kafka-offsets ledger "
        f"forget-snapshots {pipeline} --after {after} forgets the snapshots that it stored, and names the "
        "windows that were made from them."
    )
