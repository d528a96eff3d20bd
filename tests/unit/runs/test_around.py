"""Holes as tasks tell of them: a command is given that loads the hole, or another way to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import CronDataIntervalTimetable, CronTriggerTimetable

from airflow_kafka_offsets.ledger.holes import Hole
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.runs.around import refusal

HOUR_THAT_WAS_LEFT_OUT = (datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 24, 23, tzinfo=UTC))
DAY = (datetime(2026, 10, 22, 22, tzinfo=UTC), datetime(2026, 10, 23, 22, tzinfo=UTC))
DAILY = [
    CronTriggerTimetable("0 0 * * *", timezone="Europe/Berlin", interval=timedelta(days=1)),
    CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Berlin"),
]
ITS_OWN = {"dag_id": "loads", "run_id": "r", "task_id": "load"}


def said(timetable: Any, hole: tuple[datetime, datetime], who: dict[str, Any] | None = None, *pinned: Window) -> str:
    """What verify says about a hole of a hundred offsets."""
    context = {"ti": SimpleNamespace(dag_id="loads"), "dag": SimpleNamespace(timetable=timetable)}
    missing = Hole(instant_ms(hole[0]), instant_ms(hole[1]), pinned, (LogRange("t", 0, 0, 100),))
    return str(refusal(context, ITS_OWN if who is None else who, "w", [missing]))


@pytest.mark.parametrize("timetable", DAILY)
def test_a_hole_that_is_no_window_of_the_schedule_isnt_given_a_backfill(timetable: Any) -> None:
    """Which would load nothing, or a window that crosses others."""
    message = said(timetable, HOUR_THAT_WAS_LEFT_OUT)
    assert "a run of loads with start=2026-10-24T22:00:00.000Z and end=2026-10-24T23:00:00.000Z" in message
    assert "backfill" not in message


@pytest.mark.parametrize("timetable", [*DAILY, None])
def test_windows_of_the_schedule_are_backfilled(timetable: Any) -> None:
    message = said(timetable, DAY)
    assert "no window has 100 of the 100 offsets from 2026-10-22T22:00:00.000Z" in message
    assert "airflow backfill create --dag-id loads --from-date 2026-10-2" in message


def test_of_a_pipeline_that_another_dag_loads_the_command_is_about_that_one() -> None:
    """Its schedule is unknown here."""
    assert "airflow backfill create --dag-id other" in said(DAILY[0], HOUR_THAT_WAS_LEFT_OUT, {"dag_id": "other"})


@pytest.mark.parametrize("who", [{}, {"dag_id": None}, {"by": "me, at a shell"}])
def test_where_the_attempt_names_no_dag_it_is_this_one(who: dict[str, Any]) -> None:
    assert "--dag-id loads" in said(DAILY[1], DAY, who)


def test_what_is_pinned_is_waited_for_and_not_loaded_a_second_time() -> None:
    window = Window("20261022T220000000Z_20261023T220000000Z", *map(instant_ms, DAY), 3, "m", 100)
    message = said(DAILY[1], DAY, None, window)
    assert f"load what is pinned: wait for the runs of {window.name}" in message
    assert "kafka-offsets ledger void" in message
    assert "backfill" not in message
