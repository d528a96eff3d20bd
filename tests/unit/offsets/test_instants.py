"""Instants: one meaning, three forms, and no guess about units or zones."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pendulum
import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.errors import InstantError, shorten
from airflow_kafka_offsets.offsets.instants import (
    compact_instant,
    duration_text,
    instant_ms,
    iso_instant,
    parse_instant,
    rate_text,
    to_datetime,
)
from airflow_kafka_offsets.offsets.windows.snapshots import snapshot_warnings
from tests.unit.offsets.builders import snapshot

plausible = st.integers(min_value=100_000_000_000, max_value=9_999_999_999_999)


class TestForms:
    @given(plausible)
    def test_every_form_reads_back_as_the_same_milliseconds(self, timestamp_ms: int) -> None:
        assert parse_instant(iso_instant(timestamp_ms)) == timestamp_ms
        assert parse_instant(compact_instant(timestamp_ms)) == timestamp_ms
        assert instant_ms(to_datetime(timestamp_ms)) == timestamp_ms

    @given(plausible, plausible)
    def test_file_names_sort_by_time(self, one: int, other: int) -> None:
        assert (compact_instant(one) < compact_instant(other)) == (one < other)

    def test_the_forms_of_a_known_moment(self) -> None:
        assert iso_instant(1_795_240_800_000) == "2026-11-21T06:00:00.000Z"
        assert compact_instant(1_795_240_800_000) == "20261121T060000000Z"

    def test_a_fraction_of_a_millisecond_counts_as_the_next_one(self) -> None:
        """A record at or after it carries at least that timestamp."""
        assert instant_ms(datetime(2026, 11, 21, 6, 0, 0, 1, tzinfo=UTC)) == 1_795_240_800_001

    @pytest.mark.parametrize(
        ("fraction", "milliseconds"),
        [("0000000", 0), ("0000001", 1), ("000000001", 1), ("0005001", 1), ("9990000", 999), ("999999999", 1000)],
    )
    def test_so_does_less_than_a_microsecond_which_python_drops(self, fraction: str, milliseconds: int) -> None:
        assert parse_instant(f"2026-11-21T06:00:00.{fraction}Z") == 1_795_240_800_000 + milliseconds

    def test_airflows_own_kind_of_moment_is_one(self) -> None:
        """Pendulum's, whose differences are no timedeltas of Python's."""
        moment = pendulum.datetime(2026, 11, 21, 7, 0, 0, 1, tz="Europe/Berlin")
        assert instant_ms(moment) == 1_795_240_800_001

    @pytest.mark.parametrize(
        ("microseconds", "milliseconds"),
        [(500_000, -500), (-500_000, 500), (1, 0), (-1, 1), (3_600_500_000, -3_600_500)],
    )
    def test_a_zone_of_a_fraction_of_a_second_is_converted_too(self, microseconds: int, milliseconds: int) -> None:
        zone = timezone(timedelta(microseconds=microseconds))
        assert instant_ms(datetime(2026, 11, 21, 6, tzinfo=zone)) == 1_795_240_800_000 + milliseconds

    @given(st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1)), st.integers(-(86_400 - 1), 86_400 - 1))  # noqa: DTZ001
    def test_in_any_zone_it_is_the_first_millisecond_at_or_after_it(self, local: datetime, seconds: int) -> None:
        offset = timedelta(seconds=seconds, microseconds=123_456)
        moment = local.replace(tzinfo=timezone(offset if abs(offset) < timedelta(days=1) else timedelta()))
        assert timedelta() <= to_datetime(instant_ms(moment)) - moment < timedelta(milliseconds=1)

    @pytest.mark.parametrize(
        "text",
        [
            "2026-11-21T06Z",
            "2026-11-21 06:00+00:00",
            "20261121T0600Z",
            "2026-W47-6T06:00Z",
            "2026-11-21T06:00:00,000Z",
            "2026-11-21T05:30:00-0030",
            "2026-11-21T01:00:00-05:00",
            "2026-11-21T06:53:28+00:53:28",
            "2026-11-21T06:00:00.000000000000Z",
        ],
    )
    def test_other_forms_of_iso_8601_are_fine(self, text: str) -> None:
        assert parse_instant(text) == 1_795_240_800_000


INT64 = st.integers(-(2**63), 2**63 - 1)


class TestAnyTimestamp:
    """A record's timestamp is whatever its producer says: microseconds, for example, are in the year 58,858."""

    @pytest.mark.parametrize(
        ("timestamp_ms", "text"),
        [
            (1_795_240_800_000_000, "+58858-12-01T00:00:00.000Z"),
            (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
            (-62_135_596_800_001, "0000-12-31T23:59:59.999Z"),
            (-(10**16), "-314918-08-13T06:13:20.000Z"),
            (2**63 - 1, "+292278994-08-17T07:12:55.807Z"),
            (-(2**63), "-292275055-05-16T16:47:04.192Z"),
        ],
    )
    def test_is_told_as_java_tells_it(self, timestamp_ms: int, text: str) -> None:
        assert iso_instant(timestamp_ms) == text

    @given(INT64)
    def test_is_told_to_the_millisecond(self, timestamp_ms: int) -> None:
        match = re.fullmatch(r"([+-]?\d{4,})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z", iso_instant(timestamp_ms))
        assert match is not None
        year, month, day, hour, minute, second, millisecond = map(int, match.groups())
        seconds = (_days_since_1970(year, month, day) * 24 + hour) * 3600 + minute * 60 + second
        assert seconds * 1000 + millisecond == timestamp_ms

    @given(INT64, INT64)
    def test_never_stops_a_remark_or_a_lag_from_being_told(self, timestamp_ms: int, resolved_at_ms: int) -> None:
        """E5"""
        made = replace(snapshot({0: 10}), resolved_at_ms=resolved_at_ms)
        stamped = {key: replace(each, matched_timestamp_ms=timestamp_ms) for key, each in made.boundaries.items()}
        said = list(snapshot_warnings(replace(made, boundaries=stamped)))
        assert bool(said) == (timestamp_ms > resolved_at_ms + 3_600_000)


def _days_since_1970(year: int, month: int, day: int) -> int:
    """By counting: leap days of whole years, and the months before."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    before = year - 1
    whole_years = before * 365 + before // 4 - before // 100 + before // 400
    months = (31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return whole_years + sum(months[: month - 1]) + day - 1 - 719_162


class TestRefused:
    """E35: seconds, microseconds and naive datetimes are refused, not guessed at."""

    @pytest.mark.parametrize("wrong", [1_795_240_800, 1_795_240_800_000_000, 0, -1, True])
    def test_an_int_that_is_not_plausibly_milliseconds(self, wrong: int) -> None:
        with pytest.raises(InstantError, match="milliseconds"):
            instant_ms(wrong)

    def test_a_naive_datetime(self) -> None:
        with pytest.raises(InstantError, match="no time zone"):
            instant_ms(datetime(2026, 11, 21))  # noqa: DTZ001  # the naive one is the point

    @pytest.mark.parametrize("text", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "+10000-01-01T00:00Z"])
    def test_a_moment_outside_the_years_that_datetimes_have(self, text: str) -> None:
        """The first two lie there in UTC alone."""
        with pytest.raises(InstantError):
            parse_instant(text)

    def test_a_moment_before_1970(self) -> None:
        """Negative timestamps are Kafka's own signs for something else."""
        with pytest.raises(InstantError, match="before 1970"):
            instant_ms(datetime(1969, 12, 31, tzinfo=UTC))

    def test_a_text_without_a_zone(self) -> None:
        with pytest.raises(InstantError, match="no time zone"):
            parse_instant("2026-11-21T06:00:00")

    def test_a_text_that_is_no_instant(self) -> None:
        with pytest.raises(InstantError, match="not an instant"):
            parse_instant("yesterday")

    @pytest.mark.parametrize(
        "text",
        [
            "2026-11-21T06:00:00Z\0",
            "2026-11-21T06:00:00\0Z",
            "2026-11-21\x0006:00:00Z",
            "2026-11-21T06:00:00+00:00\0",
            "2026-11-21T06:00:00.123456789\0Z",
            "2026-11-21T06:00:00.123456789abcZ",
            "2026-11-21é06:00:00Z",
            "2026-11-21T06:00:00+00:00:00.5",
            "2026-11-21T06:00:00Z\n",
            "20261121T060000000Z\n",
            "\u0662\u0660\u0662\u06661121T060000000Z",
        ],
    )
    def test_a_text_with_something_else_in_it(self, text: str) -> None:
        """Python passes over some of that."""
        with pytest.raises(InstantError, match="not an instant"):
            parse_instant(text)


class TestDurationsForPeople:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "1 ms"),
            (0.0002, "1 ms"),
            (0.3, "300 ms"),
            (1, "1 s"),
            (1.5, "1.5 s"),
            (9.96, "10 s"),
            (90, "90 s"),
            (119.9, "120 s"),
            (150, "2 minutes"),
            (5 * 3600, "5 hours"),
            (10 * 86400, "10 days"),
        ],
    )
    def test_they_are_rough_and_never_rounded_to_nothing(self, seconds: float, text: str) -> None:
        assert duration_text(seconds) == text

    @given(st.floats(0, 1e9))
    def test_none_begins_with_zero(self, seconds: float) -> None:
        assert float(duration_text(seconds).split()[0]) > 0

    @pytest.mark.parametrize(
        ("records", "seconds", "text"),
        [(89, 211.353, "0.42"), (9.9, 1, "9.9"), (9.96, 1, "10"), (1_500_000, 10, "150,000"), (5, 0, "5,000")],
    )
    def test_rates_of_slow_loads_are_not_nought(self, records: float, seconds: float, text: str) -> None:
        assert rate_text(records, seconds) == f"{text} a second"


class TestListsForPeople:
    def test_nothing_is_a_word(self) -> None:
        assert (shorten([]), shorten([""])) == ("none", "none")

    def test_what_is_more_than_a_few_is_counted(self) -> None:
        assert shorten("abcde") == "a, b, c and 2 more"
