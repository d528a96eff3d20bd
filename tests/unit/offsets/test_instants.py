"""Instants: one meaning, three forms, and no guess about units or zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import InstantError
from airflow_kafka_offsets.offsets.instants import compact_instant, instant_ms, iso_instant, parse_instant, to_datetime

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

    def test_a_zone_other_than_utc_is_converted(self) -> None:
        assert parse_instant("2026-11-21T01:00:00-05:00") == 1_795_240_800_000


class TestRefused:
    """E35: seconds, microseconds and naive datetimes are refused, not guessed at."""

    @pytest.mark.parametrize("wrong", [1_795_240_800, 1_795_240_800_000_000, 0, -1, True])
    def test_an_int_that_is_not_plausibly_milliseconds(self, wrong: int) -> None:
        with pytest.raises(InstantError, match="milliseconds"):
            instant_ms(wrong)

    def test_a_naive_datetime(self) -> None:
        with pytest.raises(InstantError, match="no time zone"):
            instant_ms(datetime(2026, 11, 21))  # noqa: DTZ001  # the naive one is the point

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

    def test_a_zone_of_half_hours_is_fine(self) -> None:
        zone = timezone(timedelta(hours=5, minutes=30))
        assert instant_ms(datetime(2026, 11, 21, 11, 30, tzinfo=zone)) == 1_795_240_800_000
