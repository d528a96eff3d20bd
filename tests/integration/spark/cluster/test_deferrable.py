"""A load that waits on the triggerer: no process of the task's lives while its driver does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dev.spark_cluster import SparkCluster
from tests.integration.spark.cluster.conftest import EVERYTHING, Load, MakeLoad, holding, secrets_of, wait_for
from tests.integration.spark.cluster.task import DEFERRED
from tests.integration.spark.cluster.test_cluster_mode import FAILING_LOAD, drivers

pytestmark = [
    pytest.mark.nightly("a cluster, and a driver on it for each; submit_commands/ has what is submitted to one"),
    pytest.mark.timeout(1200),
]


@pytest.fixture
def deferred(make_load: MakeLoad, spark_cluster: SparkCluster) -> Iterator[Load]:
    """A load whose driver was submitted, and whose worker has gone; no driver is left behind."""
    load = make_load("cluster")
    load.arguments["deferrable"] = True
    yield load
    for driver, state in drivers(spark_cluster).items():
        if state in ("SUBMITTED", "RUNNING"):
            kill(spark_cluster, driver)


def submit(load: Load) -> str:
    """The driver's id, once the task has deferred."""
    load.start()
    assert load.end() == DEFERRED, load.log()[-5000:]
    return str(left_behind(load.folder)["kwargs"]["job_id"])


def left_behind(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "deferred.json").read_text()))


def kill(cluster: SparkCluster, driver: str) -> None:
    httpx.post(f"{cluster.rest_url}/v1/submissions/kill/{driver}", timeout=10).raise_for_status()


def test_the_trigger_sees_what_the_driver_has_counted_and_the_task_publishes_it(
    deferred: Load, spark_cluster: SparkCluster
) -> None:
    driver = submit(deferred)
    assert drivers(spark_cluster)[driver] in ("SUBMITTED", "RUNNING"), "nobody has waited for it"
    kept = json.dumps(left_behind(deferred.folder))
    deferred.start("resume")
    assert deferred.end() == 0, deferred.log()[-5000:]

    assert deferred.rows() == EVERYTHING
    result = deferred.result()
    assert deferred.attempts() == [result["attempt"]] == [result["published_attempt"]]
    assert (result["rows"], result["read"]) == (60, 60)
    assert "spark_job_id" not in deferred.state(), "a task that is cleared later runs Spark anew"
    for secret in secrets_of("locked"):
        assert secret not in kept + deferred.log()
        assert holding(secret, deferred.folder, spark_cluster.folder) == []


@pytest.mark.nightly("two drivers on a cluster; sinks/test_killed.py kills a driver")
def test_a_driver_that_is_killed_fails_the_try_and_the_next_one_loads_anew(
    deferred: Load, spark_cluster: SparkCluster
) -> None:
    deferred.hold()
    driver = submit(deferred)
    wait_for(lambda: drivers(spark_cluster)[driver] == "RUNNING", "The driver runs")
    kill(spark_cluster, driver)
    deferred.release()
    deferred.start("resume")
    assert deferred.end() == 1
    raised = deferred.log().splitlines()[-1]
    assert "SparkFailedError" in raised, raised
    assert f"Driver {driver} ended as KILLED. Its own log, on the cluster, says why." in raised

    assert submit(deferred) != driver
    deferred.start("resume")
    assert deferred.end() == 0, deferred.log()[-5000:]
    assert deferred.rows() == EVERYTHING
    assert len(deferred.attempts()) == 2


@pytest.mark.nightly("a driver on a cluster; airflow/test_failed_load.py shows what a task says of its driver")
def test_the_tasks_exception_is_what_the_driver_said_far_away(deferred: Load) -> None:
    deferred.arguments["application"] = str(FAILING_LOAD)
    deferred.arguments["application_args"].append("drops")
    submit(deferred)
    deferred.start("resume")
    assert deferred.end() == 1
    raised = deferred.log().splitlines()[-1]
    assert raised.startswith("airflow.sdk.exceptions.AirflowFailException: UnprovenError: Window ")
    assert "is not proved" in raised


@pytest.mark.nightly("a driver on a cluster; submit_commands/test_yarn.py goes on with one")
def test_a_retry_after_the_triggerer_gave_up_goes_on_with_the_same_driver(deferred: Load) -> None:
    """As when ``execution_timeout`` has passed."""
    deferred.hold()
    driver = submit(deferred)
    assert submit(deferred) == driver
    deferred.release()
    assert f"Continuing with driver {driver}" in deferred.log()
    deferred.start("resume")
    assert deferred.end() == 0, deferred.log()[-5000:]
    assert deferred.rows() == EVERYTHING
    assert len(deferred.attempts()) == 1


@pytest.mark.nightly("a driver of its own; airflow/test_example_dags.py has one on the worker")
def test_in_client_mode_the_task_stays_on_its_worker_and_says_so(make_load: MakeLoad) -> None:
    load = make_load("client")
    load.arguments["deferrable"] = True
    load.start()
    assert load.end() == 0, load.log()[-5000:]
    assert "deferrable=True does nothing in deploy mode client" in load.log()
    assert load.rows() == EVERYTHING
