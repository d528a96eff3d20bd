"""The log of snapshots: numbered files, appended optimistically, as Delta Lake commits its log.

A writer lists the log, clamps its snapshot between the nearest stored neighbours in time, and creates the next number
exclusively. When somebody else took it, it lists and clamps again. So every entry is made in full knowledge of all
earlier ones, and the chain is monotone under any race.

``instants/`` is a derived index, so that finding an instant reads one listing: an empty marker per entry, rewritten
from the log where a crash left it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_kafka_offsets.errors import LedgerCorruptError, LedgerError
from airflow_kafka_offsets.ledger.storage import (
    StoragePath,
    create_exclusive,
    names,
    read_json,
    to_json_bytes,
)
from airflow_kafka_offsets.offsets.instants import compact_instant, parse_instant
from airflow_kafka_offsets.offsets.resolving import clamp
from airflow_kafka_offsets.offsets.snapshots import AsOfKind, OffsetSnapshot

_ENTRY = re.compile(r"(\d{8})\.json")
_MARKER = re.compile(r"(\d{8}T\d{9}Z)_(\d{8})_(instant|latest|earliest|group)")
_CHAINED = (AsOfKind.INSTANT, AsOfKind.LATEST)
"""Kinds that stand in one monotone chain. A group's commits and the log start may lie anywhere."""
_MOST_TRIES = 1_000


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One snapshot of the log, as the index knows it.

    :param timestamp_ms: its place in time, Unix milliseconds.
    :param number: its place in the log.
    :param kind: what it is as of.
    """

    timestamp_ms: int
    number: int
    kind: AsOfKind

    @property
    def marker(self) -> str:
        """Its name in the index."""
        return f"{compact_instant(self.timestamp_ms)}_{self.number:08d}_{self.kind}"


class SnapshotLog:
    """One pipeline's snapshots.

    :param folder: the pipeline's folder.
    """

    def __init__(self, folder: StoragePath) -> None:
        self._entries = folder / "snapshots"
        self._markers = folder / "instants"

    def entries(self) -> list[Entry]:
        """All entries in order of time; markers that are missing are written."""
        numbers = {int(match[1]) for match in map(_ENTRY.fullmatch, names(self._entries)) if match}
        marked = [_entry(match) for match in map(_MARKER.fullmatch, names(self._markers)) if match]
        missing = numbers - {each.number for each in marked}
        return sorted([*(each for each in marked if each.number in numbers), *map(self._restore, sorted(missing))])

    def _restore(self, number: int) -> Entry:
        entry = _entry_of(self.read(number))
        create_exclusive(self._markers / entry.marker, b"")
        return entry

    def read(self, number: int) -> OffsetSnapshot:
        """One snapshot.

        :raises LedgerCorruptError: when it is missing or unreadable.
        """
        path = self._entries / f"{number:08d}.json"
        fields = read_json(path)
        if fields is None:
            raise LedgerCorruptError(f"{path} is missing, though the ledger refers to it.")
        return OffsetSnapshot.from_json(fields)

    def at_instant(self, timestamp_ms: int) -> OffsetSnapshot | None:
        """The snapshot at an instant; None when it was never resolved."""
        return self._find(self.entries(), timestamp_ms)

    def append(self, snapshot: OffsetSnapshot) -> OffsetSnapshot:
        """Store a snapshot, clamped between its neighbours. First writer wins.

        :returns: what is stored: for an instant that is there already, the earlier writer's snapshot.
        :raises TopicChangedError: when it contradicts its neighbours.
        """
        for _ in range(_MOST_TRIES):
            entries = self.entries()
            if snapshot.as_of.kind is AsOfKind.INSTANT:
                stored = self._find(entries, snapshot.timestamp_ms)
                if stored is not None:
                    return stored
            numbered = replace(
                self._fit(snapshot, entries), number=1 + max((each.number for each in entries), default=0)
            )
            if self._create(numbered):
                return numbered
        raise LedgerError(
            f"{self._entries} grew {_MOST_TRIES} times while one snapshot was stored. Is something looping?"
        )

    def _find(self, entries: Iterable[Entry], timestamp_ms: int) -> OffsetSnapshot | None:
        for each in entries:
            if each.kind is AsOfKind.INSTANT and each.timestamp_ms == timestamp_ms:
                return self.read(each.number)
        return None

    def _fit(self, snapshot: OffsetSnapshot, entries: list[Entry]) -> OffsetSnapshot:
        if snapshot.as_of.kind not in _CHAINED:
            return snapshot
        chain = [each for each in entries if each.kind in _CHAINED]
        if snapshot.as_of.kind is AsOfKind.LATEST and chain:
            # The newest of all by meaning, whatever another machine's clock said when it stored its own.
            snapshot = replace(snapshot, resolved_at_ms=max(snapshot.resolved_at_ms, chain[-1].timestamp_ms + 1))
        earlier = [each for each in chain if each.timestamp_ms <= snapshot.timestamp_ms]
        later = [each for each in chain if each.timestamp_ms > snapshot.timestamp_ms]
        before = self.read(earlier[-1].number) if earlier else None
        after = self.read(later[0].number) if later else None
        return clamp(snapshot, before, after)

    def _create(self, snapshot: OffsetSnapshot) -> bool:
        assert snapshot.number is not None
        path = self._entries / f"{snapshot.number:08d}.json"
        if not create_exclusive(path, to_json_bytes(snapshot.to_json())):
            return False
        create_exclusive(self._markers / _entry_of(snapshot).marker, b"")
        return True


def _entry(marker: re.Match[str]) -> Entry:
    return Entry(parse_instant(marker[1]), int(marker[2]), AsOfKind(marker[3]))


def _entry_of(snapshot: OffsetSnapshot) -> Entry:
    assert snapshot.number is not None
    return Entry(snapshot.timestamp_ms, snapshot.number, snapshot.as_of.kind)
