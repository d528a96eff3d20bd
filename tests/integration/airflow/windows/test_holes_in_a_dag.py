"""Holes as a Dag sees them that Airflow runs: a skipped run fails its verify, with the command that makes the run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.integration.airflow.conftest import T0, DagFrom, Publish, Resolve
from tests.integration.airflow.windows.conftest import HOUR_S, stamped
from tests.integration.conftest import MakeTopic, Produce

# Whole Airflow runs here: its warnings aren't ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

DAG_FILE = """
from datetime import datetime, timezone

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator

hourly = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
with DAG("{dag_id}", schedule=hourly, start_date=datetime(2026, 11, 1, tzinfo=timezone.utc), catchup=True):
    KafkaVerifyWindowOperator(task_id="verify", window={window!r})
"""


def test_an_hour_without_a_run_is_a_hole_until_its_window_is_pinned(
    topic: MakeTopic,
    produce: Produce,
    resolve: Resolve,
    publish: Publish,
    dag_from: DagFrom,
    capfd: pytest.CaptureFixture[str],
) -> None:
    name = topic(config={"retention.ms": "-1"})
    produce(name, 0, stamped(*(hour * HOUR_S for hour in range(4))))
    windows = [resolve(name, *hour(each)) for each in (0, 2)]
    for each in windows:
        publish(each)
    dag = dag_from("loads", DAG_FILE.format(dag_id="loads", window=windows[1]))
    first = dag.test(logical_date=T0 + timedelta(hours=3))
    assert state_of(first) in ("failed", "up_for_retry")
    command = "airflow backfill create --dag-id loads --from-date 2026-11-20T07:00:00.000Z"
    assert command in "".join(capfd.readouterr())
    resolve(name, *hour(1))
    again = dag.test(logical_date=T0 + timedelta(hours=3))
    assert state_of(again) == "success"
    (verify,) = again.get_task_instances()
    assert verify.xcom_pull(task_ids="verify")["tiling"].startswith("not loaded yet before it: not published yet")


def hour(number: int) -> tuple[str, str]:
    start = T0 + timedelta(hours=number)
    return start.isoformat(), (start + timedelta(hours=1)).isoformat()


def state_of(run: Any) -> str:
    (task,) = run.get_task_instances()
    return str(task.state)
