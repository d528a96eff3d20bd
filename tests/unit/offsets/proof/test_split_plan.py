"""Which tasks Spark makes of a window, and when it is told to make more of them.

That Spark really makes these tasks is tested on Spark: ``tests/integration/spark/test_split_plan.py``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.split_plan import (
    LARGEST_TASK_BYTES,
    SMALLEST_TASK_BYTES,
    SplitPlan,
    split_plan,
)

MIB = 1024 * 1024
SIZES = st.lists(st.integers(0, 20_000), max_size=12)


def ranges(spans: Sequence[int]) -> list[LogRange]:
    """A range a partition, the first offset of each another one."""
    return [LogRange("t", number, number * 7, number * 7 + span) for number, span in enumerate(spans)]


def plan_by_share(spans: Sequence[int], cores: int = 2, **options: str) -> SplitPlan:
    """As :func:`plan`, for a Spark that doesn't know ``maxRecordsPerPartition``."""
    return split_plan(ranges(spans), bytes_per_record=MIB, cores=cores, options=options, by_records=False)


def plan(spans: Sequence[int], cores: int | None = 2, record_bytes: float = MIB, **options: str) -> SplitPlan:
    """By default a record is a mebibyte, so that spans are the ranges' MiB."""
    return split_plan(ranges(spans), bytes_per_record=record_bytes, cores=cores, options=options)


def spans(planned: SplitPlan) -> list[int]:
    return [each.span for each in planned.tasks]


def offsets_by_partition(planned: SplitPlan) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for each in planned.tasks:
        found.setdefault(each.partition, []).append((each.start_offset, each.end_offset))
    return found


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "minPartitions": st.integers(1, 100).map(str),
        "maxRecordsPerPartition": st.integers(1_000, 30_000).map(str),
    },
)


class TestEveryOffsetIsInExactlyOneTask:
    @given(sizes=SIZES, cores=st.integers(1, 64), record_bytes=st.floats(1, 1e9), options=OPTIONS)
    def test_the_tasks_of_a_partition_follow_one_another_from_its_start_to_its_end(
        self, sizes: list[int], cores: int, record_bytes: float, options: Mapping[str, str]
    ) -> None:
        planned = plan(sizes, cores, record_bytes, **options)

        found = offsets_by_partition(planned)
        assert sorted(found) == [number for number, span in enumerate(sizes) if span]
        for number, tasks in found.items():
            assert all(start < end for start, end in tasks)
            assert tasks[0][0] == number * 7
            assert tasks[-1][1] == number * 7 + sizes[number]
            assert [end for _, end in tasks[:-1]] == [start for start, _ in tasks[1:]]
        assert planned.span == sum(sizes)

    @given(sizes=SIZES, most=st.integers(1_000, 30_000))
    def test_no_task_has_more_records_than_allowed_and_none_is_split_in_vain(self, sizes: list[int], most: int) -> None:
        planned = plan(sizes, maxRecordsPerPartition=str(most))

        assert all(span <= most for span in spans(planned))
        assert len(planned.tasks) == sum(-(-span // most) for span in sizes)

    @given(sizes=SIZES, cores=st.integers(1, 64), record_bytes=st.floats(1, 1e9))
    def test_no_task_that_was_split_off_is_small_and_none_is_huge(
        self, sizes: list[int], cores: int, record_bytes: float
    ) -> None:
        """A range a bit over the limit becomes two halves of it."""
        planned = plan(sizes, cores, record_bytes)

        assert all(span <= max(LARGEST_TASK_BYTES / record_bytes + 1, 1) for span in spans(planned))
        if planned.options:
            most = int(planned.options["maxRecordsPerPartition"])
            assert most >= min(SMALLEST_TASK_BYTES, LARGEST_TASK_BYTES) / record_bytes
            split = [tasks for tasks in offsets_by_partition(planned).values() if len(tasks) > 1]
            assert split, "options are given where they change something, and nowhere else"
            assert all(end - start >= most // 2 for tasks in split for start, end in tasks)


class TestWhenARunIsSplit:
    def test_a_hot_partition_is_spread_over_the_cores(self) -> None:
        planned = plan([3_600, *[36] * 11])

        assert planned.options == {"maxRecordsPerPartition": "500"}
        assert max(spans(planned)) <= sum(spans(planned)) / 2 / 4, "the last task keeps the other core for a quarter"

    def test_partitions_that_keep_all_cores_busy_are_left_whole(self) -> None:
        assert plan([400] * 8).options == {}
        assert len(plan([400] * 8).tasks) == 8

    def test_fewer_partitions_than_cores_are_split(self) -> None:
        assert len(plan([400] * 2, cores=8).tasks) == 26

    def test_a_small_window_is_not_split(self) -> None:
        """Not even one partition on many cores: a task has at least 32 MiB."""
        assert plan([32], cores=64).options == {}

    def test_a_window_a_bit_larger_is_split_no_further_than_that(self) -> None:
        assert spans(plan([100], cores=64)) == [25, 25, 25, 25]

    def test_no_task_is_larger_than_half_a_gibibyte(self) -> None:
        """Also of even partitions."""
        assert spans(plan([1_024] * 8)) == [512] * 16

    def test_without_knowing_the_cores_nothing_is_split(self) -> None:
        assert plan([100_000, 1], cores=None).options == {}

    def test_an_empty_window_has_no_tasks(self) -> None:
        planned = plan([0, 0])

        assert (planned.tasks, planned.options, planned.skew) == ((), {}, 1.0)
        assert str(planned).startswith("0 tasks of 0 partitions on 2 cores (no split): 0 records")


class TestTheUsersOwnOptions:
    def test_they_take_the_place_of_the_plans(self) -> None:
        assert spans(plan([3_600, 36], maxRecordsPerPartition="1800")) == [1_800, 1_800, 36]

    def test_one_min_partition_turns_splitting_off(self) -> None:
        assert spans(plan([3_600, 36], minPartitions="1")) == [3_600, 36]

    def test_min_partitions_goes_by_shares_and_leaves_small_ranges_whole(self) -> None:
        assert spans(plan([900, 90, 10], minPartitions="5")) == [300, 300, 300, 90, 10]

    def test_max_records_comes_before_min_partitions(self) -> None:
        """Which alone makes 450, 450 and 100 here; each 450 has half of the five tasks that are left, rounded up."""
        planned = plan([900, 100], minPartitions="6", maxRecordsPerPartition="500")

        assert spans(planned) == [*[150] * 6, 100]

    def test_case_does_not_matter(self) -> None:
        """As in Spark."""
        assert plan([3_600, 36], MINPARTITIONS="1").options == {"minPartitions": "1"}

    @pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", ""])
    def test_what_is_no_number_is_refused_by_name(self, value: str) -> None:
        with pytest.raises(ConfigurationError, match="minPartitions must be a whole number above 0"):
            plan([1], minPartitions=value)


def test_a_plan_says_tasks_bytes_and_skew_in_one_line() -> None:
    planned = split_plan(ranges([3_600_000, 36_000]), bytes_per_record=100, cores=2)

    assert str(planned) == (
        "9 tasks of 2 partitions on 2 cores (maxRecordsPerPartition=454500): 3,636,000 records, 346.8 MiB at "
        "100 bytes a record, skew 1.1"
    )


class TestScale:
    def test_a_hundred_thousand_partitions_are_planned_in_seconds(self) -> None:
        """Ten times the partitions take ten times as long: figures are in docs/development/scale.md."""
        wide = ranges([10 + number % 90 for number in range(100_000)])
        started = time.thread_time()
        planned = split_plan(wide, bytes_per_record=MIB, cores=200)

        assert len(planned.tasks) == 100_000
        assert time.thread_time() - started < 10


class TestSparkBefore4:
    def test_a_hot_partition_is_divided_by_its_share(self) -> None:
        planned = plan_by_share([10_000, 100])
        assert planned.options == {"minPartitions": "21"}
        assert offsets_by_partition(planned)[1] == [(7, 107)]
        assert max(spans(planned)) <= 512 * 1.1

    @given(SIZES, st.integers(1, 16))
    def test_what_is_divided_is_what_would_be_by_number_and_no_task_is_much_larger(
        self, sizes: list[int], cores: int
    ) -> None:
        by_share, by_number = plan_by_share(sizes, cores), plan(sizes, cores)
        assert bool(by_share.options) == bool(by_number.options)
        assert set(by_share.options) <= {"minPartitions"}
        assert sum(spans(by_share)) == sum(sizes)
        if by_number.options:
            assert max(spans(by_share)) <= 2 * int(by_number.options["maxRecordsPerPartition"])

    def test_an_option_that_it_would_ignore_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"maxRecordsPerPartition needs Spark 4\.0.*minPartitions"):
            plan_by_share([10], maxRecordsPerPartition="5")
