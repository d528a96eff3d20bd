"""Standing: which partitions of a group count, by the policies that the user chose."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp, GroupStanding
from airflow_kafka_offsets.errors import ConditionFailedError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupDescription,
    GroupMember,
    GroupOffsets,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.groups.lag import GroupLag
from tests.unit.offsets.builders import extent


def lag(*commits: CommittedOffset, logs: list[LogExtent], description: GroupDescription | None = None) -> GroupLag:
    return GroupLag(GroupOffsets("g", CommittedOffsets(commits)), LogExtents(logs), description=description)


def judge(given: GroupLag, **policies: Any) -> GroupStanding:
    return GroupsCaughtUp(("g",), **policies).judge(given)


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


class TestNoCommit:
    """E18."""

    half = lag(CommittedOffset("t", 0, 100), logs=[extent(0), extent(1, start=5)])

    def test_it_counts_from_the_log_start(self) -> None:
        assert judge(self.half).total == 95

    def test_it_counts_nothing_where_the_user_says_so(self) -> None:
        assert judge(self.half, no_commit="ignore").total == 0

    def test_it_is_waited_for_even_where_there_is_nothing_to_read(self) -> None:
        empty = lag(CommittedOffset("t", 0, 100), logs=[extent(0), extent(1, start=5, end=5)])
        standing = judge(empty, no_commit="wait")
        assert (standing.total, standing.why_unknown) == (None, "has no commit on 1 partition (t-1)")
        assert judge(empty).total == 0

    def test_where_nothing_was_ever_committed_there_is_nothing_to_ignore(self) -> None:
        assert judge(lag(logs=[extent(0)]), no_commit="ignore").total is None


class TestUnknown:
    def test_a_group_that_does_not_exist_has_no_total(self) -> None:
        """E19."""
        standing = judge(lag(logs=[extent(0)], description=GroupDescription("g")), unknown_group="wait")
        assert (standing.total, standing.why_unknown) == (None, "doesn't exist yet")

    def test_a_commit_that_does_not_say_what_was_read_fails_the_wait(self) -> None:
        """E17."""
        given = lag(CommittedOffset("t", 0, 101), logs=[extent(0)])
        assert given.total is None
        with pytest.raises(ConditionFailedError, match=r"t-0 .*past the log's end"):
            judge(given)

    def test_a_partition_in_error_is_raised(self) -> None:
        broken = LogExtent("t", 1, error=ResponseError("LEADER_NOT_AVAILABLE", 5, True))
        with pytest.raises(OffsetsError, match="group g on t-1: LEADER_NOT_AVAILABLE"):
            judge(lag(CommittedOffset("t", 0, 100), logs=[extent(0), broken]))


class TestAbandonedTopics:
    """E22: topics with commits that no member reads any more. ``topics=`` leaves them out."""

    def members(self, *topics: str) -> GroupDescription:
        return GroupDescription("g", "Stable", members=(GroupMember("m", "c", "h", topics=topics),))

    def old_and_new(self, description: GroupDescription | None) -> GroupLag:
        logs = [extent(0), LogExtent("old", 0, 0, 100, 100)]
        return lag(CommittedOffset("t", 0, 100), CommittedOffset("old", 0, 1), logs=logs, description=description)

    def test_they_count(self) -> None:
        assert judge(self.old_and_new(self.members("t"))).total == 99
