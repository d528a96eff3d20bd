"""What the operator has spark-submit do on YARN: the whole command, and nothing secret in it."""

from __future__ import annotations

import json
import stat
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from requests.auth import AuthBase

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION
from airflow_kafka_offsets.submission.driver_status import SubmittedDriver
from airflow_kafka_offsets.triggers.driver_ended import KafkaDriverEndedTrigger
from dev.kafka import Broker
from dev.spark_packages import CONNECTOR
from tests.integration.airflow.conftest import Context, fails_with
from tests.integration.airflow.submit_commands.conftest import (
    APPLICATION_ID,
    GIVEN_BACK,
    PASSWORD,
    QUIET,
    WorkerDies,
    as_words,
    confs,
    dying_between_polls,
    first_event,
    last,
    load,
    spark_connection,
)
from tests.integration.doc_blocks import DOCS, blocks_of

NOT_HERE = {"spark.kafkaOffsets.bytesPerRecord", "spark.kafkaOffsets.noteSecret"}
"""Confs of the page that these tests' loads have none of."""
NOT_SHOWN = {"spark.executor.cores", "spark.log.level"}
"""Those that are the tests' own."""


def names_of(words: list[str], others: set[str]) -> list[str]:
    """The options and confs of a command, in order, without those others."""
    named = [word.partition("=")[0] for word in words if word.startswith(("--", "spark."))]
    return [name for name in named if name != "--conf" and name not in others]


class ResourceManager:
    """YARN's REST API, as far as the provider asks it.

    :param states: what an application's state is, one answer after the other; ``unknown`` when there is none such.
    :param killed: the applications that were to end.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: list[str] = []
        self.killed: list[str] = []
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

        dying_between_polls(monkeypatch)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                state = manager.states.pop(0)
                final = "SUCCEEDED" if state == "FINISHED" else "UNDEFINED"
                body = json.dumps({"app": {"state": state, "finalStatus": final}}).encode()
                known = self.path == f"/ws/v1/cluster/apps/{APPLICATION_ID}" and state != "unknown"
                self.send_response(200 if known else 404)
                self.end_headers()
                self.wfile.write(body)

            def do_PUT(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert told == {"state": "KILLED"}
                manager.killed.append(self.path.split("/")[-2])
                self.send_response(202)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def resource_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    manager = ResourceManager(monkeypatch)
    yield manager
    manager.close()


@pytest.fixture
def abandoned(
    resource_manager: ResourceManager, window: dict[str, Any], context: Context, monkeypatch: pytest.MonkeyPatch
) -> ResourceManager:
    """With an application of a first try, whose worker died."""
    spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=resource_manager.address)
    resource_manager.states = ["SUBMITTED"]
    with pytest.raises(WorkerDies):
        load(window, yarn_track_via_rm_api=True).execute(context)
    assert context["task_state_store"]["spark_job_id"] == APPLICATION_ID
    return resource_manager


class TestYarn:
    def test_the_command_and_the_credentials_in_a_private_properties_file_with_the_defaults(
        self,
        window: dict[str, Any],
        broker: Broker,
        context: Context,
        noted: Path,
        resource_manager: ResourceManager,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=resource_manager.address)
        resource_manager.states = ["FINISHED"]
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
        (page, *_) = blocks_of(DOCS / "guides" / "clusters.md", "text")
        assert names_of(page.code.split(), NOT_HERE) == names_of(words, NOT_SHOWN)
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
        self,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        abandoned: ResourceManager,
    ) -> None:
        """The worker dies while the application runs."""
        abandoned.states = ["RUNNING", "FINISHED"]
        result = load(window, yarn_track_via_rm_api=True).execute(context)

        words = last(noted)["words"]
        assert len(noted.read_text().splitlines()) == 1
        assert "spark.yarn.submit.waitAppCompletion=false" in words
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in words
        assert "spark_job_id" not in context["task_state_store"]

    @pytest.mark.parametrize("meanwhile", ["FAILED", "unknown"])
    def test_an_application_that_has_failed_meanwhile_or_is_unknown_by_now_is_followed_by_another_attempt(
        self,
        meanwhile: str,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        abandoned: ResourceManager,
    ) -> None:
        abandoned.states = [meanwhile, "FINISHED"]
        result = load(window, yarn_track_via_rm_api=True).execute(context)

        first, second = noted.read_text().splitlines()
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in second
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" not in first

    @pytest.mark.parametrize(("meanwhile", "killed"), [("RUNNING", [APPLICATION_ID]), ("FINISHED", [])])
    def test_an_application_that_was_asked_for_something_else_is_ended_and_not_gone_on_with(
        self,
        meanwhile: str,
        killed: list[str],
        window: dict[str, Any],
        context: Context,
        noted: Path,
        abandoned: ResourceManager,
    ) -> None:
        """The worker died, and whoever saw it mended the Dag before the retry."""
        abandoned.states = [meanwhile, "FINISHED"]
        result = load(window, yarn_track_via_rm_api=True, env_vars={"MODE": "mended"}).execute(context)

        first, second = noted.read_text().splitlines()
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" in second
        assert f"spark.kafkaOffsets.attempt={result['attempt']}" not in first
        assert abandoned.killed == killed


class TestDeferrable:
    def test_the_triggerer_hears_of_the_driver_and_the_task_reports(
        self,
        window: dict[str, Any],
        context: Context,
        noted: Path,
        resource_manager: ResourceManager,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=resource_manager.address)
        context["ti"].xcom_push = lambda **_: None  # its links
        with pytest.raises(TaskDeferred) as deferred:
            load(window, yarn_track_via_rm_api=True, deferrable=True).execute(context)
        assert resource_manager.states == [], "nobody has waited for it"
        assert len(noted.read_text().splitlines()) == 1

        # The window is published already: its driver counts once more, and leaves no result to be seen before it ends.
        resource_manager.states = ["RUNNING", "FINISHED"]
        event = first_event(deferred.value.trigger)
        assert event == {"status": "ended", "state": "SUCCEEDED", "active": False, "succeeded": True}
        named = deferred.value.kwargs or {}
        assert named["job_id"] == APPLICATION_ID
        resumed = load(window, yarn_track_via_rm_api=True, deferrable=True)
        assert resumed.driver_ended(context, event, **named)["attempt"] == named["attempt"]

    @pytest.mark.parametrize(
        ("state", "said"),
        [("FAILED", "FAILED"), ("KILLED", "FAILED"), ("unknown", "NotFound")],
    )
    def test_an_application_that_has_said_nothing_ends_the_wait_with_its_state(
        self,
        state: str,
        said: str,
        window: dict[str, Any],
        resource_manager: ResourceManager,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=resource_manager.address)
        resource_manager.states = [state]
        driver = SubmittedDriver("spark_default", "cluster", APPLICATION_ID).to_json()
        trigger = KafkaDriverEndedTrigger(
            window=window, revision=1, attempt="20261120T060000000Z-00000001", driver=driver, poll_interval_s=5
        )
        assert first_event(trigger) == {"status": "ended", "state": said, "active": False, "succeeded": False}

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
        resource_manager: ResourceManager,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark_connection(monkeypatch, "yarn", yarn_resourcemanager_webapp_address=resource_manager.address)
        with pytest.raises(AirflowFailException, match=why) as failed:
            load(window, deferrable=True, **arguments).execute(context)
        assert fails_with(ConfigurationError, failed)
        assert not noted.exists()
