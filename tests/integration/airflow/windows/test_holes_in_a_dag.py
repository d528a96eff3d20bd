"""Holes as a Dag sees them that Airflow runs: skipped runs fail its verify, and runs that are queued don't. A group
begins with the first of the runs that go on."""

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
    queue(first.dag_id, T0 + timedelta(hours=1))
    again = dag.test(logical_date=T0 + timedelta(hours=3))
    assert state_of(again) == "success"
    (verify,) = again.get_task_instances()
    assert verify.xcom_pull(task_ids="verify")["tiling"].startswith("still being loaded before it: no window from")


COMMIT_FILE = """
from datetime import datetime, timezone

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator

hourly = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
with DAG("{dag_id}", schedule=hourly, start_date=datetime(2026, 11, 1, tzinfo=timezone.utc), catchup=True):
    KafkaCommitOffsetsOperator(task_id="commit", window={window!r}, group="{dag_id}")
"""


def test_a_new_group_does_not_begin_past_an_earlier_run_that_goes_on(
    topic: MakeTopic,
    produce: Produce,
    resolve: Resolve,
    publish: Publish,
    dag_from: DagFrom,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Nothing of the earlier run is pinned yet. Once it is over the group begins."""
    name = topic(config={"retention.ms": "-1"})
    produce(name, 0, stamped(*(each * HOUR_S for each in range(4))))
    window = resolve(name, *hour(2))
    publish(window)
    dag = dag_from("commit_late", COMMIT_FILE.format(dag_id="commit_late", window=window))
    queue("commit_late", T0 + timedelta(hours=1))
    assert state_of(dag.test(logical_date=T0 + timedelta(hours=2))) in ("failed", "up_for_retry")
    assert "would start past the records that it loads" in "".join(capfd.readouterr())
    end_queued("commit_late")
    assert state_of(dag.test(logical_date=T0 + timedelta(hours=2))) == "success"


def hour(number: int) -> tuple[str, str]:
    start = T0 + timedelta(hours=number)
    return start.isoformat(), (start + timedelta(hours=1)).isoformat()


def state_of(run: Any) -> str:
    (task,) = run.get_task_instances()
    return str(task.state)


def queue(dag_id: str, logical_date: datetime) -> None:
    """Have Airflow know of a queued run, as a backfill makes them."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    with create_session() as session:
        session.add(
            DagRun(
                dag_id=dag_id,
                run_id=f"backfill__{logical_date.isoformat()}",
                logical_date=logical_date,
                data_interval=(logical_date, logical_date + timedelta(hours=1)),
                run_after=datetime.now(UTC),
                run_type=DagRunType.BACKFILL_JOB,
                triggered_by=DagRunTriggeredByType.BACKFILL,
                state=DagRunState.QUEUED,
            )
        )


def end_queued(dag_id: str) -> None:
    """Have those runs be over."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState

    with create_session() as session:
        for run in session.query(DagRun).filter_by(dag_id=dag_id, state=DagRunState.QUEUED):
            run.state = DagRunState.SUCCESS
