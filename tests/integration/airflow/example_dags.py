"""How tests run the example Dags: on a real broker, by Airflow's own task runner."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev import ROOT
from dev.airflow_home import environment
from dev.kafka import Broker
from tests.patience import RUN_S, wait_until

GROUP = "flights-reader"
CAUGHT_UP = {"groups": {GROUP: 0}, "max_lag": 0}
_POKES = timedelta(seconds=5)


@pytest.fixture
def home(tmp_path: Path, broker: Broker, flights: None, airflow_db: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ledger, output and Spark's scratch for one test; Airflow's database is the session's."""
    for name, value in environment(tmp_path, broker.bootstrap_servers).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    return tmp_path


def run_dag(dag_id: str, moment: datetime) -> dict[str, tuple[str, Any]]:
    """State and XCom of each task after a run."""
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(str(ROOT / "dags" / f"{dag_id}.py"), bundle_name="dags-folder").dags[dag_id]
    run = dag.test(logical_date=moment)
    return {ti.task_id: (str(ti.state), ti.xcom_pull(task_ids=ti.task_id)) for ti in run.get_task_instances()}


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    """Run tasks in a process of their own, as a worker does. Everything that they log is in its output."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, check=False)


def commit(broker: Broker, offset: int | None) -> None:
    """Commit an offset on each partition of ``flights``; None for the end of each."""
    with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
        ends = client.list_offsets(client.partitions_of(["flights"]), OffsetSpec.LATEST).raise_for_errors()
        pieces = [CommittedOffset(*each[:2], each.offset if offset is None else offset) for each in ends]
        client.commit_offsets(GROUP, CommittedOffsets(pieces)).raise_for_errors()


@contextmanager
def meanwhile(work: Callable[..., object], *arguments: object) -> Iterator[None]:
    """Have something done once a task of the block's Dag waits for it: it is deferred, or has run for some pokes. It is
    done in any case: nothing else would end the Dag's wait."""

    def do() -> None:
        try:
            wait_until(_waits, "a task waits")
        finally:
            work(*arguments)

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(do)
        yield
    done.result()


def _waits() -> bool:
    now = datetime.now(UTC).replace(tzinfo=None)
    return any(
        state == "deferred" or (since and datetime.fromisoformat(since).replace(tzinfo=None) + _POKES < now)
        for state, since in _tasks_under_way()
    )


def _tasks_under_way() -> list[tuple[str, str]]:
    """State and start of each; none while Airflow has the database for itself, or has just closed it. One whose trigger
    runs beside the Dag, as :meth:`DAG.test` has it, may be left as queued."""
    file = f"file:{os.environ['AIRFLOW_HOME']}/airflow.db?mode=ro"
    asked = "SELECT state, start_date FROM task_instance WHERE state IN ('deferred', 'queued', 'running')"
    try:
        with closing(sqlite3.connect(file, uri=True)) as database:
            return database.execute(asked).fetchall()
    except sqlite3.OperationalError:
        return []
