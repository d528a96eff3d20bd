"""New data: what is told of topics that have none."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.conditions.new_data import NewData, StaleTopics
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from tests.unit.offsets.builders import T0

TIMED_OUT = ResponseError("REQUEST_TIMED_OUT", 7, True)


def newest(topic: str, *times_ms: int | ResponseError | None) -> list[ListedOffset]:
    """Answers to ``max-timestamp``, one a partition."""
    listed = []
    for number, answer in enumerate(times_ms):
        error = answer if isinstance(answer, ResponseError) else None
        time_ms = None if isinstance(answer, ResponseError) else answer
        outcome = ListOutcome.ERROR if error else ListOutcome.NO_RECORD if time_ms is None else ListOutcome.FOUND
        spec = OffsetSpec.MAX_TIMESTAMP
        listed.append(ListedOffset(topic, number, spec, outcome, None, time_ms, error=error))
    return listed


class TestStaleTopics:
    def test_have_the_newest_time_of_their_partitions_or_none_without_records(self) -> None:
        stale = StaleTopics.of(ListedOffsets([*newest("t", T0 - 1, T0, None), *newest("empty", None, None)]))
        assert stale.to_json() == {"stale": {"t": "2026-11-21T06:00:00.000Z", "empty": None}}
        assert stale.describe() == ["empty, no record at all", "t, newest 2026-11-21T06:00:00.000Z"]

    def test_that_could_not_be_asked_are_told_apart_from_those_without_records(self) -> None:
        stale = StaleTopics.of(ListedOffsets([*newest("t", T0, TIMED_OUT), *newest("empty", None)]))
        assert stale.to_json() == {"stale": {"empty": None}, "stale_unknown": {"t": "REQUEST_TIMED_OUT (7)"}}
        assert stale.describe() == ["empty, no record at all", "t, newest unknown (REQUEST_TIMED_OUT (7))"]


class TestWords:
    @pytest.mark.parametrize("source", ["the log starts", "snapshot 7 as of latest", "the end of window w"])
    def test_what_it_counts_from_brings_its_own_article(self, source: str) -> None:
        since = FixedOffsets.of(source, [SeenOffset("t", 0, 5)])
        assert NewData(("t",), since).awaited == f"a record has arrived since {source}"
        assert OffsetsReached("g", since).awaited == f"the group has committed up to {source}"
