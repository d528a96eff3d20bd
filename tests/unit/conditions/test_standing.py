"""Standing: which partitions of a group count, by the policies that the user chose."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp, GroupStanding
from airflow_kafka_offsets.errors import ConditionFailedError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets, GroupOffsets
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.groups.lag import GroupLag
from tests.unit.offsets.builders import extent


def lag(*commits: CommittedOffset, logs: list[LogExtent]) -> GroupLag:
    return GroupLag(GroupOffsets("g", CommittedOffsets(commits)), LogExtents(logs))


def judge(given: GroupLag, **policies: Any) -> GroupStanding:
    return GroupsCaughtUp(("g",), **policies).standing(given)


class TestBehind:
    def test_a_group_at_the_ends_of_its_logs_is_not_behind(self) -> None:
        standing = judge(lag(CommittedOffset("t", 0, 100), logs=[extent(0)]))
        assert (standing.total, standing.behind) == (0, ())

    def test_what_it_is_behind_on_is_where_it_would_go_on_reading(self) -> None:
        (behind,) = judge(lag(CommittedOffset("t", 0, 40), logs=[extent(0)])).behind
        assert (behind.position.offset, behind.lag, behind.end_offset) == (40, 60, 100)

    def test_records_that_were_deleted_unread_count_and_are_told(self) -> None:
        """E9."""
        standing = judge(lag(CommittedOffset("t", 0, 40), logs=[extent(0, start=70)]))
        (behind,) = standing.behind
        assert (standing.total, standing.lost) == (60, 30)
        assert (behind.position.offset, behind.end_offset) == (70, 100)


class TestUnknown:
    @pytest.mark.parametrize(
        ("commit", "why"),
        [
            ({"offset": 101}, "past the log's end"),
            ({"offset": 100, "leader_epoch": 1, "truncated_at": 40}, "truncated below the commit"),
        ],
    )
    def test_a_commit_that_does_not_say_what_was_read_fails_the_wait(self, commit: dict[str, int], why: str) -> None:
        """E17, S15: also where the commit is at the log's end."""
        given = lag(CommittedOffset("t", 0, **commit), logs=[extent(0)])
        assert given.total is None
        with pytest.raises(ConditionFailedError, match=f"t-0 .*{why}"):
            judge(given)

    def test_a_partition_in_error_is_raised(self) -> None:
        broken = LogExtent("t", 1, error=ResponseError("LEADER_NOT_AVAILABLE", 5, True))
        with pytest.raises(OffsetsError, match="group g on t-1: LEADER_NOT_AVAILABLE"):
            judge(lag(CommittedOffset("t", 0, 100), logs=[extent(0), broken]))
