"""The driver on the cluster: it outlives the worker that submitted it, and dies when the task is cleared."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_kafka_offsets.submission.driver_bundle import application_bundle
from dev.spark_cluster import SparkCluster
from tests.integration.spark.cluster.conftest import (
    EVERYTHING,
    Load,
    MakeLoad,
    active,
    command_lines,
    holding,
    kill_with_children,
    secrets_of,
    seen_in_ui,
    wait_for,
)

FAILING_LOAD = Path(__file__).parent.parent / "failing_load.py"

pytestmark = [
    pytest.mark.nightly("a driver on a cluster for each test; submit_commands/ has what is submitted to one"),
    pytest.mark.timeout(1200),
]


@pytest.fixture
def submitted(make_load: MakeLoad) -> Load:
    """A load whose driver is held on the cluster, and whose id the task has kept."""
    load = make_load("cluster")
    load.hold()
    load.start()
    wait_for(lambda: load.state().get("spark_job_id"), "The driver's id is kept")
    wait_for(load.reads, "Spark reads")
    return load


class TestWorkerKilled:
    def test_the_second_try_goes_on_with_the_same_driver_and_attempt_and_the_password_is_seen_nowhere(
        self, submitted: Load, spark_cluster: SparkCluster
    ) -> None:
        driver = submitted.state()["spark_job_id"]
        assert submitted.process is not None
        kill_with_children(submitted.process.pid)
        submitted.end()
        commands, ui = command_lines() + str(spark_cluster.state()), seen_in_ui(submitted)
        submitted.start()
        wait_for(lambda: f"Continuing with driver {driver}" in submitted.log(), "The second try has found the driver")
        submitted.release()
        assert submitted.end() == 0, submitted.log()[-5000:]

        assert submitted.rows() == EVERYTHING
        result = submitted.result()
        assert submitted.attempts() == [result["attempt"]] == [result["published_attempt"]]
        assert drivers(spark_cluster)[driver] == "FINISHED"
        assert "spark_job_id" not in submitted.state(), "a task that is cleared later runs Spark anew"
        for secret in secrets_of("locked"):
            assert secret not in commands + ui + submitted.log()
            assert holding(secret, submitted.folder, spark_cluster.folder) == []

    def test_a_second_try_that_asks_for_something_else_ends_the_driver_and_loads_anew(
        self, submitted: Load, spark_cluster: SparkCluster
    ) -> None:
        """Whoever saw the worker die has mended the Dag before the retry."""
        driver = submitted.state()["spark_job_id"]
        assert submitted.process is not None
        kill_with_children(submitted.process.pid)
        submitted.end()
        (first,) = submitted.attempts()
        submitted.arguments["application_args"] = [f"{submitted.folder.as_uri()}/mended"]
        submitted.start()
        assert submitted.end() == 0, submitted.log()[-5000:]

        result = submitted.result()
        assert drivers(spark_cluster)[driver] == "KILLED"
        assert submitted.rows() == EVERYTHING
        assert "/mended/" in result["output"]
        assert first not in (result["attempt"], result["published_attempt"])


class TestFailed:
    def test_the_tasks_exception_is_what_the_driver_said_far_away(self, make_load: MakeLoad) -> None:
        load = make_load("cluster")
        load.arguments["application"] = str(FAILING_LOAD)
        load.arguments["application_args"].append("drops")
        load.start()
        assert load.end() == 1
        raised = load.log().splitlines()[-1]
        assert raised.startswith("airflow.sdk.exceptions.AirflowFailException: UnprovenError: Window ")
        assert "is not proved" in raised
        assert "Driver driver-" not in load.log().partition("Traceback")[2], "nor how the provider saw its end"


class TestPackages:
    def test_a_connector_that_would_not_reach_the_executors_is_refused_before_anything_runs(
        self, make_load: MakeLoad, spark_cluster: SparkCluster
    ) -> None:
        load = make_load("cluster")
        load.arguments |= {"jars": None, "connector": "auto"}
        before = spark_cluster.state()["completeddrivers"]
        load.start()
        assert load.end() == 1
        raised = load.log().splitlines()[-1]
        assert "packages only to the driver" in raised
        assert "name its jars in jars=" in raised
        assert spark_cluster.state()["completeddrivers"] == before


class TestCleared:
    def test_a_task_that_is_cleared_takes_its_driver_and_executors_with_it(
        self, submitted: Load, spark_cluster: SparkCluster
    ) -> None:
        driver = submitted.state()["spark_job_id"]
        assert submitted.process is not None
        submitted.process.send_signal(signal.SIGTERM)

        assert submitted.end() == 143
        wait_for(lambda: drivers(spark_cluster).get(driver) == "KILLED", "The driver is killed")
        wait_for(lambda: not active(spark_cluster), "Nothing runs on the cluster")
        assert not list((submitted.folder / "ledger").rglob("publications/*.json"))


class TestSwapped:
    def test_an_application_that_was_swapped_after_the_operator_looked_at_it_runs_nowhere(
        self, make_load: MakeLoad, spark_cluster: SparkCluster, tmp_path: Path
    ) -> None:
        """Who may write to the ledger is trusted with data, and not with code that has Kafka's secrets."""
        ran = tmp_path / "ran"
        (tmp_path / "theirs.py").write_text(f"open({str(ran)!r}, 'w').write('theirs')")
        theirs = application_bundle(str(tmp_path / "theirs.py"), None)
        load = make_load("cluster")
        load.start()
        stored = wait_for(lambda: list((tmp_path / "ledger").rglob("drivers/*.jar")), "The application is stored")
        stored[0].write_bytes(theirs)

        assert load.end() != 0
        assert not ran.exists()
        output = "".join(each.read_text() for each in spark_cluster.folder.rglob("driver-*/std*"))
        assert f"{stored[0].name} was changed after it was submitted" in output
        assert not list((tmp_path / "ledger").rglob("applications/*.json"))

    def test_no_classes_come_from_the_ledger_before_the_drivers_own(
        self, make_load: MakeLoad, spark_cluster: SparkCluster
    ) -> None:
        """Those that look at the application's hash would be among them."""
        load, before = make_load("cluster"), set(drivers(spark_cluster))
        load.arguments["conf"]["spark.driver.userClassPathFirst"] = "true"
        load.start()
        assert load.end() != 0
        assert "spark.driver.userClassPathFirst=true would have the driver load Spark's own classes" in load.log()
        assert set(drivers(spark_cluster)) == before


def drivers(cluster: SparkCluster) -> dict[str, Any]:
    """State of each driver that the master knows, by id."""
    state = cluster.state()
    ids = [each["id"] for each in (*state["activedrivers"], *state["completeddrivers"])]
    return {
        each: httpx.get(f"{cluster.rest_url}/v1/submissions/status/{each}", timeout=10).json().get("driverState")
        for each in ids
    }
