"""Holes as a Dag sees them that Airflow runs: skipped runs fail its verify, and runs that are queued don't."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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


@pytest.mark.parametrize("queued", [False, True], ids=["skipped", "queued"])
def test_an_hour_without_a_run_is_a_hole_and_one_whose_run_is_queued_is_not(
    topic: MakeTopic,
    produce: Produce,
    resolve: Resolve,
    publish: Publish,
    dag_from: DagFrom,
    capfd: pytest.CaptureFixture[str],
    queued: bool,
) -> None:
    name = topic(config={"retention.ms": "-1"})
    produce(name, 0, stamped(*(hour * HOUR_S for hour in range(4))))
    windows = [resolve(name, *hour(each)) for each in (0, 2)]
    for each in windows:
        publish(each)
    dag_id = f"verify_{'queued' if queued else 'skipped'}"
    dag = dag_from(dag_id, DAG_FILE.format(dag_id=dag_id, window=windows[1]))
    first = dag.test(logical_date=T0 + timedelta(hours=3))
    assert state_of(first) in ("failed", "up_for_retry")
    assert f"airflow backfill create --dag-id {dag_id} --from-date 2026-11-20T07:00:00Z" in "".join(capfd.readouterr())
    if not queued:
        return
    queue(first, T0 + timedelta(hours=1))
    again = dag.test(logical_date=T0 + timedelta(hours=3))
    assert state_of(again) == "success"
    (verify,) = again.get_task_instances()
    assert verify.xcom_pull(task_ids="verify")["tiling"].startswith("still being loaded before it: no window from")


def hour(number: int) -> tuple[str, str]:
    start = T0 + timedelta(hours=number)
    return start.isoformat(), (start + timedelta(hours=1)).isoformat()


def state_of(run: Any) -> str:
    (verify,) = run.get_task_instances()
    return str(verify.state)


def queue(run: Any, logical_date: datetime) -> None:
    """Have Airflow know of a queued run, as a backfill makes them."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    with create_session() as session:
        session.add(
            DagRun(
                dag_id=run.dag_id,
                run_id=f"backfill__{logical_date.isoformat()}",
                logical_date=logical_date,
                data_interval=(logical_date, logical_date + timedelta(hours=1)),
                run_after=datetime.now(UTC),
                run_type=DagRunType.BACKFILL_JOB,
                triggered_by=DagRunTriggeredByType.BACKFILL,
                state=DagRunState.QUEUED,
            )
        )
