"""What a writer of the log of snapshots knows of it: whose neighbour a new one is, and what it must not contradict."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from airflow_kafka_offsets.errors import LedgerError
from airflow_kafka_offsets.ledger.snapshot_entry import Entry, last_forgotten, live
from airflow_kafka_offsets.offsets.instants import duration_text, iso_instant
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot

_MOST_AHEAD_MS = 300_000
"""So far ahead of this machine's clock another one's may be."""

InUse = Callable[[Mapping[int, int]], Collection[int]]
"""Of some forgotten snapshots, instant to number, those that windows which go on counting were made from."""


class SnapshotIndex:
    """What a writer knows of the log.

    :param entries: all entries.
    :param last: number of the newest one.
    """

    def __init__(self, entries: list[Entry], last: int) -> None:
        self.entries = live(entries)
        self.last = last
        self.recent: dict[int, OffsetSnapshot] = {}
        self._chain = [entry for entry in self.entries if entry.chained]
        self._once: dict[int | str | None, Entry] = {
            entry.once: entry for entry in self.entries if entry.once is not None
        }
        self.forgotten = {at: number for at, number in last_forgotten(entries).items() if at not in self._once}
        """Those at instants that weren't resolved again."""
        self.in_use: Collection[int] = ()

    def note_in_use(self, in_use: InUse) -> None:
        """Note which forgotten snapshots are in use. Who pins a window from one after this look is told that it was
        forgotten."""
        self.in_use = in_use(self.forgotten) if self.forgotten else ()

    def nearer(
        self, timestamp_ms: int, before: OffsetSnapshot | None, after: OffsetSnapshot | None
    ) -> tuple[list[int], list[int]]:
        """Numbers of the forgotten snapshots in use that are nearer to an instant than its neighbours: the earlier ones
        and the later ones, the nearest first."""
        low = -math.inf if before is None else before.timestamp_ms
        high = math.inf if after is None else after.timestamp_ms
        used = sorted(at for at, number in self.forgotten.items() if number in self.in_use and low < at < high)
        earlier = [self.forgotten[at] for at in reversed(used) if at < timestamp_ms]
        return earlier, [self.forgotten[at] for at in used if at > timestamp_ms]

    def find(self, as_of: AsOf) -> Entry | None:
        """The entry as of the same instant, or of the same run."""
        return self._once.get(as_of.timestamp_ms if as_of.run is None else as_of.run)

    def following(self, snapshot: OffsetSnapshot) -> OffsetSnapshot:
        """An increment follows the one before it; the first one what it was given."""
        before = [entry.number for entry in self.entries if entry.kind == AsOfKind.INCREMENT]
        if snapshot.as_of.kind is not AsOfKind.INCREMENT or not before:
            return snapshot
        return replace(snapshot, as_of=replace(snapshot.as_of, follows=before[-1]))

    def refuse_ahead(self, fresh: OffsetSnapshot, pipeline: str) -> None:
        """Refuse to store a snapshot that stands, by its place in time, before one from the future.

        :raises LedgerError: with the command that takes that one back.
        """
        at_instant = fresh.as_of.kind is AsOfKind.INSTANT
        last = self.entries[-1] if self.entries else None
        neighbour = self.neighbours(fresh.timestamp_ms)[1] if at_instant else last
        if neighbour is not None:
            _refuse_ahead(neighbour, fresh.resolved_at_ms, pipeline)

    def placed(self, snapshot: OffsetSnapshot) -> OffsetSnapshot:
        """The snapshot at a time of its own, whatever another machine's clock said when it stored its own: as of
        latest it is the newest of all by meaning, and no two have one name."""
        if snapshot.as_of.kind is AsOfKind.INSTANT:
            return snapshot
        # Those out of the chain too: windows begin and end at them, and go forward in time.
        behind = self.entries[-1].timestamp_ms + 1 if self.entries else 0
        return replace(snapshot, resolved_at_ms=max(snapshot.resolved_at_ms, behind))

    def neighbours(self, timestamp_ms: int) -> tuple[Entry | None, Entry | None]:
        """The last one of the chain at or before an instant, and the first one after it."""
        place = bisect_right(self._chain, timestamp_ms, key=lambda entry: entry.timestamp_ms)
        return self._chain[place - 1] if place else None, self._chain[place] if place < len(self._chain) else None

    def add(self, snapshot: OffsetSnapshot) -> None:
        """Note an entry of one's own."""
        entry = Entry.of(snapshot)
        self.last = entry.number
        self.recent[entry.number] = snapshot
        insort(self.entries, entry)
        if entry.once is not None:
            self._once[entry.once] = entry
            self.forgotten.pop(snapshot.timestamp_ms, None)
        if snapshot.as_of.chained:
            insort(self._chain, entry)


def _refuse_ahead(entry: Entry, now_ms: int, pipeline: str) -> None:
    """Refuse to go on beside a snapshot from a clock that was ahead, or with a clock that is behind: the snapshot
    would end every window up to its time where it stands.

    :param now_ms: what time it is by this machine's clock, Unix milliseconds.
    :raises LedgerError: with the command that takes the snapshot back.
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
        f"forget-snapshots {pipeline} --after {after} takes back what that machine stored, and names the "
        "windows that were made from it."
    )
