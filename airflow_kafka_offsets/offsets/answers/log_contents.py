"""Log contents: what a range of a log holds at its offsets: records, and why there is none at the others.

Each offset of a range is one of four things, so that the four counts add up to its span: a record, an aborted record,
a transaction marker (E12), or nothing any more, since the cleaner took it (E11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap

_GONE = "OFFSET_OUT_OF_RANGE"


class LogRange(NamedTuple):
    """Some offsets of a partition.

    :param topic: topic name.
    :param partition: partition number.
    :param start_offset: first offset, inclusive.
    :param end_offset: end, exclusive.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int


class LogContent(NamedTuple):
    """What a range of one partition's log holds; what was counted of it so far, where it is in error.

    :param topic: topic name.
    :param partition: partition number.
    :param start_offset: first offset of the range, inclusive.
    :param end_offset: its end, exclusive.
    :param records: records that a reader gets at the isolation level that was asked for.
    :param aborted: records of aborted transactions; 0 under read_uncommitted, where a reader gets them.
    :param markers: transaction markers, of commits and of aborts.
    :param missing: offsets at which the log has nothing any more.
    :param offset_sum: sum of the records' offsets; None where a compacted batch hides which they are.
    :param error: Kafka's error for this partition alone: why the counts end where they do.
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

    @property
    def counted_to(self) -> int:
        """One past the last offset that was counted."""
        return self.start_offset + self.records + self.aborted + self.markers + self.missing

    @property
    def is_complete(self) -> bool:
        """Whether each offset of the range was counted."""
        return self.counted_to >= self.end_offset

    @property
    def is_gone(self) -> bool:
        """Whether retention or DeleteRecords has passed an offset that was still to be counted (E9)."""
        return self.error is not None and self.error.name == _GONE


class LogContents(PartitionMap[LogContent]):
    """Log contents by partition."""

    asked = "Counting what logs hold"
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GapCauses:
    """Why offsets of a window have no record, as its topics' logs show it.

    :param markers: transaction markers.
    :param aborted: records of aborted transactions.
    :param compacted: offsets that the cleaner had emptied before the load, or markers and aborted records that it took
        since.
    :param removed_since: records that the load has read, and the cleaner took since. They are no gaps.
    """

    markers: int = 0
    aborted: int = 0
    compacted: int = 0
    removed_since: int = 0

    def __str__(self) -> str:
        words = f"{self.markers} markers, {self.aborted} aborted records, {self.compacted} compacted away"
        return words + (f"; {self.removed_since} records were compacted away since" if self.removed_since else "")
