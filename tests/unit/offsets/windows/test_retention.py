"""When retention by time deletes what isn't loaded: then, never, and not known."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.retention import (
    RangeForecast,
    Unknown,
    WindowForecast,
    deletes_by_time,
    forecast,
    limits_size,
)
from tests.unit.offsets.builders import HOUR_MS, T0, extent

DENIED = ResponseError("TOPIC_AUTHORIZATION_FAILED", 29, False)
BIGGEST = 2**63 - 1


def topic(retention_ms: int | None = -1, retention_bytes: int | None = -1, policy: str | None = "delete") -> TopicFacts:
    return TopicFacts("t", "id-1", 1, policy, retention_ms, retention_bytes, "CreateTime")


def record(position: int = 20, offset: int = 20, timestamp_ms: int | None = T0) -> FirstRecords:
    return FirstRecords([FirstRecord("t", 0, position, offset, timestamp_ms)])


def told(facts: TopicFacts, *, records: FirstRecords | None = None, log_start: int = 0, end: int = 50) -> RangeForecast:
    """Of offsets 20 to ``end`` in a log of 100, whose first record is of now."""
    pending = LogRange("t", 0, 20, end)
    found = record(max(20, log_start), max(20, log_start)) if records is None else records
    return forecast(pending, extent(start=log_start, end=100), facts, found)


class TestByTime:
    def test_records_go_not_before_the_first_one_is_as_old_as_the_topic_allows(self) -> None:
        found = told(topic(retention_ms=HOUR_MS), records=record(timestamp_ms=T0 - 1000))
        assert (found.loses_at_ms, found.unknown) == (T0 - 1000 + HOUR_MS, None)

    def test_a_moment_in_the_past_is_told_as_it_is(self) -> None:
        """Its segment is younger, or Kafka hasn't looked yet."""
        assert told(topic(retention_ms=10), records=record(timestamp_ms=T0 - 1000)).loses_at_ms == T0 - 990

    def test_a_range_without_records_loses_none(self) -> None:
        """E11: transaction markers, or what compaction left. The first record comes after it."""
        assert told(topic(retention_ms=HOUR_MS), records=record(offset=50)).loses_at_ms is None

    @pytest.mark.parametrize(
        "records",
        [
            pytest.param(FirstRecords(), id="nobody looked"),
            pytest.param(FirstRecords([FirstRecord("t", 0, 20, error=DENIED)]), id="nobody may look"),
            pytest.param(record(timestamp_ms=None), id="the record has no time"),
        ],
    )
    def test_without_the_records_time_it_is_unknown(self, records: FirstRecords) -> None:
        found = told(topic(retention_ms=HOUR_MS), records=records)
        assert found.loses_at_ms is None
        assert found.unknown is not None

    def test_what_lies_beyond_the_calendar_is_never(self) -> None:
        """Kafka's longest retention is 292 million years."""
        assert told(topic(retention_ms=BIGGEST)).loses_at_ms is None


class TestTopics:
    @pytest.mark.parametrize(
        "facts",
        [topic(), topic(1, 1, "compact"), topic(1, 1, "")],
        ids=["without limits", "compacted", "without a policy"],
    )
    def test_some_never_delete(self, facts: TopicFacts) -> None:
        found = told(facts)
        assert (found.loses_at_ms, found.unknown) == (None, None)
        assert not deletes_by_time(facts)
        assert not limits_size(facts)

    def test_compacted_ones_may_delete_too(self) -> None:
        assert told(topic(HOUR_MS, -1, "compact,delete")).loses_at_ms == T0 + HOUR_MS

    def test_a_limit_by_size_is_known_and_not_foretold(self) -> None:
        facts = topic(retention_bytes=200_000)
        assert (limits_size(facts), told(facts)) == (True, RangeForecast("t", 0, 30))

    @pytest.mark.parametrize("facts", [topic(None, None, None), topic(HOUR_MS, 1, None)])
    def test_of_one_that_may_not_be_described_nothing_is_known(self, facts: TopicFacts) -> None:
        found = told(facts)
        assert found.loses_at_ms is None
        assert found.unknown is not None
        assert not limits_size(facts)


class TestUnknown:
    """Why, and whether somebody has to do something about it."""

    DAY = topic(retention_ms=24 * HOUR_MS)

    def told(self, facts: TopicFacts, first: dict[str, Any]) -> WindowForecast:
        record = FirstRecord(**{"topic": "t", "partition": 0, "position": 20, "offset": 20, "timestamp_ms": T0} | first)
        return WindowForecast.of("w", [told(facts, records=FirstRecords([record]))])

    @pytest.mark.parametrize(
        ("facts", "first", "why"),
        [
            (topic(None, -1), {}, "unknown: the settings of t may not be read"),
            (DAY, {"missing_codec": "lz4", "timestamp_ms": None}, r"with lz4.*\[codecs\]'"),
            (DAY, {"timestamp_ms": None}, "no timestamp"),
            (DAY, {"offset": None, "timestamp_ms": None, "error": DENIED}, "TOPIC_AUTHORIZATION_FAILED"),
        ],
        ids=["settings", "codec", "timestamp", "record"],
    )
    def test_is_told_with_its_reason(self, facts: TopicFacts, first: dict[str, Any], why: str) -> None:
        ((partition, unknown),) = self.told(facts, first).unforeseen()
        assert partition == "t-0"
        assert re.search(why, str(unknown))
        assert unknown.error == first.get("error"), "one that passes calls for another try, and nothing else"

    def test_a_record_that_its_leader_has_not_returned_yet_comes_by_itself(self) -> None:
        assert list(self.told(self.DAY, {"offset": None, "timestamp_ms": None}).unforeseen()) == []


class TestLost:
    """E9"""

    def test_what_is_gone_is_counted_and_the_rest_goes_on_losing(self) -> None:
        found = told(topic(retention_ms=HOUR_MS), log_start=27)
        assert (found.lost, found.offsets, found.loses_at_ms) == (7, 30, T0 + HOUR_MS)

    def test_what_is_gone_as_a_whole_has_no_next_loss(self) -> None:
        found = told(topic(retention_ms=HOUR_MS), log_start=60)
        assert (found.lost, found.offsets, found.loses_at_ms) == (30, 30, None)
        assert str(found) == "t-0 (30 of 30 offsets gone)"


class TestWindows:
    LATE = RangeForecast("t", 0, 10, 0, T0 + HOUR_MS)
    SOON = RangeForecast("t", 1, 10, 0, T0)
    LOST = RangeForecast("t", 2, 10, lost=10)
    UNKNOWN = RangeForecast("t", 3, 10, unknown=Unknown("nobody may ask"))
    SAFE = RangeForecast("t", 4, 10)

    def test_the_next_loss_is_told_beside_totals(self) -> None:
        window = WindowForecast.of("w", [self.SAFE, self.UNKNOWN, self.LATE, self.LOST, self.SOON])
        assert window.to_json() == {
            "window": "w",
            "loses_at": "2026-11-21T06:00:00.000Z",
            "topic": "t",
            "partition": 1,
            "offsets": 50,
            "lost": 10,
            "unknown": 1,
        }

    def test_the_worst_three_partitions_are_named(self) -> None:
        window = WindowForecast.of("w", [self.SAFE, self.UNKNOWN, self.LATE, self.LOST, self.SOON])
        assert str(window) == (
            "w, 50 offsets: t-1 (next loss not before 2026-11-21T06:00:00.000Z), "
            "t-0 (next loss not before 2026-11-21T07:00:00.000Z), t-2 (10 of 10 offsets gone) and 2 more; "
            "t-3 (next loss unknown: nobody may ask)"
        )

    def test_so_is_what_somebody_has_to_do_about_others(self) -> None:
        soon = [replace(self.SOON, partition=10 + number) for number in range(3)]
        window = WindowForecast.of("w", [*soon, self.UNKNOWN, replace(self.UNKNOWN, partition=5), self.SAFE])
        assert str(window).endswith(" and 3 more; t-3 (next loss unknown: nobody may ask)")

    def test_they_sort_by_what_is_lost_then_by_when_then_by_what_is_not_known(self) -> None:
        ranges = (self.SAFE, self.UNKNOWN, self.LATE, self.SOON, self.LOST)
        safe, unknown, late, soon, lost = windows = [WindowForecast.of("w", [each]) for each in ranges]
        assert sorted(windows, key=lambda each: each.urgency) == [lost, soon, late, unknown, safe]

    def test_they_lose_by_a_moment_what_is_gone_or_goes_until_then(self) -> None:
        each = (self.LOST, self.SOON, self.LATE, self.UNKNOWN, self.SAFE)
        losing = [WindowForecast.of("w", [one]).loses_by(T0) for one in each]
        assert losing == [True, True, False, False, False]
