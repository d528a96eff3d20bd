"""First records: the first visible record at or after a position in a log, read from the log itself (Fetch, key 1).

Offsets alone don't tell whether there is anything left to read: transaction markers, aborted records and compaction
leave offsets that no reader gets (E11, E12), and a timestamp look-up may match a marker (E41). What a read finds does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answer_set import AnswerSet


class ReadPosition(NamedTuple):
    """Where a reader of a partition stands. Sorts by topic, partition and offset.

    :param topic: topic name.
    :param partition: partition number.
    :param offset: the next offset that it reads: what a group commits.
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from offset {self.offset}"


class FirstRecord(NamedTuple):
    """The first visible record at or after a position, or that there is none.

    Without a record and without an error, no visible record lies in ``[position, searched_to)``.

    :param topic: topic name.
    :param partition: partition number.
    :param position: the offset that was asked about.
    :param offset: the record's; above ``position`` where offsets in between are markers, aborted, compacted away, older
        than was asked for, or deleted (``position`` below the log start).
    :param timestamp_ms: the record's, Unix milliseconds; None when the record has none (before Kafka 0.10), or when it
        can't be told because the batch's codec isn't installed.
    :param searched_to: without a record, the end of the visible log as it was read: last stable offset under
        read_committed, high watermark under read_uncommitted; below ``position`` when that lies past the end. None
        with a record or an error.
    :param error: Kafka's error for this position alone; nothing else is known then.
    """

    topic: str
    partition: int
    position: int
    offset: int | None = None
    timestamp_ms: int | None = None
    searched_to: int | None = None
    error: ResponseError | None = None


class FirstRecords(AnswerSet[FirstRecord]):
    """First records by position; iterates in order of topic, partition and position."""

    asked = "Reading the first record"
    __slots__ = ("_positions",)

    def __init__(self, elements: Iterable[FirstRecord] = ()) -> None:
        self._positions = {ReadPosition(each.topic, each.partition, each.position): each for each in elements}

    def __iter__(self) -> Iterator[FirstRecord]:
        return (self._positions[each] for each in self.positions())

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, position: ReadPosition) -> bool:
        return position in self._positions

    @staticmethod
    def label(element: FirstRecord) -> str:
        """``topic-partition from offset position``."""
        return str(ReadPosition(element.topic, element.partition, element.position))

    def lookup(self, topic: str, partition: int, position: int) -> FirstRecord | None:
        """The element of one position; None when it wasn't asked for."""
        return self._positions.get(ReadPosition(topic, partition, position))

    def nothing_before(self, position: ReadPosition, end_offset: int) -> bool:
        """Whether it is known that no visible record lies in ``[position, end_offset)``."""
        found = self._positions.get(position)
        if found is None or found.error is not None:
            return False
        reached = found.searched_to if found.offset is None else found.offset
        return reached is not None and reached >= end_offset

    def positions(self) -> list[ReadPosition]:
        """All positions, in order."""
        return sorted(self._positions)
