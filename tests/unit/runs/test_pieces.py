"""The pieces of an interval: aligned in a time zone, also on days when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk import CronDataIntervalTimetable

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.runs.interval import RunInterval
from airflow_kafka_offsets.runs.pieces import pieces_of, zone_of

BERLIN, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")
HOUR = timedelta(hours=1)


def day(zone: ZoneInfo, year: int, month: int, number: int) -> RunInterval:
    """A whole day by the clocks of a zone."""
    start = datetime(year, month, number, tzinfo=zone)
    return RunInterval(instant_ms(start), instant_ms(start + timedelta(days=1)))


def lengths(interval: RunInterval, length: timedelta, zone: Any) -> list[float]:
    """The pieces' lengths in hours, after a check that they tile the interval."""
    pieces = pieces_of(interval, length, zone)
    ends = [interval.start_ms, *(end for _, end in pieces)]
    assert [start for start, _ in pieces] == ends[:-1]
    assert ends[-1] == interval.end_ms
    return [(end - start) / 3_600_000 for start, end in pieces]


@pytest.mark.parametrize(("date", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25), ((2026, 11, 21), 24)])
def test_a_day_has_as_many_hours_as_clocks_show(date: tuple[int, int, int], hours: int) -> None:
    assert lengths(day(BERLIN, *date), HOUR, BERLIN) == [1.0] * hours


@pytest.mark.parametrize(("date", "first"), [((2026, 3, 29), 5.0), ((2026, 10, 25), 7.0)])
def test_the_quarter_of_a_day_in_which_clocks_change_is_shorter_or_longer(
    date: tuple[int, int, int], first: float
) -> None:
    assert lengths(day(BERLIN, *date), 6 * HOUR, BERLIN) == [first, 6.0, 6.0, 6.0]


def test_where_clocks_change_by_half_an_hour_pieces_tile_too() -> None:
    assert sum(lengths(day(LORD_HOWE, 2026, 4, 5), HOUR, LORD_HOWE)) == 24.5
    assert sum(lengths(day(LORD_HOWE, 2026, 10, 4), timedelta(minutes=40), LORD_HOWE)) == pytest.approx(23.5)


def test_pieces_are_aligned_to_the_zones_midnight() -> None:
    kolkata = ZoneInfo("Asia/Kolkata")
    start = datetime(2026, 11, 21, 6, tzinfo=UTC)  # 11:30 there
    interval = RunInterval(instant_ms(start), instant_ms(start + 2 * HOUR))
    assert lengths(interval, HOUR, kolkata) == [0.5, 1.0, 0.5]
    assert lengths(interval, HOUR, UTC) == [1.0, 1.0]


def test_the_zone_is_that_of_the_schedule_else_the_dags() -> None:
    scheduled = CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Berlin")
    assert str(zone_of(SimpleNamespace(timetable=scheduled, timezone=UTC))) == "Europe/Berlin"
    assert zone_of(SimpleNamespace(timetable=None, timezone=LORD_HOWE)) is LORD_HOWE
    assert zone_of(None) is UTC


@pytest.mark.parametrize(
    "length", [timedelta(hours=7), timedelta(0), timedelta(days=2), 3600, timedelta(microseconds=1)]
)
def test_a_day_must_have_a_whole_number_of_them(length: Any) -> None:
    with pytest.raises(ConfigurationError, match="split= takes the length of a window"):
        pieces_of(day(BERLIN, 2026, 11, 21), length, BERLIN)


def test_more_than_anybody_means_are_refused() -> None:
    century = RunInterval(0, instant_ms(datetime(2026, 1, 1, tzinfo=UTC)))
    with pytest.raises(ConfigurationError, match="About 490,896 windows"):
        pieces_of(century, HOUR, UTC)
