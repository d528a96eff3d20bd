"""When retention deletes what isn't loaded: by time, by size, never, and not known."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogSize
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from airflow_kafka_offsets.offsets.windows.retention import (
    Limit,
    LogPace,
    RangeForecast,
    Unknown,
    WindowForecast,
    applies,
    forecast,
    log_pace,
)
from tests.unit.offsets.builders import HOUR_MS, T0, extent, snapshot

NOW_MS = T0
DENIED = ResponseError("CLUSTER_AUTHORIZATION_FAILED", 31, False)
KB_A_SECOND = LogPace(bytes_per_offset=1000, offsets_per_s=1)
BIGGEST = 2**63 - 1


def topic(retention_ms: int | None = -1, retention_bytes: int | None = -1, policy: str | None = "delete") -> TopicFacts:
    return TopicFacts("t", "id-1", 1, policy, retention_ms, retention_bytes, "CreateTime")


def record(position: int = 20, offset: int = 20, timestamp_ms: int | None = T0) -> FirstRecords:
    return FirstRecords([FirstRecord("t", 0, position, offset, timestamp_ms)])


def told(
    facts: TopicFacts,
    *,
    records: FirstRecords | None = None,
    pace: LogPace = KB_A_SECOND,
    log_start: int = 0,
    end: int = 50,
) -> RangeForecast:
    """Of offsets 20 to ``end`` in a log of 100, whose first record is of now."""
    pending = LogRange("t", 0, 20, end)
    found = record(max(20, log_start), max(20, log_start)) if records is None else records
    return forecast(pending, extent(start=log_start, end=100), facts, found, pace, NOW_MS)


def limits(found: RangeForecast) -> list[Limit]:
    """The limits whose effect is unknown."""
    return [unknown.limit for unknown in found.unknown]


class TestByTime:
    def test_records_go_not_before_the_first_one_is_as_old_as_the_topic_allows(self) -> None:
        found = told(topic(retention_ms=HOUR_MS), records=record(timestamp_ms=T0 - 1000))
        assert (found.loses_at_ms, found.by, found.unknown) == (T0 - 1000 + HOUR_MS, Limit.TIME, ())

    def test_a_moment_in_the_past_is_told_as_it_is(self) -> None:
        """Its segment is younger, or Kafka hasn't looked yet."""
        assert told(topic(retention_ms=10), records=record(timestamp_ms=T0 - 1000)).loses_at_ms == T0 - 990

    def test_a_range_without_records_loses_none(self) -> None:
        """E11: transaction markers, or what compaction left. The first record comes after it."""
        assert told(topic(retention_ms=HOUR_MS, retention_bytes=1), records=record(offset=50)).loses_at_ms is None

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
        assert (found.loses_at_ms, limits(found)) == (None, [Limit.TIME])

    def test_what_lies_beyond_the_calendar_is_never(self) -> None:
        """Kafka's longest retention is 292 million years."""
        assert told(topic(retention_ms=BIGGEST)).loses_at_ms is None


class TestBySize:
    def test_records_go_when_the_log_from_them_on_has_grown_to_what_the_topic_allows(self) -> None:
        """80,000 bytes now, 1,000 more a second."""
        found = told(topic(retention_bytes=200_000))
        assert (found.loses_at_ms, found.by, found.unknown) == (NOW_MS + 120_000, Limit.SIZE, ())

    def test_when_it_is_as_large_already_they_may_go_any_moment_however_it_grows(self) -> None:
        pace = LogPace(bytes_per_offset=1000)
        assert told(topic(retention_bytes=80_000), pace=pace).loses_at_ms == NOW_MS

    def test_a_log_that_does_not_grow_loses_none(self) -> None:
        found = told(topic(retention_bytes=200_000), pace=LogPace(1000, 0))
        assert (found.loses_at_ms, found.unknown) == (None, ())

    @pytest.mark.parametrize("pace", [LogPace(None, 1), LogPace(1000, None)], ids=["size", "growth"])
    def test_without_size_or_growth_it_is_unknown(self, pace: LogPace) -> None:
        found = told(topic(retention_bytes=200_000), pace=pace)
        assert (found.loses_at_ms, limits(found)) == (None, [Limit.SIZE])

    def test_time_is_still_told_then(self) -> None:
        found = told(topic(HOUR_MS, 200_000), pace=LogPace())
        assert (found.loses_at_ms, found.by, limits(found)) == (T0 + HOUR_MS, Limit.TIME, [Limit.SIZE])
        assert str(found) == (
            "t-0 (next loss by time not before 2026-11-21T07:00:00.000Z; loss by size unknown: the size of its records "
            "is unknown)"
        )

    def test_the_earlier_of_the_two_limits_counts(self) -> None:
        assert told(topic(HOUR_MS, 200_000)).by is Limit.SIZE
        assert told(topic(60_000, 200_000)).by is Limit.TIME


class TestTopics:
    @pytest.mark.parametrize(
        "facts",
        [topic(), topic(1, 1, "compact"), topic(1, 1, "")],
        ids=["without limits", "compacted", "without a policy"],
    )
    def test_some_never_delete(self, facts: TopicFacts) -> None:
        found = told(facts)
        assert (found.loses_at_ms, found.unknown) == (None, ())
        assert not any(applies(limit, facts) for limit in Limit)

    def test_compacted_ones_may_delete_too(self) -> None:
        assert told(topic(HOUR_MS, -1, "compact,delete")).loses_at_ms == T0 + HOUR_MS

    @pytest.mark.parametrize("facts", [topic(None, None, None), topic(HOUR_MS, 1, None)])
    def test_of_one_that_may_not_be_described_nothing_is_known(self, facts: TopicFacts) -> None:
        found = told(facts)
        assert (found.loses_at_ms, limits(found)) == (None, [Limit.TIME, Limit.SIZE])


class TestUnknown:
    """Why, and whether somebody has to do something about it."""

    DAY = topic(retention_ms=24 * HOUR_MS)
    MOVED = ResponseError("NOT_LEADER_OR_FOLLOWER", 6, True)

    @pytest.mark.parametrize(
        ("facts", "first", "pace", "why"),
        [
            (topic(None, -1), {}, KB_A_SECOND, "time unknown: the settings of t may not be read"),
            (DAY, {"missing_codec": "lz4", "timestamp_ms": None}, KB_A_SECOND, r"with lz4.*\[codecs\]'"),
            (DAY, {"timestamp_ms": None}, KB_A_SECOND, "no timestamp"),
            (DAY, {"offset": None, "timestamp_ms": None, "error": DENIED}, KB_A_SECOND, "CLUSTER_AUTHORIZATION_FAILED"),
            (topic(retention_bytes=9), {}, LogPace(error=DENIED), "size unknown: .*CLUSTER_AUTHORIZATION_FAILED"),
        ],
        ids=["settings", "codec", "timestamp", "record", "size"],
    )
    def test_is_told_with_its_reason(self, facts: TopicFacts, first: dict[str, Any], pace: LogPace, why: str) -> None:
        record = FirstRecord(**{"topic": "t", "partition": 0, "position": 20, "offset": 20, "timestamp_ms": T0} | first)
        found = WindowForecast.of("w", [told(facts, records=FirstRecords([record]), pace=pace)])
        ((partition, unknown),) = found.unforeseen()
        assert partition == "t-0"
        assert re.search(why, str(unknown))

    def test_in_time_it_is_known_how_fast_a_log_grows(self) -> None:
        found = WindowForecast.of("w", [told(topic(retention_bytes=200_000), pace=LogPace(1000))])
        assert list(found.unforeseen()) == []

    def test_the_error_for_which_it_is_unknown_is_kept(self) -> None:
        """One that passes calls for another try, and nothing else."""
        pace = log_pace(extent(), LogSize("t", 0, error=self.MOVED), None, None, NOW_MS)
        (unknown,) = told(topic(retention_bytes=200_000), pace=pace).unknown
        assert (unknown.error, unknown.in_time) == (self.MOVED, False)


class TestLost:
    """E9"""

    def test_what_is_gone_is_counted_and_the_rest_goes_on_losing(self) -> None:
        found = told(topic(retention_ms=HOUR_MS), log_start=27)
        assert (found.lost, found.offsets, found.loses_at_ms) == (7, 30, T0 + HOUR_MS)

    def test_what_is_gone_as_a_whole_has_no_next_loss(self) -> None:
        found = told(topic(retention_ms=HOUR_MS), log_start=60)
        assert (found.lost, found.offsets, found.loses_at_ms) == (30, 30, None)
        assert str(found) == "t-0 (30 of 30 offsets gone)"


class TestPace:
    EARLIER = snapshot({0: 0}, at_ms=NOW_MS - 2 * HOUR_MS)
    """Resolved an hour ago, when the log ended at 1,000."""
    WHOLE = ListedOffset("t", 0, OffsetSpec.EARLIEST_LOCAL, ListOutcome.FOUND, 0)
    """Of a log that is on its leader's disk as a whole."""

    def test_it_is_that_of_the_records_that_are_there_since_an_earlier_snapshot(self) -> None:
        pace = log_pace(extent(start=600, end=4600), LogSize("t", 0, 8_000), self.WHOLE, self.EARLIER, NOW_MS)
        assert pace == LogPace(bytes_per_offset=2, offsets_per_s=1)

    def test_of_tiered_logs_only_the_part_on_the_leaders_disk_has_that_size(self) -> None:
        """KIP-405"""
        local = ListedOffset("t", 0, OffsetSpec.EARLIEST_LOCAL, ListOutcome.FOUND, 4500, None)
        pace = log_pace(extent(start=600, end=4600), LogSize("t", 0, 8_000), local, None, NOW_MS)
        assert pace == LogPace(bytes_per_offset=80)

    def test_when_its_leader_can_not_say_what_is_on_its_disk_the_size_of_records_is_unknown(self) -> None:
        """The whole log's offsets would make records of a tiered log look a hundred times smaller."""
        timed_out = ResponseError("REQUEST_TIMED_OUT", 7, True)
        local = ListedOffset("t", 0, OffsetSpec.EARLIEST_LOCAL, ListOutcome.ERROR, error=timed_out)
        for unknown in (None, local, local._replace(outcome=ListOutcome.NO_RECORD, error=None)):
            pace = log_pace(extent(start=600, end=4600), LogSize("t", 0, 8_000), unknown, self.EARLIER, NOW_MS)
            assert pace[:2] == LogPace(bytes_per_offset=None, offsets_per_s=1)[:2]

    def test_brokers_without_tiers_have_all_of_it_on_their_disk(self) -> None:
        too_old = ResponseError("UNSUPPORTED_VERSION", 35, False)
        local = ListedOffset("t", 0, OffsetSpec.EARLIEST_LOCAL, ListOutcome.ERROR, error=too_old)
        assert log_pace(extent(), LogSize("t", 0, 200), local, None, NOW_MS) == LogPace(2)

    def test_without_a_snapshot_growth_is_unknown(self) -> None:
        assert log_pace(extent(), LogSize("t", 0, 100), self.WHOLE, None, NOW_MS) == LogPace(1, None)

    def test_of_a_partition_that_the_snapshot_does_not_have_it_is_unknown(self) -> None:
        assert log_pace(extent(1), LogSize("t", 1, 100), self.WHOLE, self.EARLIER, NOW_MS) == LogPace(1, None)

    def test_of_a_log_that_was_truncated_it_is_unknown(self) -> None:
        before = self.EARLIER.boundaries[TopicPartition("t", 0)]
        further = {TopicPartition("t", 0): replace(before, high_watermark=101)}
        earlier = replace(self.EARLIER, boundaries=further)
        assert log_pace(extent(end=100), LogSize("t", 0, 100), self.WHOLE, earlier, NOW_MS).offsets_per_s is None

    @pytest.mark.parametrize("size", [None, LogSize("t", 0, error=DENIED)])
    def test_without_a_size_that_of_records_is_unknown(self, size: LogSize | None) -> None:
        assert log_pace(extent(), size, self.WHOLE, None, NOW_MS).bytes_per_offset is None

    def test_an_empty_log_has_no_records_to_measure(self) -> None:
        assert (
            log_pace(extent(start=100, end=100), LogSize("t", 0, 0), self.WHOLE, None, NOW_MS).bytes_per_offset is None
        )


class TestWindows:
    LATE = RangeForecast("t", 0, 10, 0, T0 + HOUR_MS, Limit.TIME)
    SOON = RangeForecast("t", 1, 10, 0, T0, Limit.SIZE)
    LOST = RangeForecast("t", 2, 10, lost=10)
    UNKNOWN = RangeForecast("t", 3, 10, unknown=(Unknown(Limit.SIZE, "nobody may ask"),))
    SAFE = RangeForecast("t", 4, 10)

    def test_the_next_loss_is_told_beside_totals(self) -> None:
        window = WindowForecast.of("w", [self.SAFE, self.UNKNOWN, self.LATE, self.LOST, self.SOON])
        assert window.to_json() == {
            "window": "w",
            "loses_at": "2026-11-21T06:00:00.000Z",
            "by": "size",
            "topic": "t",
            "partition": 1,
            "offsets": 50,
            "lost": 10,
            "unknown": 1,
        }

    def test_the_worst_three_partitions_are_named(self) -> None:
        window = WindowForecast.of("w", [self.SAFE, self.UNKNOWN, self.LATE, self.LOST, self.SOON])
        assert str(window) == (
            "w, 50 offsets: t-1 (next loss by size about 2026-11-21T06:00:00.000Z), "
            "t-0 (next loss by time not before 2026-11-21T07:00:00.000Z), t-2 (10 of 10 offsets gone) and 2 more; "
            "t-3 (loss by size unknown: nobody may ask)"
        )

    def test_so_is_what_somebody_has_to_do_about_others(self) -> None:
        soon = [replace(self.SOON, partition=10 + number) for number in range(3)]
        window = WindowForecast.of("w", [*soon, self.UNKNOWN, replace(self.UNKNOWN, partition=5), self.SAFE])
        assert str(window).endswith(" and 3 more; t-3 (loss by size unknown: nobody may ask)")

    def test_they_sort_by_what_is_lost_then_by_when_then_by_what_is_not_known(self) -> None:
        ranges = (self.SAFE, self.UNKNOWN, self.LATE, self.SOON, self.LOST)
        safe, unknown, late, soon, lost = windows = [WindowForecast.of("w", [each]) for each in ranges]
        assert sorted(windows, key=lambda each: each.urgency) == [lost, soon, late, unknown, safe]

    def test_they_lose_by_a_moment_what_is_gone_or_goes_until_then(self) -> None:
        each = (self.LOST, self.SOON, self.LATE, self.UNKNOWN, self.SAFE)
        losing = [WindowForecast.of("w", [one]).loses_by(T0) for one in each]
        assert losing == [True, True, False, False, False]
