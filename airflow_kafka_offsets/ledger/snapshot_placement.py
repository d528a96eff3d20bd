"""The placement of new snapshots: each gets the next number, and offsets between those of its neighbours in time.

This is the computing half of an append. Reading and storing are the log's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from airflow_kafka_offsets.ledger.snapshot_index import SnapshotIndex
from airflow_kafka_offsets.offsets.windows.boundaries import clamp, fits, keep_deleted
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot


@dataclass(frozen=True, slots=True)
class Placed:
    """A snapshot in its place.

    :param snapshot: the snapshot, numbered.
    :param is_stored: whether it is in the log already, since its instant or run has one.
    :param is_fresh: whether it is the given snapshot, and not an earlier one, stored or coming back.
    """

    snapshot: OffsetSnapshot
    is_stored: bool = False
    is_fresh: bool = True


class Placement:
    """Places new snapshots, one after the other.

    :param index: the entries of the log.
    :param read: reads a stored snapshot by its number.
    :param known: number of the newest snapshot that was stored before Kafka was asked for the new ones; None for all.
    :param pipeline: the pipeline's name, for messages.
    """

    def __init__(
        self, index: SnapshotIndex, read: Callable[[int], OffsetSnapshot], known: int | None, pipeline: str
    ) -> None:
        self._index = index
        self._stored = read
        self._known = known
        self._pipeline = pipeline
        self._recent: dict[int, OffsetSnapshot] = {}
        """The last neighbours and the last one placed, which are often the next one's neighbours."""

    def place(self, snapshot: OffsetSnapshot) -> Placed:
        """The place of a snapshot, which must be added once it is stored.

        :raises WindowError: when it contradicts its neighbours, as :func:`.boundaries.clamp` says.
        :raises OutdatedSurveyError: when the neighbour was stored after Kafka was asked.
        """
        entry = self._index.find(snapshot.as_of)
        if entry is not None:
            return Placed(self._stored(entry.number), is_stored=True, is_fresh=False)
        self._index.refuse_ahead(snapshot, self._pipeline)
        number = self._index.last + 1
        snapshot = replace(self._index.placed(self._index.following(snapshot)), number=number)
        if not snapshot.as_of.chained:
            return Placed(snapshot)
        before, after = self._neighbours(snapshot.timestamp_ms)
        at_ms = snapshot.as_of.timestamp_ms
        forgotten = None if at_ms is None else self._index.forgotten.get(at_ms)
        if forgotten is not None:
            old = self._stored(forgotten)
            if forgotten in self._index.in_use and fits(old, before, after):
                return Placed(replace(old, number=number), is_fresh=False)
            snapshot = keep_deleted(snapshot, old, self._known)
        return Placed(clamp(snapshot, before, after, self._known))

    def add(self, placed: Placed) -> None:
        """Add a snapshot, so that the next one is placed beside it."""
        if not placed.is_stored:
            assert placed.snapshot.number is not None, "it was placed"
            self._index.add(placed.snapshot)
            self._recent[placed.snapshot.number] = placed.snapshot

    def _neighbours(self, timestamp_ms: int) -> tuple[OffsetSnapshot | None, OffsetSnapshot | None]:
        """The snapshots that a new one at an instant has to lie between: the nearest that count; or a nearer forgotten
        one that is in use, if it fits between those."""
        read: dict[int, OffsetSnapshot] = {}

        def snapshot(number: int) -> OffsetSnapshot:
            read[number] = self._recent.get(number) or self._stored(number)
            return read[number]

        index = self._index
        before, after = (None if entry is None else snapshot(entry.number) for entry in index.neighbours(timestamp_ms))
        nearer = (map(snapshot, numbers) for numbers in index.nearer(timestamp_ms, before, after))
        earlier, later = (
            next((candidate for candidate in found if fits(candidate, before, after)), None) for found in nearer
        )
        self._recent = read
        return earlier or before, later or after
