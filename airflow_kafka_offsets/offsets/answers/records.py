"""What was found by reading a log (Fetch, key 1): its first visible record, or what is at each of its offsets.

Offsets alone don't tell whether there is anything left to read: transaction markers, aborted records and compaction
leave offsets that no reader gets (E11, E12), and a timestamp look-up may match a marker (E41). Reading the log does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import AnswerSet, PartitionMap


class ReadPosition(NamedTuple):
    """A reader's position in a partition. Sorts by topic, partition and offset.

    :param offset: the next offset to read, which is what a group commits.
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.topic}-{self.partition}"


class FirstRecord(NamedTuple):
    """The first visible record at or after a position, if there is one.

    With neither a record nor an error, no visible record lies in ``[position, searched_to)``.

    :param position: the offset that was asked about.
    :param offset: the record's offset; above ``position`` when the offsets in between are markers, aborted, compacted
        away, older than requested, or deleted (``position`` below the log start).
    :param timestamp_ms: the record's timestamp, Unix milliseconds; None when it has none (before Kafka 0.10, or a
        negative one), or when it can't be read because the batch's codec isn't installed or the batch unpacks to too
        much.
    :param searched_to: when no record was found, the end of the visible log at that time: last stable offset under
        read_committed, high watermark under read_uncommitted; below ``position`` when that lies past the end. None
        with a record or an error.
    :param error: Kafka's error for this position alone; nothing else is then known.
    :param missing_codec: codec that the timestamp needs and that isn't installed on this machine; otherwise empty.
    """

    topic: str
    partition: int
    position: int
    offset: int | None = None
    timestamp_ms: int | None = None
    searched_to: int | None = None
    error: ResponseError | None = None
    missing_codec: str = ""


class FirstRecords(AnswerSet[FirstRecord]):
    """First records by position; iterates in order of topic, partition and position."""

    asked = "Reading the first record"

    @staticmethod
    def key(element: FirstRecord) -> ReadPosition:
        return ReadPosition(element.topic, element.partition, element.position)

    def __contains__(self, position: ReadPosition) -> bool:
        return position in self._elements

    def lookup(self, topic: str, partition: int, position: int) -> FirstRecord | None:
        """The element of one position; None when it wasn't asked for."""
        return self._elements.get((topic, partition, position))

    def nothing_before(self, position: ReadPosition, end_offset: int) -> bool:
        """Whether it is known that no visible record lies in ``[position, end_offset)``."""
        found = self._elements.get(position)
        if found is None or found.error is not None:
            return False
        reached = found.searched_to if found.offset is None else found.offset
        return reached is not None and reached >= end_offset


Runs = tuple[tuple[int, int], ...]
"""Offsets that follow each other without a gap, in order: the first one of each run, and one past its last."""
MOST_RUNS = 20_000
"""How many runs of a range are kept at most: a transaction of a few records makes one."""


class LogContent(NamedTuple):
    """What a range of one partition's log holds. When in error, what was counted before the error.

    Each offset of a range is one of four things, so the four counts add up to its span: a record, an aborted record, a
    transaction marker (E12), or nothing, because the log cleaner removed it (E11).

    :param start_offset: first offset of the range, inclusive.
    :param end_offset: its end, exclusive.
    :param records: records that a reader gets at the requested isolation level.
    :param aborted: records of aborted transactions; 0 under read_uncommitted, where a reader gets them.
    :param markers: transaction markers, of commits and of aborts.
    :param missing: offsets where the log no longer has anything.
    :param offset_sum: sum of the records' offsets; None when a compacted batch hides which offsets they have.
    :param error: Kafka's error for this partition alone, which stopped the count.
    :param runs: the records' offsets; None when a compacted batch hides them, or there are more than
        :data:`MOST_RUNS`.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int = 0
    aborted: int = 0
    markers: int = 0
    missing: int = 0
    offset_sum: int | None = 0
    error: ResponseError | None = None
    runs: Runs | None = ()

    @property
    def counted_to(self) -> int:
        """One past the last offset that was counted."""
        return self.start_offset + self.records + self.aborted + self.markers + self.missing

    @property
    def is_complete(self) -> bool:
        return self.counted_to >= self.end_offset

    @property
    def is_gone(self) -> bool:
        """Whether retention or DeleteRecords removed an offset before it was counted (E9)."""
        return self.error is not None and self.error.name == "OFFSET_OUT_OF_RANGE"


class LogContents(PartitionMap[LogContent]):
    """Log contents by partition."""

    asked = "Counting what logs hold"


@dataclass(frozen=True, slots=True)
class GapCauses:
    """Why some offsets of a window have no record, according to the topics' logs.

    :param markers: transaction markers.
    :param aborted: records of aborted transactions.
    :param compacted: offsets that the log cleaner had emptied before the load, and markers and aborted records that it
        has removed since.
    :param removed_since: records that the load read and the log cleaner has removed since. These aren't gaps.
    """

    markers: int = 0
    aborted: int = 0
    compacted: int = 0
    removed_since: int = 0

    def __str__(self) -> str:
        words = f"{self.markers} markers, {self.aborted} aborted records, {self.compacted} compacted away"
        return words + (f"; {self.removed_since} records were compacted away since" if self.removed_since else "")
