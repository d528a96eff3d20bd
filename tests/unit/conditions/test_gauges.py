"""Gauges: what a group's check reports about its lag, and what it leaves out rather than report 0."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.needs import Answers
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupDescription,
    GroupMember,
    GroupOffsets,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, GroupLags
from tests.unit.offsets.builders import extent

READS_T = GroupDescription("g", "Stable", members=(GroupMember("m", "c", "h", topics=("t",)),))
LOGS = LogExtents([extent(0), extent(1), LogExtent("old", 0, 0, 5000, 5000)])


def gauges(*commits: CommittedOffset, **policies: Any) -> dict[tuple[str, str | None], float]:
    """Of a check that reads no log: by name, and by topic where there is one."""
    condition = GroupsCaughtUp(("g",), **policies)
    (need,) = condition.needs()
    lags = GroupLags([GroupLag(GroupOffsets("g", CommittedOffsets(commits)), LOGS, description=READS_T)])
    progress = condition.judge(Answers(0, {need: lags}))
    assert isinstance(progress, Progress)
    return {(each.name, each.tags.get("topic")): each.value for each in progress.measures}


AT_END = [CommittedOffset("t", 0, 100), CommittedOffset("t", 1, 100)]


class TestWhatCounts:
    def test_a_group_that_has_read_everything_has_a_lag_of_zero_on_each_topic(self) -> None:
        everything = {("lag_total", None): 0, ("lag", "t"): 0, ("lag", "old"): 0}
        assert gauges(*AT_END, CommittedOffset("old", 0, 5000)) == everything

    def test_a_topic_without_a_commit_is_left_out_where_those_are_ignored(self) -> None:
        found = gauges(*AT_END, no_commit="ignore", max_age_ms=1)
        assert found == {("lag_total", None): 0, ("lag", "t"): 0, ("lag_age", "t"): 0}

    def test_a_topic_counts_with_its_other_partitions(self) -> None:
        assert gauges(AT_END[0], no_commit="ignore") == {("lag_total", None): 0, ("lag", "t"): 0}
