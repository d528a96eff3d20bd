"""Group health: which alarms a group raises, at one poll and compared with where it was earlier."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.conditions.condition import Answers, Lags, Progress, Records
from airflow_kafka_offsets.conditions.group_health import GroupHealth, GroupPositions, Position
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.offsets.answers.groups import (
    EMPTY,
    CommittedOffset,
    CommittedOffsets,
    GroupDescription,
    GroupKind,
    GroupMember,
    GroupOffsets,
)
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords
from airflow_kafka_offsets.offsets.lag import GroupLag, GroupLags
from tests.unit.offsets.builders import extent, extents

MEMBER = GroupMember("m", "c", "h", topics=("t",))
READING = GroupDescription("g", "Stable", GroupKind.CLASSIC, "consumer", (MEMBER,))
STOPPED = GroupDescription("g", EMPTY, GroupKind.CLASSIC, "consumer")
COMMITS_ONLY = GroupDescription("g", EMPTY, GroupKind.CLASSIC)
ALL = ("stalled", "rewound", "stopped")
RECORD_AT_40 = FirstRecord("t", 0, 40, offset=40, timestamp_ms=1000)
ONLY_MARKERS = FirstRecord("t", 0, 40, searched_to=100)


def earlier(committed: int | None, end: int) -> GroupPositions:
    return GroupPositions(500, (Position("t", 0, committed, end),))


def judged(
    *,
    commit: int | None = 40,
    counted_lag: int | None = None,
    description: GroupDescription = READING,
    record: FirstRecord = RECORD_AT_40,
    before: GroupPositions | None = None,
    watched: tuple[str, ...] = ALL,
    **limits: Any,
) -> Progress:
    """A group with this commit, on a log that ends at 100 and has this first record to read."""
    health = GroupHealth(GroupsCaughtUp(("g",), **limits), watched, before)
    commits = GroupOffsets("g", CommittedOffsets([CommittedOffset("t", 0, commit, counted_lag=counted_lag)]))
    lags = GroupLags([GroupLag(commits, extents(extent(0)), description=description)])
    answers = {Lags.of(["g"]): lags, Records.of([record[:3]]): FirstRecords([record])}
    return health.judge(Answers(10_000, answers))


def alarms(**given: Any) -> list[str]:
    found = judged(**given)
    assert found.done == (not found.result["alarms"])
    return found.result["alarms"]


class TestLimits:
    def test_without_limits_a_group_may_be_behind(self) -> None:
        assert alarms() == []

    @pytest.mark.parametrize(("max_lag", "raised"), [(59, ["lag"]), (60, [])])
    def test_lag_over_the_limit(self, max_lag: int, raised: list[str]) -> None:
        assert alarms(max_lag=max_lag) == raised

    @pytest.mark.parametrize(("max_age_ms", "raised"), [(8999, ["age"]), (9000, [])])
    def test_age_over_the_limit(self, max_age_ms: int, raised: list[str]) -> None:
        assert alarms(max_age_ms=max_age_ms) == raised

    def test_an_age_that_nobody_can_tell_is_over_any_limit(self) -> None:
        assert alarms(max_age_ms=10**9, record=RECORD_AT_40._replace(timestamp_ms=None)) == ["age"]

    def test_transaction_markers_are_no_lag(self) -> None:
        """E12."""
        assert alarms(max_lag=0, record=ONLY_MARKERS) == []

    def test_a_group_that_may_not_count_as_having_read_anything_is_unknown(self) -> None:
        assert alarms(commit=None, max_lag=10**9, no_commit="wait") == ["unknown"]


class TestStopped:
    @pytest.mark.parametrize(
        ("description", "raised"), [(READING, []), (STOPPED, ["stopped"]), (COMMITS_ONLY, [])], ids=str
    )
    def test_means_that_members_are_gone_while_something_is_left_to_read(
        self, description: GroupDescription, raised: list[str]
    ) -> None:
        assert alarms(description=description) == raised

    def test_is_not_raised_with_nothing_left_to_read(self) -> None:
        assert alarms(description=STOPPED, commit=100) == []
        assert alarms(description=STOPPED, record=ONLY_MARKERS) == []

    def test_is_not_raised_unless_it_is_watched(self) -> None:
        assert alarms(description=STOPPED, watched=("stalled", "rewound")) == []


class TestShareGroup:
    """It is at 40 of 100, and what Kafka counts says how much of the rest is finished."""

    @pytest.mark.parametrize(("counted_lag", "raised"), [(60, ["stalled"]), (20, [])])
    def test_is_stalled_only_while_nothing_after_its_position_is_finished(
        self, counted_lag: int, raised: list[str]
    ) -> None:
        """Kafka moves the position one step late, so the same position alone proves nothing."""
        assert alarms(counted_lag=counted_lag, before=earlier(40, 50)) == raised

    def test_has_an_age_at_most_that_of_the_record_at_its_position(self) -> None:
        assert alarms(counted_lag=20, max_age_ms=9000) == []
        assert alarms(counted_lag=20, max_age_ms=8999) == ["age"]
        found = judged(counted_lag=20, max_age_ms=8999)
        assert found.result["age_s"] is None
        assert "the age of its unread records is unknown on t-0 (a share group" in found.summary
        assert judged(counted_lag=60, max_age_ms=8999).result["age_s"] == 9


class TestSinceEarlier:
    def test_a_commit_that_stayed_while_there_was_something_to_read_is_stalled(self) -> None:
        found = judged(before=earlier(40, 50))
        assert found.result["alarms"] == ["stalled"]
        assert "hasn't moved since 1970-01-01T00:00:00.500Z on t-0 at 40" in found.summary

    @pytest.mark.parametrize(
        "given",
        [
            pytest.param({"before": None}, id="there is no earlier poll"),
            pytest.param({"before": earlier(39, 50)}, id="it has moved"),
            pytest.param({"before": earlier(40, 40)}, id="it had read all, and records came since"),
            pytest.param({"before": earlier(40, 50), "commit": 100}, id="it has read all"),
            pytest.param({"before": earlier(40, 41), "record": RECORD_AT_40._replace(offset=41)}, id="a marker"),
            pytest.param({"before": earlier(40, 50), "watched": ("rewound",)}, id="it isn't watched"),
        ],
    )
    def test_it_is_not_stalled_when(self, given: dict[str, Any]) -> None:
        assert alarms(**given) == []

    @pytest.mark.parametrize(("now", "words"), [(40, "from 41 to 40"), (None, "from 41 to no commit")])
    def test_a_commit_that_is_lower_or_gone_is_rewound(self, now: int | None, words: str) -> None:
        record = RECORD_AT_40._replace(position=now or 0)
        found = judged(commit=now, before=earlier(41, 50), record=record)
        assert found.result["alarms"] == ["rewound"]
        assert words in found.summary


def test_positions_are_kept_as_json() -> None:
    kept = judged().result["positions"]
    assert GroupPositions.from_json(json.loads(json.dumps(kept))) == GroupPositions(
        10_000, (Position("t", 0, 40, 100),)
    )
    for odd in ({}, {"at_ms": 1, "topics": {"t": [[1]]}}, {"at_ms": 1, "topics": []}, {"at_ms": None, "topics": {}}):
        with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
            GroupPositions.from_json(odd)
