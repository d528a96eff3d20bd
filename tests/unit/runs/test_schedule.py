"""The ticks of a schedule, as Airflow itself gives them, also where clocks change (S26)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pendulum
import pytest
from airflow.timetables.trigger import CronPartitionTimetable

from airflow_kafka_offsets.compat.airflow_versions import Cron
from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.runs.schedule import is_tick, ticks

SIX = datetime(2026, 10, 31, 6, tzinfo=UTC)
LORD_HOWE = "Australia/Lord_Howe"
"""It changes its clocks by half an hour, and Airflow's hourly ticks stand still then."""


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("cron", ["0 * * * *", "0 0 * * *", "30 2 * * *", "0 2 * * *", "0 1,2,3 * * *", "*/30 2 * * *"])
def test_every_tick_that_airflow_gives_is_one(zone: str, cron: str) -> None:
    airflows = CronPartitionTimetable(cron, timezone=zone)
    for month, day in ((3, 8), (3, 29), (10, 25), (11, 1)):
        tick = airflows._align_to_next(pendulum.datetime(2026, month, day))
        while tick < pendulum.datetime(2026, month, day).add(days=1):
            assert is_tick(Cron(cron, zone), instant_ms(tick)), tick
            following = airflows._get_next(tick)
            assert ticks(cron, zone, instant_ms(tick), instant_ms(following))
            tick = following


@pytest.mark.parametrize(
    ("zone", "moment"),
    [("UTC", SIX + timedelta(minutes=1)), (LORD_HOWE, datetime(2026, 4, 4, 17, 10, tzinfo=UTC))],
)
def test_an_instant_between_ticks_is_none(zone: str, moment: datetime) -> None:
    assert not is_tick(Cron("0 * * * *", zone), instant_ms(moment))


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ((4, 4, 14, 30), (4, 4, 15, 30), "not a tick"),
        ((4, 3, 13, 0), (4, 5, 13, 30), "has no tick after"),
        ((10, 2, 13, 30), (10, 4, 13, 0), "has no tick after"),
    ],
)
def test_where_airflow_finds_no_next_tick_it_is_not_looked_for_for_ever(
    first: tuple[int, ...], last: tuple[int, ...], said: str
) -> None:
    start, end = (instant_ms(pendulum.datetime(2026, *each)) for each in (first, last))
    with pytest.raises(IntervalError, match=said):
        ticks("0 * * * *", LORD_HOWE, start, end)


def test_so_many_windows_that_nobody_means_them_are_refused_soon() -> None:
    """They would take hours to list, for example when the year is misspelt."""
    with pytest.raises(IntervalError, match=r"About 5,\d{3},\d{3} windows of '\* \* \* \* \*' lie between 2016-"):
        ticks("* * * * *", "UTC", instant_ms(SIX.replace(year=2016)), instant_ms(SIX))


def test_what_is_no_schedule_is_said_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match=r"is not a schedule: .*[^.]\.$"):
        ticks("every hour", "UTC", 0, 1)
