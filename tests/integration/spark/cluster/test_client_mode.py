"""The driver on the worker, the executors on a cluster."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from dev.spark_cluster import SparkCluster
from tests.integration.spark.cluster.conftest import (
    EVERYTHING,
    MakeLoad,
    active,
    command_lines,
    holding,
    secrets_of,
    seen_in_ui,
    wait_for,
)

pytestmark = [
    pytest.mark.nightly("a cluster; airflow/test_example_dags.py has a driver on the worker, test_s3.py kills one"),
    pytest.mark.timeout(1200),
]


class TestLoad:
    def test_an_executor_that_is_killed_is_replaced_and_the_window_is_exact_and_the_password_is_seen_nowhere(
        self, make_load: MakeLoad, spark_cluster: SparkCluster
    ) -> None:
        """S22. Password: task log, command lines, UI, event log, executors' logs, ledger, manifest, XCom."""
        load = make_load()
        load.start()
        wait_for(load.reads, "Spark reads")
        killed = spark_cluster.kill_executor()
        commands, ui = command_lines(), seen_in_ui(load)
        wait_for(
            lambda: killed not in (ids := executor_ids(spark_cluster)) and len(ids) == 2, "The executor is replaced"
        )
        assert load.end() == 0, load.log()[-5000:]

        assert load.rows() == EVERYTHING
        assert (load.result()["rows"], load.attempts()) == (len(EVERYTHING), [load.result()["attempt"]])
        verify = KafkaVerifyWindowOperator(task_id="verify", window=load.arguments["window"])
        context: Any = {"ti": SimpleNamespace(dag_id="d")}
        assert verify.execute(context)["verdict"] == "read = written = log"

        for secret in secrets_of("locked"):
            assert secret not in commands + ui + load.log()
            assert holding(secret, load.folder, spark_cluster.folder) == []


def executor_ids(cluster: SparkCluster) -> list[int]:
    return [each.pid for each in cluster.executors()]


class TestKilled:
    def test_a_task_that_is_cleared_takes_its_driver_and_executors_with_it(
        self, make_load: MakeLoad, spark_cluster: SparkCluster
    ) -> None:
        load = make_load()
        load.start()
        wait_for(load.reads, "Spark reads")
        assert load.process is not None
        spark = psutil.Process(load.process.pid).children(recursive=True)
        load.process.send_signal(signal.SIGTERM)

        assert load.end() == 143
        assert psutil.wait_procs(spark, 30)[1] == []
        wait_for(lambda: not spark_cluster.executors() and not active(spark_cluster), "The executors are gone", 60)
        assert load.window().publication is None


def test_a_deferrable_task_stays_on_its_worker_and_says_so(make_load: MakeLoad) -> None:
    load = make_load()
    load.arguments["deferrable"] = True
    load.start()
    assert load.end() == 0, load.log()[-5000:]
    assert "deferrable=True does nothing in deploy mode client" in load.log()
    assert load.rows() == EVERYTHING


def test_no_driver_is_sent_to_the_cluster(make_load: MakeLoad, spark_cluster: SparkCluster) -> None:
    """Spark runs no Python application there, as unit/submission/test_driver.py knows, too."""
    load = make_load()
    load.arguments["deploy_mode"] = "cluster"
    load.start()
    assert load.end() == 1
    assert "is a standalone cluster, where Spark runs no Python application" in load.log()
    assert "Use deploy mode client" in load.log()
    assert load.attempts() == []
