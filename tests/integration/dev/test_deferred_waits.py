"""Deferred tasks that were never run by a worker: a real triggerer takes them for what they look like."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dev.airflow_services import AirflowServices
from dev.deferred_waits import TASK_ID, insert_waits, waits_taken_up

DATE_TIME_TRIGGER = "airflow.providers.standard.triggers.temporal.DateTimeTrigger"


@pytest.mark.nightly("what benchmarks run; airflow/waits/test_watchers.py has a triggerer")
class TestDeferredWaits:
    def test_the_triggerer_takes_them_up_and_they_resume(self, airflow_services: AirflowServices) -> None:
        """A wait that is over is resumed by a worker once the Dag runs; one that is not stays with the triggerer."""
        dag_id, now = "waits_resume", datetime.now(UTC)
        moments = [now + timedelta(seconds=1), now + timedelta(days=1), now + timedelta(seconds=2)]
        run_id = insert_waits(
            airflow_services, DATE_TIME_TRIGGER, [{"moment": each} for each in moments], dag_id=dag_id
        )
        airflow_services.wait_until(lambda: waits_taken_up(airflow_services, dag_id) == 1)
        airflow_services.unpause(dag_id)
        states = {f"{TASK_ID}[0]": "success", f"{TASK_ID}[1]": "deferred", f"{TASK_ID}[2]": "success"}
        airflow_services.wait_until(lambda: airflow_services.task_states(dag_id, run_id) == states)
        events = airflow_services.query("SELECT value FROM xcom WHERE dag_id = ? ORDER BY map_index", dag_id)
        assert len(events) == 2

    def test_a_wait_ends_at_its_timeout(self, airflow_services: AirflowServices) -> None:
        """Airflow itself resumes the task then, to fail it."""
        arguments = [{"moment": datetime.now(UTC) + timedelta(days=1)}]
        run_id = insert_waits(airflow_services, DATE_TIME_TRIGGER, arguments, dag_id="waits_time_out", timeout_s=1)
        airflow_services.unpause("waits_time_out")
        airflow_services.wait_until(lambda: airflow_services.runs("waits_time_out") == {run_id: "failed"})
