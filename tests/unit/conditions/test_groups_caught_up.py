"""Groups caught up: what has to be read to tell, and what a check reports about lag."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from airflow_kafka_offsets.conditions.condition import Answers, Lags, Need, Progress, Records, UnansweredError
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupDescription,
    GroupMember,
    GroupOffsets,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition
from airflow_kafka_offsets.offsets.lag import GroupLag, GroupLags
from tests.unit.offsets.builders import extent

READS_T = GroupDescription("g", "Stable", members=(GroupMember("m", "c", "h", topics=("t",)),))
LOGS = LogExtents([extent(0), extent(1), LogExtent("old", 0, 0, 5000, 5000)])


def judged(condition: GroupsCaughtUp, *commits: CommittedOffset, records: FirstRecords | None = None) -> Progress:
    """What a group with these commits comes to.

    :param records: what was found by reading; None when nothing was read yet.
    """
    lags = GroupLags([GroupLag(GroupOffsets("g", CommittedOffsets(commits)), LOGS, description=READS_T)])
    answers: dict[Need[Any], Any] = {Lags.of(condition.groups): lags}
    read = [ReadPosition(*record[:3]) for record in records or ()]
    for size in range(1, len(read) + 1):
        for some in itertools.combinations(read, size):
            answers[Records.of(some)] = FirstRecords(record for record in records or () if record[:3] in some)
    return condition.judge(Answers(0, answers))


def gauges(*commits: CommittedOffset, **policies: Any) -> dict[tuple[str, str | None], float]:
    """Of a check that reads no log: by name, and by topic where there is one."""
    progress = judged(GroupsCaughtUp(("g",), **policies), *commits)
    return {(each.name, each.tags.get("topic")): each.value for each in progress.measures}


class TestReading:
    """E12: a group that is 60 behind on one partition, and 10 on another."""

    behind = (CommittedOffset("t", 0, 40), CommittedOffset("t", 1, 90), CommittedOffset("old", 0, 5000))
    at_60, at_10 = ReadPosition("t", 0, 40), ReadPosition("t", 1, 90)

    def after(self, *records: FirstRecord, **limits: int) -> Progress:
        return judged(GroupsCaughtUp(("g",), **limits), *self.behind, records=FirstRecords(records))

    def asks(self, *records: FirstRecord, **limits: int) -> tuple[Need[Any], ...]:
        with pytest.raises(UnansweredError) as error:
            self.after(*records, **limits)
        return error.value.needs

    def test_begins_where_the_group_is_furthest_behind(self) -> None:
        assert self.asks() == (Records.of([self.at_60]),)

    def test_ends_with_a_record_there(self) -> None:
        found = self.after(FirstRecord(*self.at_60, offset=41))
        assert (found.done, found.remaining) == (False, 70)

    def test_goes_on_elsewhere_without_one(self) -> None:
        nothing = FirstRecord(*self.at_60, searched_to=100)
        assert self.asks(nothing) == (Records.of([self.at_10]),)
        found = self.after(nothing, FirstRecord(*self.at_10, searched_to=100))
        assert (found.done, found.remaining) == (True, 0)

    def test_is_not_needed_within_the_limit(self) -> None:
        assert self.after(max_lag=70).done

    def test_covers_all_partitions_where_their_age_counts(self) -> None:
        assert self.asks(max_age_ms=1) == (Records.of([self.at_60, self.at_10]),)


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
