"""Holes as tasks tell of them: a command is given that loads the hole, or another way to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import CronDataIntervalTimetable, CronTriggerTimetable

from airflow_kafka_offsets.ledger.holes import Stretch
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.runs.loader import Loader
from airflow_kafka_offsets.runs.schedule import Schedule

HOUR_THAT_WAS_LEFT_OUT = (datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 24, 23, tzinfo=UTC))
DAY = (datetime(2026, 10, 22, 22, tzinfo=UTC), datetime(2026, 10, 23, 22, tzinfo=UTC))
DAILY = [
    CronTriggerTimetable("0 0 * * *", timezone="Europe/Berlin", interval=timedelta(days=1)),
    CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Berlin"),
]


def command(timetable: Any, hole: tuple[datetime, datetime]) -> str:
    loader = Loader(Schedule.of("loads", timetable), SimpleNamespace(dag_id="loads"))
    return loader.command(Stretch(instant_ms(hole[0]), instant_ms(hole[1]), ()))


@pytest.mark.parametrize("note", [{"airflow": None}, {"airflow": {"dag_id": None}}, {"airflow": {}}, {}])
def test_where_the_attempt_notes_no_dag_it_is_this_one(note: dict[str, Any]) -> None:
    assert Loader.of({"ti": SimpleNamespace(dag_id="loads")}, note).schedule.dag_id == "loads"


@pytest.mark.parametrize("timetable", DAILY)
def test_a_hole_that_is_no_window_of_the_schedule_isnt_given_a_backfill(timetable: Any) -> None:
    """Which would load nothing, or a window that overlaps others."""
    said = command(timetable, HOUR_THAT_WAS_LEFT_OUT)
    assert said == "a run of loads with start=2026-10-24T22:00:00.000Z and end=2026-10-24T23:00:00.000Z"


@pytest.mark.parametrize("timetable", [*DAILY, None])
def test_windows_of_the_schedule_are_backfilled(timetable: Any) -> None:
    assert command(timetable, DAY).startswith("airflow backfill create --dag-id loads --from-date 2026-10-2")
