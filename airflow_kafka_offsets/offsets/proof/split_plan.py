"""The split plan: which tasks Spark makes of a window's ranges, and the option that makes it do so.

Without options, a task reads one partition, so a hot partition holds up the run. Spark splits ranges by number of
offsets: first by ``maxRecordsPerPartition`` (SPARK-49259, since 4.0), then by ``minPartitions``. The result is computed
here to the offset, as Spark's ``KafkaOffsetRangeCalculator`` does, so the plan is what will happen. Spark runs the
tasks in any order.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition

MIN_PARTITIONS, MAX_RECORDS = "minPartitions", "maxRecordsPerPartition"
DEFAULT_BYTES_PER_RECORD = 1024.0
"""Assumed when the size is unknown."""
SMALLEST_TASK_BYTES = 32 * 1024 * 1024
"""No task is made smaller: each opens a consumer, and throws away what its last fetch returns past its end."""
LARGEST_TASK_BYTES = 512 * 1024 * 1024
"""Limits what a failed task has to read again. Also, Spark may know of only a few cores when it plans."""
_TASKS_PER_CORE = 4
"""For windows that need splitting: at worst, the last tasks keep some cores waiting for a quarter of the run."""
_TOLERATED = 1.1
"""A run that takes at most this many times as long as on evenly busy cores isn't split."""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How Spark reads a window; ``str`` gives tasks, bytes and skew in one line.

    :param tasks: all tasks.
    :param partitions: number of non-empty partitions.
    :param options: the reader's options that cause it; empty when nothing is split.
    :param bytes_per_record: assumed size of a record, on average over all topics.
    :param cores: how many tasks run at the same time; None when unknown.
    """

    tasks: tuple[LogRange, ...]
    partitions: int
    options: Mapping[str, str]
    bytes_per_record: float
    cores: int | None

    @property
    def span(self) -> int:
        return sum(task.span for task in self.tasks)

    @property
    def skew(self) -> float:
        """Size of the largest task divided by the mean; 1 when all are equal, or there are none."""
        return max(task.span for task in self.tasks) * len(self.tasks) / self.span if self.tasks else 1.0

    def _size(self, span: int) -> str:
        return f"{span * self.bytes_per_record / 2**20:,.1f} MiB"

    def __str__(self) -> str:
        how = ", ".join(f"{name}={value}" for name, value in self.options.items()) or "no split"
        where = "an unknown number of cores" if self.cores is None else _count(self.cores, "core")
        return (
            f"{_count(len(self.tasks), 'task')} of {_count(self.partitions, 'partition')} on {where} ({how}): "
            f"{_count(self.span, 'record')}, {self._size(self.span)} at {self.bytes_per_record:,.0f} bytes a "
            f"record, skew {self.skew:.1f}"
        )


def split_plan(
    ranges: Iterable[LogRange],
    *,
    bytes_per_record: float | None = None,
    cores: int | None = None,
    options: Mapping[str, str] | None = None,
    by_records: bool = True,
) -> SplitPlan:
    """Plan a window's tasks: by the options if they set a split, otherwise so that the run ends early.

    A run is split when a partition holds it up, or is larger than :data:`LARGEST_TASK_BYTES`; never when the number of
    cores is unknown.

    :param ranges: what is read of the window; empty ranges make no tasks.
    :param bytes_per_record: average over all topics; None for :data:`DEFAULT_BYTES_PER_RECORD`.
    :param cores: how many tasks run at the same time; None when unknown.
    :param options: options of Spark's Kafka reader; ``minPartitions="1"`` turns splitting off.
    :param by_records: whether this Spark knows ``maxRecordsPerPartition``. If not, ``minPartitions`` is used instead,
        which makes tasks a little larger or smaller.
    :raises ConfigurationError: when ``minPartitions`` or ``maxRecordsPerPartition`` isn't a whole number above 0, or
        this Spark doesn't know the latter.
    """
    whole = [each for each in ranges if each.span]
    size = bytes_per_record or DEFAULT_BYTES_PER_RECORD
    chosen = _given(options or {}) or _chosen([task.span for task in whole], size, cores, by_records)
    if MAX_RECORDS in chosen and not by_records:
        raise ConfigurationError(f"{MAX_RECORDS} needs Spark 4.0, and would be ignored: use {MIN_PARTITIONS}.")
    tasks = _spark_tasks(whole, {name: int(value) for name, value in chosen.items()})
    return SplitPlan(tuple(tasks), len(set(map(TopicPartition.of, whole))), chosen, size, cores)


def is_small(span: int, bytes_per_record: float | None) -> bool:
    """Whether so many offsets are less than the smallest task, as far as anybody knows: no plan divides them.

    :param bytes_per_record: None if unknown.
    """
    return span * (bytes_per_record or DEFAULT_BYTES_PER_RECORD) < SMALLEST_TASK_BYTES


def _spark_tasks(whole: Sequence[LogRange], options: Mapping[str, int]) -> Sequence[LogRange]:
    """The tasks that Spark makes of whole ranges, in the ranges' order."""
    tasks = whole
    if MAX_RECORDS in options:
        tasks = [part for task in tasks for part in _divided(task, math.ceil(task.span / options[MAX_RECORDS]))]
    wanted = options.get(MIN_PARTITIONS, 0)
    return _divided_by_share(tasks, wanted) if wanted > len(tasks) else tasks


def _divided(task: LogRange, parts: int) -> Iterator[LogRange]:
    """Equal parts; later ones get the rounding, and parts without offsets are left out."""
    start = task.start_offset
    for left in range(parts, 0, -1):
        end = start + (task.end_offset - start) // left
        if end > start:
            yield task._replace(start_offset=start, end_offset=end)
        start = end


def _divided_by_share(tasks: Sequence[LogRange], wanted: int) -> list[LogRange]:
    """About ``wanted`` tasks, with each range divided by its share of the offsets. Small ranges are left whole, and
    don't count in the shares of the others."""
    total = sum(task.span for task in tasks)
    small = [task for task in tasks if _share(task.span, total, wanted) == 1]
    rest, rest_wanted = total - sum(task.span for task in small), max(wanted - len(small), 1)
    # Spark knows small ranges by their partition alone: if one part of a partition is small, all its parts stay whole.
    whole = set(map(TopicPartition.of, small))
    return [
        part
        for task in tasks
        for part in _divided(task, 1 if TopicPartition.of(task) in whole else _share(task.span, rest, rest_wanted))
    ]


def _share(span: int, total: int, wanted: int) -> int:
    """Rounds half up, as Java does."""
    return max(math.floor(span / total * wanted + 0.5), 1)


def _given(options: Mapping[str, str]) -> dict[str, str]:
    """The options that split, by their usual names; Spark ignores case."""
    names = {name.lower(): name for name in (MIN_PARTITIONS, MAX_RECORDS)}
    found = {names[name.lower()]: value for name, value in options.items() if name.lower() in names}
    for name, value in found.items():
        if not (value.isascii() and value.isdecimal() and int(value) > 0):
            raise ConfigurationError(f"{name} must be a whole number above 0, not {value!r}.")
    return found


def _chosen(spans: Sequence[int], bytes_per_record: float, cores: int | None, by_records: bool) -> dict[str, str]:
    """Options that divide no range unnecessarily."""
    if not spans or cores is None:
        return {}
    most = LARGEST_TASK_BYTES / bytes_per_record
    if _last_end(spans, cores) > _TOLERATED * sum(spans) / cores:
        fair = sum(spans) / (cores * _TASKS_PER_CORE)
        most = max(min(fair, most), SMALLEST_TASK_BYTES / bytes_per_record)
    records = math.ceil(most)
    if max(spans) <= records:
        return {}
    if by_records:
        return {MAX_RECORDS: str(records)}
    return {MIN_PARTITIONS: str(sum(math.ceil(span / records) for span in spans))}


def _last_end(spans: Sequence[int], cores: int) -> int:
    """When the last task ends if the first free core takes each task; in offsets read by one core."""
    ends = [0] * min(cores, len(spans))
    for span in spans:
        heapq.heapreplace(ends, ends[0] + span)
    return max(ends)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
