"""What each task of a run wrote, and the parts of its range without rows that only Kafka can explain.

A Spark task reads one range of one partition in order. So if a read is stopped early, by a limit or by a function that
stops iterating, the end of a task's range is lost; and if rows are dropped after they were counted, written differs
from read. When offsets may lack a record, the proof consists of these facts: what was written is what was read, each
task started once, and Kafka has no record before a task's first row or after its last one. No I/O here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, by_partition
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally

_HEX_DIGITS = 11
"""How much of a hash is used: 44 bits, so that half a million of them can be summed without overflow."""


@dataclass(frozen=True, slots=True)
class TaskRows:
    """What the output holds of one task's range: its smallest and largest offset; None without rows."""

    task: LogRange
    first: int | None
    last: int | None

    def silent(self) -> Iterator[LogRange]:
        """The parts without a row at both ends of the range; the whole range if it has no rows."""
        if self.first is None or self.last is None:
            yield self.task
            return
        ends = self.task._replace(end_offset=self.first), self.task._replace(start_offset=self.last + 1)
        yield from (stretch for stretch in ends if stretch.span > 0)


def split_with_gaps(tasks: Iterable[LogRange], written: Iterable[PartitionTally]) -> list[LogRange]:
    """The tasks whose rows must be looked at one by one: their partition lacks rows, and several tasks read it."""
    rows = by_partition(written)
    return [
        task
        for partition, parts in _parts(tasks)
        if len(parts) > 1 and partition in rows and not _whole(parts, rows[partition])
        for task in parts
    ]


def rows_of_tasks(
    tasks: Iterable[LogRange],
    written: Iterable[PartitionTally],
    looked_at: Mapping[LogRange, tuple[int, int]],
) -> list[TaskRows]:
    """What each task wrote, in order.

    :param looked_at: first and last offset of each task from :func:`split_with_gaps` that has rows.
    """
    rows = by_partition(written)
    found = []
    for partition, parts in _parts(tasks):
        tally = rows.get(partition)
        for task in parts:
            extent: tuple[int, int] | tuple[None, None] = (None, None)
            if tally is not None and _whole(parts, tally):
                extent = task.start_offset, task.end_offset - 1
            elif tally is not None:
                alone = (tally.min_offset, tally.max_offset) if len(parts) == 1 else (None, None)
                extent = looked_at.get(task, alone)
            found.append(TaskRows(task, *extent))
    return found


def starts_of(rows: Iterable[TaskRows]) -> int:
    """Sum of :func:`start_hash` over the tasks that wrote something. The read's own sum is the same if each task was
    read once, and from its first record on."""
    return sum(
        start_hash(written.task.topic, written.task.partition, written.first)
        for written in rows
        if written.first is not None
    )


def start_hash(topic: str, partition: int, offset: int) -> int:
    """A number for a task's first record; Spark computes the same with :data:`START_HASH`."""
    name = f"{topic}-{partition}-{offset}"
    return int(hashlib.sha256(name.encode()).hexdigest()[:_HEX_DIGITS], 16)


START_HASH = (
    f"cast(conv(left(sha2(concat_ws('-', `topic`, `partition`, `offset`), 256), {_HEX_DIGITS}), 16, 10) AS bigint)"
)
""":func:`start_hash` in Spark's SQL."""


def _parts(tasks: Iterable[LogRange]) -> Iterator[tuple[TopicPartition, Sequence[LogRange]]]:
    for partition, parts in groupby(sorted(tasks), TopicPartition.of):
        yield partition, list(parts)


def _whole(parts: Sequence[LogRange], tally: PartitionTally) -> bool:
    return tally.count >= sum(part.span for part in parts)
