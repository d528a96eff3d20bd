"""Completeness: what counts as evidence that a moment has passed, and what doesn't."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.client.routing.metadata import PartitionMetadata, TopicMetadata, TopicsMetadata
from airflow_kafka_offsets.conditions.condition import (
    Answers,
    Extents,
    Facts,
    Listed,
    Need,
    Progress,
    Records,
    Topics,
    UnansweredError,
    Writers,
)
from airflow_kafka_offsets.conditions.window_complete import CLOCK_MARGIN_MS, Completeness, WindowComplete
from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, Producers, TopicFacts
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from tests.unit.offsets.builders import T0, extent, extents, found, listed

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))


def look(
    *others: LogExtent,
    outcome: ListOutcome = ListOutcome.ALL_OLDER,
    level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    timestamp_type: str = "CreateTime",
    elapsed_ms: int = 10**9,
    **policy: Any,
) -> Progress:
    """One check of partition 0, which has a record at the moment, and of others, which have none."""
    numbers = range(1 + len(others))
    none = (ListedOffset("t", number, OffsetSpec.at(T0), outcome) for number in numbers[1:])
    known: dict[type[Need[Any]], Any] = {
        Topics: TopicsMetadata([TopicMetadata("t", "id-1", tuple(PartitionMetadata(each, 0) for each in numbers))]),
        Listed: {OffsetSpec.at(T0): listed(found(0, 5, T0), *none), OffsetSpec.at(T0 + 1): listed()},
        Records: FirstRecords([FirstRecord("t", 0, 5, 5, T0)]),
        Extents: extents(*others),
        Facts: {"t": TopicFacts("t", "id-1", len(numbers), timestamp_type=timestamp_type)},
        Writers: Producers(),
    }
    condition = WindowComplete(("t",), T0, isolation_level=level, **policy)
    answered: dict[Need[Any], Any] = {}
    while True:
        try:
            return condition.judge(Answers(T0 + elapsed_ms, answered))
        except UnansweredError as error:
            answered |= {need: known[type(need)] for need in error.needs}


class TestEvidence:
    def test_a_record_that_is_not_visible_yet_is_no_idleness(self) -> None:
        level = IsolationLevel.READ_UNCOMMITTED
        progress = look(extent(1), outcome=ListOutcome.NOT_VISIBLE, level=level)
        assert progress.summary.endswith("not decided yet: t-1")

    @pytest.mark.parametrize(("elapsed_ms", "passed"), [(CLOCK_MARGIN_MS - 1, False), (CLOCK_MARGIN_MS, True)])
    def test_brokers_time_is_evidence_after_a_minute_where_brokers_stamp_the_records(
        self, elapsed_ms: int, passed: bool
    ) -> None:
        """E6."""
        progress = look(extent(1), timestamp_type="LogAppendTime", elapsed_ms=elapsed_ms)
        assert progress.done is passed

    def test_brokers_time_says_nothing_about_an_open_transaction(self) -> None:
        progress = look(extent(1, stable=90), timestamp_type="LogAppendTime")
        assert progress.summary.endswith("not decided yet: t-1")

    def test_a_log_whose_end_is_unknown_is_an_error(self) -> None:
        """E26."""
        with pytest.raises(OffsetsError, match="LEADER_NOT_AVAILABLE"):
            look(LogExtent("t", 1, error=ResponseError("LEADER_NOT_AVAILABLE", 5, True)))


class TestWords:
    def test_it_names_whom_it_waits_for_and_whom_it_assumed_idle(self) -> None:
        judged = Completeness((ZERO,), assumed=(ONE,), idle=(TWO,))
        assert judged.describe(Producers()) == (
            "1 of 3 partitions have passed; assumed idle: t-1; no record that late on t-2"
        )
