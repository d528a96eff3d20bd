"""The button "Trigger": runs by hand of a Dag that Airflow runs, on a real broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from tests.integration.airflow.conftest import DagFrom, Publish, Resolve
from tests.integration.ledger.loads import windows_of

# Whole Airflow runs here: its warnings aren't ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

SIX = datetime(2026, 11, 20, 6, tzinfo=UTC)
DAG_FILE = """
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, CronDataIntervalTimetable, CronTriggerTimetable

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator

hourly = {schedule}
with DAG("by_hand", schedule=hourly, start_date=datetime(2026, 11, 1, tzinfo=timezone.utc), catchup=True):
    KafkaResolveWindowOperator(task_id="resolve", pipeline=KafkaPipeline("loads", "{topic}"), {arguments})
"""
TRIGGER = 'CronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1))'
INTERVAL = 'CronDataIntervalTimetable("0 * * * *", timezone="UTC")'


@pytest.fixture
def run_by_hand(ten: str, dag_from: DagFrom, capfd: pytest.CaptureFixture[str]) -> Any:
    """Run the Dag by hand with a logical date. Returns the task's state, its XCom, and what was logged."""

    def run(moment: datetime | None, schedule: str = TRIGGER, arguments: str = "") -> tuple[str, Any, str]:
        dag = dag_from("by_hand", DAG_FILE.format(topic=ten, schedule=schedule, arguments=arguments))
        capfd.readouterr()
        run = dag.test(logical_date=moment)
        (ti,) = run.get_task_instances()
        return str(ti.state), ti.xcom_pull(task_ids="resolve"), "".join(capfd.readouterr())

    return run


def test_on_a_tick_it_is_the_schedules_window(run_by_hand: Any) -> None:
    state, window, _ = run_by_hand(SIX + timedelta(hours=1))
    assert (state, window["window"]) == ("success", "20261120T060000000Z_20261120T070000000Z")


def test_between_two_ticks_it_is_to_name_its_interval(run_by_hand: Any, ledger: Ledger) -> None:
    state, _, said = run_by_hand(SIX + timedelta(hours=1, minutes=17, seconds=23))
    assert state == "failed"
    assert "2026-11-20T06:17:23.000Z to 2026-11-20T07:17:23.000Z, isn't known to be an interval of the schedule" in said
    assert "name the interval of this run with start= and end=" in said
    assert windows_of(ledger) == []


def test_under_an_interval_timetable_it_is_the_last_window_that_is_over(run_by_hand: Any) -> None:
    state, window, _ = run_by_hand(SIX + timedelta(hours=1, minutes=17), INTERVAL)
    assert (state, window["window"]) == ("success", "20261120T060000000Z_20261120T070000000Z")


@pytest.mark.parametrize("schedule", [TRIGGER, INTERVAL])
def test_so_it_is_without_a_logical_date(run_by_hand: Any, schedule: str) -> None:
    state, _, said = run_by_hand(None, schedule)
    assert state == "failed"
    assert "or pass start= and end=, as a run needs that was started without a logical date" in said


def test_with_instants_of_its_own_it_is_refused_where_it_crosses_another_window(
    run_by_hand: Any, ten: str, resolve: Resolve, publish: Publish, ledger: Ledger
) -> None:
    standing = resolve(ten, SIX.isoformat(), (SIX + timedelta(hours=1)).isoformat())
    publish(standing)
    own = 'start="2026-11-20T06:00:05Z", end="2026-11-20T07:00:05Z"'
    state, _, said = run_by_hand(SIX + timedelta(hours=1), TRIGGER, own)
    assert state == "failed"
    assert f"published window {standing['window']} has some of its time" in said
    assert len(windows_of(ledger)) == 1
