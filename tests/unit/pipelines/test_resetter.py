"""Resets: a plan never leaves the log, and never turns what it doesn't know into an offset."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from airflow_kafka_offsets.pipelines.resetter import ResetPlan, ResetStep, plan_reset
from tests.unit.offsets.builders import T0, extent, extents

P0 = TopicPartition("t", 0)


def step(
    place: ListedOffset | SeenOffset | None,
    committed: int | None = 5,
    log: LogExtent | None = None,
    *,
    backwards: bool = False,
) -> ResetStep:
    """The only step of a plan for one partition, whose log holds 10 to 100."""
    commits = CommittedOffsets([CommittedOffset(*P0, committed, leader_epoch=3)])
    places = {} if place is None else {P0: place}
    (only,) = plan_reset(commits, extents(log or extent(0, 10, 100)), places, backwards=backwards)
    return only


def listed(
    outcome: ListOutcome,
    offset: int | None = None,
    timestamp_ms: int | None = None,
    leader_epoch: int | None = None,
    error: ResponseError | None = None,
) -> ListedOffset:
    return ListedOffset(*P0, OffsetSpec.at(T0), outcome, offset, timestamp_ms, leader_epoch=leader_epoch, error=error)


class TestToWhatLeadersAnswer:
    def test_the_epoch_is_that_of_the_answer_and_never_that_of_the_old_commit(self) -> None:
        """E34"""
        planned = step(listed(ListOutcome.FOUND, 10, leader_epoch=7))
        assert (planned.new_offset, planned.leader_epoch) == (10, 7)

    def test_without_a_record_the_end_of_before_stands_and_the_plan_says_so(self) -> None:
        """E1, E2"""
        planned = step(listed(ListOutcome.ALL_OLDER), log=extent(0, 10, 100, stable=90))
        assert (planned.new_offset, planned.leader_epoch) == (90, 1)
        assert "all_older" in planned.remark

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            pytest.param(listed(ListOutcome.OLDER_THAN_ASKED, 20, T0 - 1), "", id="E37"),
            pytest.param(listed(ListOutcome.NO_TIMESTAMPS), "no instant is before or after them", id="E42"),
            pytest.param(
                listed(ListOutcome.ERROR, error=ResponseError("LEADER_NOT_AVAILABLE", 5, True)),
                "LEADER_NOT_AVAILABLE",
                id="a partition that can't be asked",
            ),
        ],
    )
    def test_what_is_no_answer_is_an_error(self, answer: ListedOffset, why: str) -> None:
        planned = step(answer)
        assert planned.new_offset is None
        assert planned.error is not None
        assert why in str(planned.error)

    def test_an_error_of_the_log_is_the_steps(self) -> None:
        gone = ResponseError("UNKNOWN_TOPIC_OR_PARTITION", 3, True)
        planned = step(listed(ListOutcome.FOUND, 10), log=LogExtent(*P0, error=gone))
        assert (planned.new_offset, planned.error) == (None, gone)


class TestToAWindowsEnd:
    LATER = extent(0, 10, 100)._replace(leader_epoch=9)

    def test_the_epoch_that_the_ledger_knows_goes_with_its_offset_and_with_no_other(self) -> None:
        """E34"""
        planned = step(SeenOffset(*P0, 40, 1), log=self.LATER)
        assert (planned.new_offset, planned.leader_epoch) == (40, 1)
        for elsewhere in (SeenOffset(*P0, 9, 1), None):
            planned = step(elsewhere, log=self.LATER)
            assert (planned.new_offset, planned.leader_epoch) == (10, 9)

    def test_offsets_whose_records_are_gone_become_the_log_start_and_are_counted(self) -> None:
        planned = step(SeenOffset(*P0, 8, 1))
        assert (planned.new_offset, planned.remark) == (10, "8 is 2 before the log start 10")

    def test_a_partition_that_was_added_later_starts_at_its_log_start(self) -> None:
        """E23"""
        assert step(None, committed=None).new_offset == 10

    def test_an_end_past_the_logs_is_an_error(self) -> None:
        """S15"""
        planned = step(SeenOffset(*P0, 101, 1))
        assert planned.new_offset is None
        assert "the log ends at 100, before 101: it was truncated" in str(planned.error)


class TestForwards:
    def test_a_commit_that_is_further_already_stays_and_the_plan_says_so(self) -> None:
        planned = step(SeenOffset(*P0, 40, 1), committed=60)
        assert (planned.new_offset, planned.leader_epoch, planned.error) == (None, None, None)
        assert planned.remark == "stays at 60: 40 would be back"

    def test_a_commit_past_the_end_of_its_log_is_no_further(self) -> None:
        """E17: what the errors about such a commit advise moves the group without more words."""
        assert step(SeenOffset(*P0, 40, 1), committed=150).new_offset == 40

    def test_it_goes_back_if_it_is_asked_to(self) -> None:
        assert step(SeenOffset(*P0, 40, 1), committed=60, backwards=True).new_offset == 40

    @given(
        st.one_of(st.none(), st.integers(0, 10**6)),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.booleans(),
    )
    def test_no_commit_ever_leaves_the_log_or_goes_back_unasked(
        self, committed: int | None, start: int, length: int, seen: int, backwards: bool
    ) -> None:
        log = extent(0, start, start + length)
        planned = step(SeenOffset(*P0, seen, 1), committed, log, backwards=backwards)
        if planned.new_offset is None:
            assert planned.error is not None or (not backwards and max(seen, start) < (committed or 0))
            return
        assert start <= planned.new_offset <= start + length
        assert backwards or planned.new_offset >= (committed or 0) or (committed or 0) > start + length


class TestPlan:
    def test_what_leaders_told_of_the_epochs_is_what_is_committed(self) -> None:
        plan = ResetPlan([ResetStep(*P0, 50, 51, 1), ResetStep("u", 0, 5, 7, 1), ResetStep("v", 0, 5)], {"t": "id-1"})
        assert [each.topic for each in plan.commits()] == ["t", "u"]
        error = ResponseError("LEADER_NOT_AVAILABLE", 5, True)
        told = [CommittedOffset(*P0, 51, 0), CommittedOffset("u", 0, error=error)]
        found = plan.with_epochs(told)
        assert list(found) == [
            ResetStep(*P0, 50, 51, 0),
            ResetStep("u", 0, 5, None, None, error=error),
            ResetStep("v", 0, 5),
        ]
        assert found.topic_ids == {"t": "id-1"}
