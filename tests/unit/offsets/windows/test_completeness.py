"""Completeness: what counts as evidence that a moment has passed, and what doesn't."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.logs import ActiveProducer, LogExtent, PartitionProducers, Producers
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.completeness import CLOCK_MARGIN_MS, Completeness, sort_by_evidence
from tests.unit.offsets.builders import extent, extents

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))


def judge(
    *others: LogExtent,
    not_visible: tuple[TopicPartition, ...] = (),
    level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    append_time: bool = False,
    elapsed_ms: int = 10**9,
) -> Completeness:
    return sort_by_evidence(
        [ZERO],
        extents(*others),
        not_visible=not_visible,
        isolation_level=level,
        append_time_topics=["t"] if append_time else [],
        elapsed_ms=elapsed_ms,
    )


class TestEvidence:
    def test_a_record_on_every_partition_completes_the_window(self) -> None:
        assert judge().complete

    def test_an_idle_partition_holds_it_open_however_long_ago_it_is(self) -> None:
        """E8."""
        judged = judge(extent(1))
        assert (judged.complete, judged.idle) == (False, (ONE,))

    def test_an_open_transaction_holds_it_open(self) -> None:
        """E13, E14."""
        judged = judge(extent(1, stable=90))
        assert (judged.complete, judged.undecided, judged.idle) == (False, (ONE,), ())

    def test_who_reads_uncommitted_records_does_not_wait_for_transactions(self) -> None:
        assert judge(extent(1, stable=90), level=IsolationLevel.READ_UNCOMMITTED).idle == (ONE,)

    def test_a_record_that_is_not_visible_yet_is_no_idleness(self) -> None:
        judged = judge(extent(1), not_visible=(ONE,), level=IsolationLevel.READ_UNCOMMITTED)
        assert (judged.undecided, judged.idle) == ((ONE,), ())

    @pytest.mark.parametrize(("elapsed_ms", "passed"), [(CLOCK_MARGIN_MS - 1, False), (CLOCK_MARGIN_MS, True)])
    def test_brokers_time_is_evidence_after_a_minute_where_brokers_stamp_the_records(
        self, elapsed_ms: int, passed: bool
    ) -> None:
        """E6."""
        assert judge(extent(1), append_time=True, elapsed_ms=elapsed_ms).complete is passed

    def test_brokers_time_says_nothing_about_an_open_transaction(self) -> None:
        assert judge(extent(1, stable=90), append_time=True).undecided == (ONE,)

    def test_a_log_whose_end_is_unknown_is_an_error(self) -> None:
        """E26."""
        with pytest.raises(OffsetsError, match="LEADER_NOT_AVAILABLE"):
            judge(LogExtent("t", 1, error=ResponseError("LEADER_NOT_AVAILABLE", 5, True)))


class TestWords:
    def test_it_names_whom_it_waits_for_and_whom_it_assumed_idle(self) -> None:
        judged = Completeness((ZERO,), assumed=(ONE,), idle=(TWO,))
        assert judged.describe(Producers()) == (
            "1 of 3 partitions have passed; assumed idle: t-1; no record that late on t-2"
        )

    def test_it_names_the_producer_of_the_transaction_that_holds_the_end(self) -> None:
        open_since = ActiveProducer(4001, 2, transaction_start_offset=17)
        text = Completeness((), undecided=(ONE,)).describe(Producers([PartitionProducers("t", 1, (open_since,))]))
        assert "t-1 from offset 17 on, by the open transaction of producer 4001 (epoch 2)" in text
