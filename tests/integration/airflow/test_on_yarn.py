"""Loads whose drivers run on a real YARN: they outlive the worker, or die with their task.

What is submitted, and how each answer of a cluster is taken, is in ``submit_commands``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.spark.session.conf import secrets_text
from dev import ROOT
from dev.airflow_home import environment
from dev.java import java_home
from dev.kafka import Broker
from dev.spark_packages import jars_of
from dev.yarn import Yarn
from tests.integration.airflow.conftest import Context, Resolve, at, sasl, use_connection
from tests.integration.airflow.submit_commands.conftest import WorkerDies, dying_between_polls, first_event
from tests.integration.conftest import USERS
from tests.patience import wait_until

pytestmark = [
    pytest.mark.nightly("drivers on YARN; submit_commands/test_yarn.py has what is submitted to one"),
    pytest.mark.timeout(1800),
]
FAILING_LOAD = ROOT / "tests" / "integration" / "spark" / "failing_load.py"

MakeLoad = Callable[..., KafkaSparkSubmitOperator]


@pytest.fixture(scope="module")
def yarn() -> Iterator[Yarn]:
    with Yarn() as running:
        yield running


@pytest.fixture
def make_load(
    yarn: Yarn,
    broker: Broker,
    ten: str,
    resolve: Resolve,
    context: Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> MakeLoad:
    """A load of five records from a broker that asks for a password, whose driver runs on YARN."""
    for name, value in environment(tmp_path, broker.bootstrap_servers).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", (tmp_path / "ledger").as_uri())
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf_folder))
    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn.web_url}
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    use_connection(monkeypatch, "locked", sasl(broker, "admin", USERS["admin"]))
    window = resolve(ten, at(2), at(7)) | {"kafka_conn_id": "locked"}
    context["ti"].stats_tags = {}
    context["ti"].xcom_push = lambda **_: None

    def make(**arguments: Any) -> KafkaSparkSubmitOperator:
        usual = {
            "application_args": ["--output", (tmp_path / "table").as_uri()],
            "jars": jars_of("connector"),
            "conf": yarn.confs,
            "driver_memory": "512m",
            "executor_memory": "512m",
        }
        return KafkaSparkSubmitOperator(
            task_id="load", window=window, conn_id="yarn", yarn_track_via_rm_api=True, **usual | arguments
        )

    return make


def begun_since(yarn: Yarn, before: int) -> list[dict[str, Any]]:
    return yarn.applications()[before:]


@pytest.fixture
def before(yarn: Yarn) -> int:
    """How many applications there were before the test."""
    return len(yarn.applications())


class TestLoad:
    def test_is_published_and_its_password_is_in_no_log(
        self, make_load: MakeLoad, yarn: Yarn, before: int, context: Context
    ) -> None:
        report = make_load().execute(context)
        assert (report["rows"], report["read"]) == (5, 5)
        (application,) = begun_since(yarn, before)
        assert (application["id"], application["finalStatus"]) == (report["application_id"], "SUCCEEDED")
        for secret in (USERS["admin"], secrets_text(KafkaOffsetsHook("locked").java_settings().secret)):
            logs = [file for file in yarn.logs.rglob("*") if file.is_file()]
            assert logs
            assert not [file for file in logs if secret.encode() in file.read_bytes()]

    def test_fails_with_what_its_driver_said_far_away(
        self, make_load: MakeLoad, context: Context, tmp_path: Path
    ) -> None:
        load = make_load(application=str(FAILING_LOAD), application_args=[(tmp_path / "t").as_uri(), "drops"])
        with pytest.raises(AirflowFailException, match=r"UnprovenError: Window .* is not proved"):
            load.execute(context)


class TestAWorkerThatDies:
    def test_leaves_its_driver_to_the_next_try(
        self, make_load: MakeLoad, yarn: Yarn, before: int, context: Context, ledger: Ledger
    ) -> None:
        with pytest.MonkeyPatch.context() as patched:
            dying_between_polls(patched)
            with pytest.raises(WorkerDies):
                make_load().execute(context)
        context["ti"].try_number = 2
        report = make_load().execute(context)
        assert report["rows"] == 5
        assert len(begun_since(yarn, before)) == 1
        (window,) = ledger.read().windows.values()
        assert [each.number for each in window.attempts] == [report["attempt"]]

    def test_and_a_task_that_is_killed_takes_its_driver_with_it(
        self, make_load: MakeLoad, yarn: Yarn, before: int, context: Context, ledger: Ledger
    ) -> None:
        load = make_load()

        def kill(_seconds: float) -> None:
            load.on_kill()
            raise WorkerDies

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(spark_submit, "time", SimpleNamespace(sleep=kill))
            with pytest.raises(WorkerDies):
                load.execute(context)
        wait_until(lambda: begun_since(yarn, before)[0]["state"] == "KILLED", "the application is killed")
        (window,) = ledger.read().windows.values()
        (attempt,) = window.attempts
        assert window.publication is None
        assert ledger.attempt(window.name, attempt.number).has_ended


def test_the_triggerer_waits_for_what_the_driver_has_counted_and_the_task_publishes_it(
    make_load: MakeLoad, yarn: Yarn, before: int, context: Context
) -> None:
    with pytest.raises(TaskDeferred) as deferred:
        make_load(deferrable=True).execute(context)
    (application,) = begun_since(yarn, before)
    assert application["finalStatus"] == "UNDEFINED", "nobody has waited for it"
    event = first_event(deferred.value.trigger)
    named = deferred.value.kwargs or {}
    assert named["job_id"] == application["id"]
    report = make_load(deferrable=True).driver_ended(context, event, **named)
    assert report["rows"] == 5
