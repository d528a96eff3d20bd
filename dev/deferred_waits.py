"""Deferred tasks in the database of a local Airflow, as if a thousand workers had deferred them.

A worker that defers a task inserts a row for the trigger and points the task instance at it. Here we write those rows
ourselves, in one transaction, to test a real triggerer with any number of waits.

    run_id = insert_waits(airflow, "tests.slow_trigger.SlowTrigger", [{"seconds": 3_600}] * 1_000)
    airflow.wait_until(lambda: waits_taken_up(airflow) == 1_000)

The Dag stays paused, so resumed tasks don't take workers. :meth:`AirflowServices.unpause` lets them go on, and each
succeeds with its event as XCom.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dev.airflow_services import AirflowServices
from dev.airflow_settings import database_file

DAG_ID = "deferred_waits"
TASK_ID = "wait"

_DAG = """
from airflow.sdk import DAG, BaseOperator


class DeferredWait(BaseOperator):
    def __init__(self, *, number, **arguments):
        super().__init__(**arguments)
        self.number = number

    def execute(self, context):
        raise RuntimeError("this task is only ever resumed")

    def resume(self, context, event):
        return event


with DAG("{dag_id}", schedule=None, max_active_tasks={count}):
    DeferredWait.partial(task_id="{task_id}").expand(number=list(range({count})))
"""


def insert_waits(
    airflow: AirflowServices,
    class_path: str,
    arguments: Sequence[Mapping[str, Any]],
    *,
    dag_id: str = DAG_ID,
    timeout_s: float | None = None,
) -> str:
    """Write a Dag with one mapped task, trigger a run, and defer each of its task instances. Returns the run id.

    Airflow is imported in this process, to serialize triggers' arguments its way. ``AIRFLOW_HOME`` must be set.

    :param airflow: a running Airflow; its triggerer picks up the waits at once (50 per loop), or when it is started.
    :param class_path: the trigger's class, importable by the services.
    :param arguments: the trigger's arguments, as its :meth:`serialize` returns them, for each wait.
    :param dag_id: of a Dag that doesn't exist yet.
    :param timeout_s: seconds after which Airflow fails a wait; None for never.
    """
    file = airflow.dags_folder / f"{dag_id}.py"
    file.write_text(_DAG.format(dag_id=dag_id, task_id=TASK_ID, count=len(arguments)), encoding="utf-8")
    airflow.wait_for_dag(dag_id)
    run_id = airflow.trigger(dag_id)
    kwargs = [_as_worker_writes(each) for each in arguments]
    with contextlib.closing(sqlite3.connect(database_file(airflow.home), timeout=60)) as connection, connection:
        _defer(connection, dag_id, run_id, class_path, kwargs, timeout_s)
    return run_id


def waits_taken_up(airflow: AirflowServices, dag_id: str = DAG_ID) -> int:
    """How many of a Dag's waits are assigned to the latest triggerer in the database."""
    ((count,),) = airflow.query(
        """SELECT count(*) FROM "trigger" WHERE id IN (SELECT trigger_id FROM task_instance WHERE dag_id = ?)
        AND triggerer_id = (SELECT max(id) FROM job WHERE job_type = 'TriggererJob')""",
        dag_id,
    )
    return int(count)


def _as_worker_writes(arguments: Mapping[str, Any]) -> str:
    from airflow.sdk.serde import serialize

    return json.dumps(serialize(dict(arguments)))


def _defer(
    connection: sqlite3.Connection,
    dag_id: str,
    run_id: str,
    class_path: str,
    kwargs: Sequence[str],
    timeout_s: float | None,
) -> None:
    """Write what scheduler, worker and api-server write for a started run and its deferred tasks."""
    now = datetime.now(UTC)
    started = _as_airflow_writes(now)
    timeout = None if timeout_s is None else _as_airflow_writes(now + timedelta(seconds=timeout_s))
    connection.execute(
        "UPDATE dag_run SET state = 'running', start_date = ? WHERE dag_id = ? AND run_id = ?",
        (started, dag_id, run_id),
    )
    for index, each in enumerate(kwargs):
        trigger = connection.execute(
            'INSERT INTO "trigger" (classpath, kwargs, created_date) VALUES (?, ?, ?)', (class_path, each, started)
        )
        changed = connection.execute(
            """UPDATE task_instance SET state = 'deferred', try_number = 1, scheduled_dttm = ?1, queued_dttm = ?1,
            start_date = ?1, updated_at = ?1, trigger_id = ?2, trigger_timeout = ?3, next_method = 'resume',
            next_kwargs = '{}' WHERE dag_id = ?4 AND run_id = ?5 AND task_id = ?6 AND map_index = ?7""",
            (started, trigger.lastrowid, timeout, dag_id, run_id, TASK_ID, index),
        )
        if changed.rowcount != 1:
            raise LookupError(f"run {run_id} of {dag_id} has no task instance {TASK_ID}[{index}]")


def _as_airflow_writes(moment: datetime) -> str:
    """An instant as SQLAlchemy writes it to SQLite: in UTC, without a zone."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"
