"""Resets: a plan never leaves the log, and never turns what it doesn't know into an offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.groups.resets import (
    Aim,
    ByShift,
    ResetPlan,
    ResetStep,
    ToListed,
    ToNothing,
    ToOffset,
    ToSnapshot,
    plan_reset,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from tests.unit.offsets.builders import T0, extent, extents, snapshot

P0 = TopicPartition("t", 0)
READ_COMMITTED = IsolationLevel.READ_COMMITTED


def step(aim: Aim, committed: int | None = 50, log: LogExtent | None = None) -> ResetStep:
    """The only step of a plan for one partition, whose log holds 10 to 100."""
    commits = CommittedOffsets([CommittedOffset(*P0, committed, leader_epoch=3)])
    (only,) = plan_reset([P0], commits, extents(log or extent(0, 10, 100)), aim)
    return only


class TestShift:
    @pytest.mark.parametrize(
        ("by", "offset", "remark"),
        [
            (5, 55, ""),
            (-5, 45, ""),
            (-60, 10, "-10 is 20 before the log start 10"),
            (60, 100, "110 is 10 past the log's end 100"),
        ],
    )
    def test_it_goes_so_many_offsets_and_no_further_than_the_log(self, by: int, offset: int, remark: str) -> None:
        planned = step(ByShift(by))
        assert (planned.new_offset, planned.remark) == (offset, remark)

    def test_without_a_commit_there_is_nothing_to_shift(self) -> None:
        """E18"""
        planned = step(ByShift(5), committed=None)
        assert planned.new_offset is None
        assert planned.error is not None
        assert planned.error.name == "NO_COMMIT"

    @given(st.integers(-(10**9), 10**9), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
    def test_it_never_leaves_the_log_and_underflow_never_jumps_to_its_end(
        self, by: int, start: int, length: int, committed: int
    ) -> None:
        stepped = step(ByShift(by), committed, extent(0, start, start + length))
        planned = stepped.new_offset
        if committed > start + length:  # of another log
            assert (planned, stepped.error and stepped.error.name) == (None, "OFFSET_OUT_OF_RANGE")
            return
        assert planned is not None
        assert start <= planned <= start + length
        if by < 0:
            assert planned <= max(start, committed)


class TestListed:
    def test_the_epoch_is_that_of_the_answer_and_never_that_of_the_old_commit(self) -> None:
        """E34"""
        found = ListedOffset(*P0, OffsetSpec.EARLIEST, ListOutcome.FOUND, 10, leader_epoch=7)
        planned = step(ToListed(ListedOffsets([found]), READ_COMMITTED))
        assert (planned.new_offset, planned.leader_epoch) == (10, 7)

    def test_without_a_record_the_end_of_before_stands_and_the_plan_says_so(self) -> None:
        """E1, E2"""
        none = ListedOffset(*P0, OffsetSpec.at(T0), ListOutcome.ALL_OLDER)
        planned = step(ToListed(ListedOffsets([none]), READ_COMMITTED), log=extent(0, 10, 100, stable=90))
        assert (planned.new_offset, planned.leader_epoch) == (90, 1)
        assert "all_older" in planned.remark

    def test_an_answer_that_is_older_than_asked_is_refused(self) -> None:
        """E37"""
        older = ListedOffset(*P0, OffsetSpec.at(T0), ListOutcome.OLDER_THAN_ASKED, 20, T0 - 1)
        planned = step(ToListed(ListedOffsets([older]), READ_COMMITTED))
        assert planned.new_offset is None
        assert planned.error is not None

    def test_a_log_whose_records_have_no_timestamps_has_no_place_for_an_instant(self) -> None:
        """E42"""
        untimed = ListedOffset(*P0, OffsetSpec.at(T0), ListOutcome.NO_TIMESTAMPS)
        planned = step(ToListed(ListedOffsets([untimed]), READ_COMMITTED))
        assert planned.new_offset is None
        assert planned.error is not None
        assert "no instant is before or after them" in str(planned.error)

    def test_a_partition_that_cannot_be_asked_is_in_error(self) -> None:
        error = ResponseError("LEADER_NOT_AVAILABLE", 5, True)
        failed = ListedOffset(*P0, OffsetSpec.LATEST, ListOutcome.ERROR, error=error)
        planned = step(ToListed(ListedOffsets([failed]), READ_COMMITTED))
        assert (planned.new_offset, planned.error) == (None, error)


class TestOffsets:
    @pytest.mark.parametrize(("offset", "refused"), [(10, False), (100, False), (9, True), (101, True)])
    def test_an_explicit_offset_must_lie_in_the_log(self, offset: int, refused: bool) -> None:
        planned = step(ToOffset(offset))
        assert planned.new_offset == (None if refused else offset)
        assert (planned.error is not None) is refused


class TestSnapshot:
    def test_the_epoch_that_the_ledger_knows_goes_with_its_offset_and_with_no_other(self) -> None:
        """E34"""
        later = extent(0, 10, 100)._replace(leader_epoch=9)
        planned = step(ToSnapshot(snapshot({0: 40}).boundaries), log=later)
        assert (planned.new_offset, planned.leader_epoch) == (40, 1)
        for elsewhere in (ToSnapshot(snapshot({0: 4}).boundaries), ToSnapshot({})):
            assert (step(elsewhere, log=later).new_offset, step(elsewhere, log=later).leader_epoch) == (10, 9)

    def test_offsets_whose_records_are_gone_become_the_log_start_and_are_counted(self) -> None:
        planned = step(ToSnapshot(snapshot({0: 4}).boundaries))
        assert (planned.new_offset, planned.remark) == (10, "4 is 6 before the log start 10")

    def test_a_partition_that_was_added_later_starts_at_its_log_start(self) -> None:
        """E23"""
        assert step(ToSnapshot({})).new_offset == 10


class TestPlan:
    @pytest.mark.parametrize("aim", [ByShift(1), ByShift(-99), ByShift(99), ToOffset(60)], ids=str)
    def test_an_offset_of_the_present_log_is_seen_under_its_epoch_and_never_under_the_old_commits(
        self, aim: Aim
    ) -> None:
        """E34"""
        assert step(aim).leader_epoch == 1

    def test_what_leaders_told_of_the_epochs_is_what_is_committed(self) -> None:
        plan = ResetPlan([step(ByShift(1)), ResetStep("u", 0, 5, 7, 1)])
        error = ResponseError("LEADER_NOT_AVAILABLE", 5, True)
        told = CommittedOffsets([CommittedOffset(*P0, 51, 0), CommittedOffset("u", 0, error=error)])
        first, second = plan.with_epochs(told)
        assert (first.committed_offset, first.new_offset, first.leader_epoch) == (50, 51, 0)
        assert (second.committed_offset, second.new_offset, second.error) == (5, None, error)

    def test_an_error_of_commit_or_log_is_the_steps(self) -> None:
        gone = ResponseError("UNKNOWN_TOPIC_OR_PARTITION", 3, True)
        planned = step(ByShift(1), log=LogExtent(*P0, error=gone))
        assert (planned.new_offset, planned.error) == (None, gone)

    def test_commits_are_deleted_on_topics_that_exist(self) -> None:
        """E25: on others Kafka refuses it, and deletes them by itself."""
        commits = CommittedOffsets([CommittedOffset(*P0, 5)])
        plan = plan_reset([P0], commits, extents(extent(0, 10, 100)), ToNothing())
        assert (plan.raise_for_errors().deletions(), len(plan.commits())) == ([P0], 0)
        gone = LogExtents([LogExtent(*P0, error=ResponseError("UNKNOWN_TOPIC_OR_PARTITION", 3, True))])
        assert len(plan_reset([P0], commits, gone, ToNothing()).errors()) == 1
