"""What tasks wrote: which stretches Kafka has to be asked for, and with which records the tasks began."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally
from airflow_kafka_offsets.offsets.proof.task_rows import (
    TaskRows,
    rows_of_tasks,
    split_with_gaps,
    start_hash,
    starts_of,
)

END = 30
LOG = list(range(END))


def tally(offsets: list[int], partition: int = 0) -> PartitionTally:
    return PartitionTally("t", partition, len(offsets), min(offsets), max(offsets), sum(offsets), 0)


def task(start: int, end: int, partition: int = 0) -> LogRange:
    return LogRange("t", partition, start, end)


def extents(tasks: list[LogRange], offsets: list[int]) -> Mapping[LogRange, tuple[int, int]]:
    """What a scan by task finds."""
    found = {each: [offset for offset in offsets if each.start_offset <= offset < each.end_offset] for each in tasks}
    return {each: (min(rows), max(rows)) for each, rows in found.items() if rows}


class TestStretches:
    @pytest.mark.parametrize(
        ("first", "last", "expected"),
        [
            pytest.param(0, 9, [], id="of a task that wrote its range to both ends there is none"),
            pytest.param(0, 8, [task(9, 10)], id="after the last row"),
            pytest.param(3, 9, [task(0, 3)], id="before the first row"),
            pytest.param(3, 3, [task(0, 3), task(4, 10)], id="around a single row"),
            pytest.param(None, None, [task(0, 10)], id="the whole range of a task without rows"),
        ],
    )
    def test_are(self, first: int | None, last: int | None, expected: list[LogRange]) -> None:
        assert list(TaskRows(task(0, 10), first, last).silent()) == expected


class TestScans:
    def test_a_task_a_partition_needs_no_second_scan(self) -> None:
        tasks = [task(0, 10), task(0, 10, partition=1)]
        written = [tally([2, 5]), tally([1], partition=1)]
        assert split_with_gaps(tasks, written) == []
        assert [(each.first, each.last) for each in rows_of_tasks(tasks, written, {})] == [(2, 5), (1, 1)]

    def test_a_split_partition_without_gaps_needs_none_either(self) -> None:
        tasks = [task(0, 5), task(5, 10)]
        assert split_with_gaps(tasks, [tally(list(range(10)))]) == []
        assert [(each.first, each.last) for each in rows_of_tasks(tasks, [tally(list(range(10)))], {})] == [
            (0, 4),
            (5, 9),
        ]

    def test_a_partition_without_rows_is_silent(self) -> None:
        tasks = [task(0, 5), task(5, 10)]
        assert split_with_gaps(tasks, []) == []
        assert [list(each.silent()) for each in rows_of_tasks(tasks, [], {})] == [[tasks[0]], [tasks[1]]]


@given(
    records=st.sets(st.sampled_from(LOG), min_size=1),
    cuts=st.sets(st.integers(1, END - 1), max_size=5),
    reads=st.lists(st.integers(0, END), min_size=6, max_size=6),
)
def test_of_a_read_that_stops_anywhere_kafka_is_asked_for_every_record_that_is_missing(
    records: set[int], cuts: set[int], reads: list[int]
) -> None:
    """Each task reads some of its records in order. Either all records are written, or one lies in a stretch."""
    bounds = [0, *sorted(cuts), END]
    tasks = [task(start, end) for start, end in pairwise(bounds)]
    written: list[int] = []
    for each, count in zip(tasks, reads, strict=False):
        written += [offset for offset in LOG[each.start_offset : each.end_offset] if offset in records][:count]
    tallies = [tally(written)] if written else []
    found = rows_of_tasks(tasks, tallies, extents(split_with_gaps(tasks, tallies), written))
    asked = {offset for each in found for part in each.silent() for offset in range(part.start_offset, part.end_offset)}
    assert bool(asked & records) == (set(written) != records)
    assert not asked & set(written)


class TestStarts:
    def test_are_summed_up_over_the_tasks_with_rows(self) -> None:
        rows = [TaskRows(task(0, 5), 1, 3), TaskRows(task(5, 10), None, None), TaskRows(task(0, 5, 1), 0, 0)]
        assert starts_of(rows) == start_hash("t", 0, 1) + start_hash("t", 1, 0)

    def test_a_task_that_began_twice_makes_another_sum(self) -> None:
        rows = TaskRows(task(0, 5), 1, 3)
        assert starts_of([rows, rows]) != starts_of([rows])
