"""What the operator has spark-submit do on YARN: the whole command, and nothing secret in it.

``test_kubernetes.py`` has more about drivers of earlier tries and about deferring.
"""

from __future__ import annotations

import json
import stat
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from requests.auth import AuthBase

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.submission.application import LOAD_APPLICATION
from dev.kafka import Broker
from dev.spark_packages import CONNECTOR
from tests.integration.airflow.conftest import Context, fails_with
from tests.integration.airflow.submit_commands.conftest import (
    GIVEN_BACK,
    PASSWORD,
    QUIET,
    WorkerDies,
    as_words,
    confs,
    driver_of,
    dying_between_polls,
    last,
    load,
    spark_connection,
)
from tests.integration.ledger.loads import begin
from tests.unit.submission.resource_manager import APPLICATION_ID, ResourceManager, resource_manager


@pytest.fixture
def yarn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    dying_between_polls(monkeypatch)
    with resource_manager("RUNNING") as manager:
        spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=manager.address)
        yield manager


@pytest.fixture
def abandoned(yarn: ResourceManager, window: dict[str, Any], context: Context, noted: Path) -> ResourceManager:
    """With an application of a first try, whose worker died."""
    yarn.states = ["SUBMITTED"]
    with pytest.raises(WorkerDies):
        load(window, yarn_track_via_rm_api=True).execute(context)
    assert driver_of(context) == APPLICATION_ID
    return yarn


class TestYarn:
    def test_the_command_and_the_credentials_in_a_private_properties_file_with_the_defaults(
        self,
        window: dict[str, Any],
        broker: Broker,
        context: Context,
        noted: Path,
        yarn: ResourceManager,
    ) -> None:
        yarn.states = ["FINISHED"]
        arguments = {"conf": {"spark.executor.cores": "2"}, "yarn_track_via_rm_api": True}
        operator = load(window, **arguments)
        result = operator.execute(context)

        given = last(noted)
        words = given["words"]
        file, bundle = (words[words.index(name) + 1] for name in ("--properties-file", "--py-files"))
        told = confs(broker, window, result["attempt"])
        assert words == [
            *("--master", "yarn", "--conf", "spark.yarn.maxAppAttempts=1", *QUIET, *GIVEN_BACK),
            *as_words([*told[:3], "spark.executor.cores=2", *told[3:], "spark.yarn.submit.waitAppCompletion=false"]),
            *("--properties-file", file, "--py-files", bundle, "--packages", CONNECTOR),
            *("--name", "arrow-spark", "--deploy-mode", "cluster"),
            *(LOAD_APPLICATION, "--output", "hdfs:///data/orders"),
        ]
        defaults, _, line, end = given["properties"].split("\n")
        name, _, text = line.partition(" ")
        assert (defaults, name, end) == (
            "spark.eventLog.enabled true",
            "spark.kafkaOffsets.secrets",
            "",
        )
        assert PASSWORD in json.loads(b64decode(text))["kafka.sasl.jaas.config"]
        assert stat.S_IMODE(given["mode"]) == 0o600
        assert (given["secrets"], Path(file).exists(), Path(bundle).exists()) == (None, False, False)
        assert PASSWORD not in str(words)
        assert (operator.conf, operator.py_files, operator.properties_file) == (arguments["conf"], None, None)

    def test_the_defaults_are_those_of_the_spark_that_the_task_names(
        self, window: dict[str, Any], context: Context, noted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spark_connection(monkeypatch, "yarn")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "spark-defaults.conf").write_text("spark.executor.cores 4\n")
        load(window, durable=False, env_vars={"SPARK_CONF_DIR": str(tmp_path / "other")}).execute(context)
        assert last(noted)["properties"].startswith("spark.executor.cores 4\n")

    def test_a_deploy_mode_among_the_confs_is_refused(
        self, window: dict[str, Any], context: Context, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither the Spark provider nor this package would know where the driver is."""
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
        with pytest.raises(AirflowFailException, match="deploy_mode=") as failed:
            load(window, conf={"spark.submit.deployMode": "cluster"}).execute(context)
        assert fails_with(ConfigurationError, failed)

    def test_a_second_try_goes_on_with_the_application_of_the_first(
        self, window: dict[str, Any], context: Context, noted: Path, abandoned: ResourceManager, ledger: Ledger
    ) -> None:
        """The worker died while the application ran."""
        abandoned.states = ["RUNNING", "RUNNING", "FINISHED"]
        result = load(window, yarn_track_via_rm_api=True).execute(context)

        assert len(noted.read_text().splitlines()) == 1
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in last(noted)["words"]
        assert [each.number for each in ledger.read().windows[window["window"]].attempts] == [result["attempt"]]

    @pytest.mark.parametrize(("has_counted", "starts"), [(True, 1), (False, 2)])
    def test_of_one_that_is_unknown_by_now_what_it_has_counted_is_published(
        self,
        has_counted: bool,
        starts: int,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        abandoned: ResourceManager,
        ledger_root: Path,
    ) -> None:
        """YARN forgets the oldest applications. If this one has counted nothing, another attempt begins."""
        if not has_counted:
            (result,) = ledger_root.rglob("*.result.json")
            result.unlink()
        abandoned.states = ["unknown", "FINISHED"]
        assert load(window, yarn_track_via_rm_api=True).execute(context)["rows"] == 5
        assert len(noted.read_text().splitlines()) == starts

    def test_one_after_which_another_task_has_begun_to_load_the_window_is_not_gone_on_with(
        self, window: dict[str, Any], context: Context, noted: Path, abandoned: ResourceManager, ledger: Ledger
    ) -> None:
        """In a table, its rows would be refused."""
        ledger.read()
        theirs = begin(ledger, ledger.window(window["window"]))
        abandoned.states = ["FINISHED"]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("airflow_kafka_offsets.pipelines.attempts.left_to_publish", lambda *_: None)
            result = load(window, yarn_track_via_rm_api=True).execute(context)
        assert result["attempt"] > theirs.number

    def test_a_task_that_is_killed_ends_the_application_that_it_waits_for_and_the_next_try_begins_another_attempt(
        self,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        abandoned: ResourceManager,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """It may be seen running for a while still."""
        second = load(window, yarn_track_via_rm_api=True)

        def kill(_seconds: float) -> None:
            second.on_kill()
            raise WorkerDies

        monkeypatch.setattr(spark_submit, "time", SimpleNamespace(sleep=kill))
        abandoned.states = ["RUNNING"]
        with pytest.raises(WorkerDies):
            second.execute(context)
        assert abandoned.killed == [APPLICATION_ID]
        abandoned.states = ["RUNNING", "FINISHED"]
        dying_between_polls(monkeypatch)
        with pytest.raises(WorkerDies):
            load(window, yarn_track_via_rm_api=True).execute(context)
        assert len(noted.read_text().splitlines()) == 2

    def test_a_published_window_is_reported_though_the_cluster_is_away(
        self, window: dict[str, Any], context: Context, noted: Path, yarn: ResourceManager
    ) -> None:
        yarn.states = ["FINISHED"]
        first = load(window, yarn_track_via_rm_api=True).execute(context)
        asked = yarn.asked
        assert load(window, yarn_track_via_rm_api=True).execute(context)["attempt"] == first["attempt"]
        assert (yarn.asked, len(noted.read_text().splitlines())) == (asked, 1)


class TestDeferrable:
    def test_a_retry_after_the_triggerer_gave_up_goes_on_with_the_same_driver(
        self, window: dict[str, Any], context: Context, noted: Path, yarn: ResourceManager
    ) -> None:
        """As when ``execution_timeout`` has passed."""
        context["ti"].xcom_push = lambda **_: None
        waits = []
        for _ in range(2):
            with pytest.raises(TaskDeferred) as deferred:
                load(window, yarn_track_via_rm_api=True, deferrable=True).execute(context)
            waits.append(deferred.value.kwargs)
        assert waits[0] == waits[1]
        assert len(noted.read_text().splitlines()) == 1

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ({}, "deferrable=True needs yarn_track_via_rm_api=True"),
            ({"yarn_track_via_rm_api": True, "yarn_rm_auth": AuthBase()}, "can't hand yarn_rm_auth= to the triggerer"),
        ],
        ids=["spark-submit would stay", "what can't be handed over"],
    )
    def test_what_the_triggerer_could_not_ask_about_is_refused_before_anything_runs(
        self,
        arguments: dict[str, Any],
        why: str,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        yarn: ResourceManager,
    ) -> None:
        with pytest.raises(AirflowFailException, match=why) as failed:
            load(window, deferrable=True, **arguments).execute(context)
        assert fails_with(ConfigurationError, failed)
        assert not noted.exists()
