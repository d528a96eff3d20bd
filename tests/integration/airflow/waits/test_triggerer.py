"""Waits on a whole Airflow: real scheduler, workers and triggerer, which is killed and started again."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.references import WindowRef
from dev.airflow_services import AirflowServices
from dev.deferred_waits import waits_taken_up
from dev.kafka import Broker
from tests.integration.airflow.waits.whole_airflow import DEADLINE_S, commit
from tests.integration.client.cases.workload import new_topic, produce as produce_records
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.ledger import loads
from tests.patience import PATIENCE_S

COUNTED = "counted"
"""The connection to the broker by its proxy, which counts requests; no other test leaves clients there."""

WAIT_DAG = """
from airflow.sdk import DAG

from airflow_kafka_offsets.sensors.group_sensors import KafkaGroupLagSensor

with DAG("{dag_id}", schedule=None):
    KafkaGroupLagSensor(
        task_id="wait",
        kafka_conn_id="{conn_id}",
        groups="{{{{ dag_run.conf['group'] }}}}-{{{{ ti.try_number }}}}",
        poke_interval=1,
        deferrable=True,
    )
"""

VERIFY_DAG = """
from airflow.sdk import DAG

from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator

with DAG("{dag_id}", schedule=None):
    KafkaVerifyWindowOperator(task_id="wait", window={window!r}, deferrable=True, poke_interval=1)
"""

pytestmark = pytest.mark.nightly("minutes of a whole Airflow; test_watchers.py waits on its triggerer")


def ask(airflow: AirflowServices, method: str, path: str, body: Any = None) -> None:
    """Ask Airflow's REST API for something, as a user's browser does."""
    httpx.request(method, f"{airflow.url}/api/v2{path}", json=body, timeout=PATIENCE_S).raise_for_status()


def add_wait_dag(airflow: AirflowServices, dag_id: str, conn_id: str = "kafka_default") -> None:
    text = WAIT_DAG.format(dag_id=dag_id, conn_id=conn_id)
    (airflow.dags_folder / f"{dag_id}.py").write_text(text, encoding="utf-8")
    airflow.unpause(dag_id)


def start_waits(airflow: AirflowServices, dag_id: str, *groups: str) -> dict[str, str]:
    """A run for each group, all of them deferred and with the triggerer. Run ids by group."""
    run_ids = {group: airflow.trigger(dag_id, {"group": group}) for group in groups}
    airflow.wait_until(lambda: waits_taken_up(airflow, dag_id) == len(groups), DEADLINE_S)
    return run_ids


def wait_for_success(airflow: AirflowServices, dag_id: str, run_id: str) -> Any:
    """Wait until the wait of a run has succeeded; its XCom."""
    airflow.wait_until(lambda: airflow.task_states(dag_id, run_id) == {"wait": "success"}, DEADLINE_S)
    found = "SELECT value FROM xcom WHERE dag_id = ? AND run_id = ? AND key = 'return_value'"
    ((value,),) = airflow.query(found, dag_id, run_id)
    return json.loads(value)


@pytest.fixture
def five(topic: MakeTopic, produce: Produce) -> str:
    """A topic of one partition with five records."""
    name = topic()
    produce(name, 0, [(None, None, b"x")] * 5)
    return name


@pytest.fixture(scope="module")
def counting(airflow_services: AirflowServices, broker: Broker) -> Broker:
    """The broker, which the connection :data:`COUNTED` in Airflow's database reaches through the proxy."""
    extra = json.dumps({"bootstrap.servers": broker.proxied_bootstrap_servers})
    ask(airflow_services, "POST", "/connections", {"connection_id": COUNTED, "conn_type": "kafka", "extra": extra})
    return broker


class TestKilledTriggerer:
    def test_deferred_waits_outlive_it_and_take_what_happens_meanwhile_for_what_it_is(
        self, airflow_services: AirflowServices, broker: Broker, five: str
    ) -> None:
        """Of three groups that are behind, one catches up while there is no triggerer, and one falls further back."""
        dag_id, groups = "outlives_its_triggerer", [f"{name}-{five}" for name in ("forth", "back", "later")]
        forth, back, later = groups
        commit(broker, five, 3, *(f"{each}-1" for each in groups))
        add_wait_dag(airflow_services, dag_id)
        run_ids = start_waits(airflow_services, dag_id, *groups)
        airflow_services.kill_triggerer()
        commit(broker, five, 5, f"{forth}-1")
        commit(broker, five, 1, f"{back}-1")
        airflow_services.start_triggerer()
        result = wait_for_success(airflow_services, dag_id, run_ids[forth])
        assert (result["groups"], result["max_lag"]) == ({f"{forth}-1": 0}, 0)
        for each in (back, later):
            assert airflow_services.task_states(dag_id, run_ids[each]) == {"wait": "deferred"}
            commit(broker, five, 5, f"{each}-1")
            result = wait_for_success(airflow_services, dag_id, run_ids[each])
            assert result["groups"] == {f"{each}-1": 0}

    def test_a_verify_that_waits_for_its_load_outlives_it_and_judges_what_was_published_meanwhile(
        self, airflow_services: AirflowServices, tmp_path: Path
    ) -> None:
        dag_id, root = "verifies_later", tmp_path.as_uri()
        ledger = loads.new_ledger(root)
        pinned = loads.resolve(ledger, 0)
        pipeline = KafkaPipeline("loads", "t", ledger_root=root)
        window = WindowRef.of(pipeline, ledger.pinned(pinned), pinned.number).to_json()
        text = VERIFY_DAG.format(dag_id=dag_id, window=window)
        (airflow_services.dags_folder / f"{dag_id}.py").write_text(text, encoding="utf-8")
        airflow_services.unpause(dag_id)
        run_id = airflow_services.trigger(dag_id)
        airflow_services.wait_until(lambda: waits_taken_up(airflow_services, dag_id) == 1, DEADLINE_S)
        airflow_services.kill_triggerer()
        loads.publish(ledger, pinned)
        airflow_services.start_triggerer()
        assert wait_for_success(airflow_services, dag_id, run_id)["verdict"] == "read = written = log"


class TestLeaving:
    def test_waits_that_are_cleared_or_deleted_leave_the_poll_and_the_others_go_on(
        self, airflow_services: AirflowServices, counting: Broker
    ) -> None:
        """A cleared wait is a second try, for another group here; the first one's group never catches up."""
        dag_id, groups = "leaving", ["cleared", "deleted", "stays"]
        new_topic(counting, name="left")
        produce_records(counting, "left", count=5)
        commit(counting, "left", 3, *(f"{each}-1" for each in groups), "cleared-2")
        add_wait_dag(airflow_services, dag_id, COUNTED)
        run_ids = start_waits(airflow_services, dag_id, *groups[:2])
        # Last, so that its trigger has the highest id. SQLite gives that one again, and a triggerer that has just
        # cancelled it never starts the other.
        run_ids["stays"] = airflow_services.trigger(dag_id, {"group": "stays"})
        airflow_services.wait_until(lambda: waits_taken_up(airflow_services, dag_id) == len(groups), DEADLINE_S)
        assert _tries(airflow_services, dag_id, run_ids["cleared"]) == [1]
        clearing = {"dry_run": False, "only_failed": False, "dag_run_id": run_ids["cleared"], "task_ids": ["wait"]}
        ask(airflow_services, "POST", f"/dags/{dag_id}/clearTaskInstances", clearing)
        run = f"/dags/{dag_id}/dagRuns/{run_ids['deleted']}"
        ask(airflow_services, "PATCH", run, {"state": "failed"})  # a run that isn't over can't be deleted
        # A scheduler that is looking at the run when it is deleted ends with an error.
        before = _heartbeats(airflow_services)
        airflow_services.wait_until(lambda: _heartbeats(airflow_services) != before, DEADLINE_S)
        ask(airflow_services, "DELETE", run)
        airflow_services.wait_until(lambda: _tries(airflow_services, dag_id, run_ids["cleared"]) == [2], DEADLINE_S)
        commit(counting, "left", None, "cleared-2", "stays-1")
        for each in ("cleared-2", "stays-1"):
            result = wait_for_success(airflow_services, dag_id, run_ids[each[:-2]])
            assert result["groups"] == {each: 0}
        # Nobody is left; two waits that went on would ask once a second.
        airflow_services.wait_until(lambda: not _requests_within(counting, seconds=4), DEADLINE_S)


def _tries(airflow: AirflowServices, dag_id: str, run_id: str) -> list[int]:
    """How often a run's deferred tasks were tried. Their triggers' ids tell nothing: SQLite gives one again."""
    found = "SELECT try_number FROM task_instance WHERE dag_id = ? AND run_id = ? AND state = 'deferred'"
    return [each for (each,) in airflow.query(found, dag_id, run_id)]


def _heartbeats(airflow: AirflowServices) -> list[tuple[Any, ...]]:
    """When the scheduler ended its last round."""
    return airflow.query("SELECT latest_heartbeat FROM job WHERE job_type = 'SchedulerJob' ORDER BY id")


def _requests_within(broker: Broker, seconds: float) -> Counter[int]:
    broker.proxy.reset_counts()
    time.sleep(seconds)
    return broker.proxy.requests
