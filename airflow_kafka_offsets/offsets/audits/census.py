"""The census of a window: which of its offsets have a record, counted while the log had them all.

It outlives the topic's retention: a table can be compared with it long after. Compaction goes on removing records, so
of a compacted topic there is none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import NamedTuple

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.offsets.answers.records import LogContent, Runs
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, by_partition


class CountedPartition(NamedTuple):
    """Which offsets of a partition have a record.

    :param records: how many.
    :param runs: these offsets; None if nobody can tell, or they are too many to keep.
    """

    topic: str
    partition: int
    records: int
    runs: Runs | None


@dataclass(frozen=True, slots=True)
class Census:
    """Which offsets have a record."""

    partitions: Mapping[TopicPartition, CountedPartition]

    @classmethod
    def of(cls, contents: Iterable[LogContent]) -> Self:
        """What was counted, each range to its end."""
        counted = (CountedPartition(each.topic, each.partition, each.records, each.runs) for each in contents)
        return cls(by_partition(counted))

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions.values())

    def records_in(self, cell: LogRange) -> Iterator[LogRange]:
        """The runs of a cell whose partition's are known."""
        runs = self.partitions[TopicPartition.of(cell)].runs or ()
        first = bisect_right(runs, cell.start_offset, key=lambda run: run[1])
        for start, end in takewhile(lambda run: run[0] < cell.end_offset, islice(runs, first, None)):
            yield cell._replace(start_offset=max(start, cell.start_offset), end_offset=min(end, cell.end_offset))
