"""A whole Airflow as processes: what tests of sensors, triggers and asset watchers rest on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dev import ROOT
from dev.airflow_services import AirflowServices
from tests.patience import PATIENCE_S

ASSET_DAG = """
from airflow.sdk import DAG, Asset, AssetWatcher, task
from tests.integration.dev.file_trigger import FileTrigger

files = Asset("{dag_id}", watchers=[AssetWatcher(name="files", trigger=FileTrigger("{path}"))])

with DAG("{dag_id}", schedule=[files]):

    @task
    def see(triggering_asset_events=None):
        return [each.extra["payload"]["count"] for each in triggering_asset_events[files]]

    see()
"""


def wait_for_runs(airflow: AirflowServices, dag_id: str, states: list[str]) -> None:
    """Wait until a Dag's runs, oldest first, have these states."""
    airflow.wait_until(lambda: list(airflow.runs(dag_id).values()) == states)


class TestAirflowServices:
    def test_every_service_is_healthy_after_the_start(self, airflow_services: AirflowServices) -> None:
        assert airflow_services.health() == dict.fromkeys(
            ("api-server", "scheduler", "dag-processor", "triggerer"), True
        )
        assert airflow_services.trigger_runner_pid in airflow_services.pids()["triggerer"][1:]

    @pytest.mark.nightly("half a minute of an Airflow, for tests alone: every one of them ends with it")
    def test_a_triggerer_stops_in_an_orderly_way(self, airflow_services: AirflowServices) -> None:
        airflow_services.stop_triggerer()
        assert "Exited trigger loop" in airflow_services.log_file("triggerer").read_text()
        with pytest.raises(LookupError):
            _ = airflow_services.triggerer_pid
        airflow_services.start_triggerer()

    @pytest.mark.nightly("half a minute of an Airflow; waits/test_watchers.py has a watched asset start a Dag")
    def test_a_watched_asset_starts_a_dag_and_keeps_state(
        self, airflow_services: AirflowServices, tmp_path: Path
    ) -> None:
        dag_id, path = "watched_files", tmp_path / "file"
        (airflow_services.dags_folder / f"{dag_id}.py").write_text(ASSET_DAG.format(dag_id=dag_id, path=path))
        airflow_services.unpause(dag_id)
        airflow_services.start_watchers(dag_id)
        # SQLite may have given the watcher's trigger the id of one that is gone, and a triggerer that has just
        # cancelled that one never starts the other.
        airflow_services.stop_triggerer()
        airflow_services.start_triggerer()
        for count in (1, 2):
            path.touch()
            wait_for_runs(airflow_services, dag_id, ["success"] * count)
        seen = "SELECT value FROM xcom WHERE dag_id = ? AND key = 'return_value' ORDER BY timestamp"
        assert [json.loads(value) for (value,) in airflow_services.query(seen, dag_id)] == [[1], [2]]


@pytest.mark.nightly("an Airflow of its own that is killed; what tests start is ended all the same")
class TestTheEnd:
    def test_what_a_killed_service_forked_ends_with_it(self, airflow_services: AirflowServices) -> None:
        pids = airflow_services.pids()["triggerer"]
        assert airflow_services.trigger_runner_pid in pids[1:]
        os.kill(airflow_services.triggerer_pid, signal.SIGKILL)
        wait_for_end(pids[1:])
        airflow_services.kill_triggerer()
        airflow_services.start_triggerer()
        assert airflow_services.triggerer_pid not in pids

    def test_services_end_with_a_killed_parent(self, tmp_path: Path) -> None:
        parent = subprocess.Popen([sys.executable, "-c", _START, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
        with parent:
            assert parent.stdout is not None
            pids = [int(each) for each in parent.stdout.readline().split()]
            assert pids
            parent.kill()
        wait_for_end(pids)


_START = """
import pathlib, sys, threading
from dev.airflow_services import AirflowServices

airflow = AirflowServices(pathlib.Path(sys.argv[1]))

def tell():
    while not (found := airflow.pids()):
        pass
    print(*(pid for pids in found.values() for pid in pids), flush=True)

threading.Thread(target=tell, daemon=True).start()
airflow.start()
"""


def wait_for_end(pids: list[int]) -> None:
    """Wait until no such process runs."""
    _, alive = psutil.wait_procs([psutil.Process(each) for each in pids if psutil.pid_exists(each)], timeout=PATIENCE_S)
    assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []
