"""The driver of an earlier try: whether the cluster knows it, which revision it loads, and when it is forgotten.

Standalone masters are scripted, in the words of Spark's ``StandaloneRestServer``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
import tenacity
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.earlier_driver import DriverMemory, EarlierDriver

DRIVER = "driver-20261122060000-0001"
REF = WindowRef("file:///k", "p", "w", "file:///k/m.json", "00", 10, 1, 1, 0)
RUNNING = {"success": True, "driverState": "RUNNING"}
NEVER_HEARD_OF_IT = {"success": False}
IN_STANDBY = {
    "success": False,
    "message": "Exception from the cluster:\njava.lang.Exception: org.apache.spark.deploy.master.standalone: STANDBY. "
    "Can only request driver status in ALIVE state.",
}


class Store(dict[str, Any]):
    """The task state store."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


@contextmanager
def master(answer: dict[str, Any], host: str, port: int) -> Iterator[int]:
    """A master's REST server."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == f"/v1/submissions/status/{DRIVER}"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer | {"action": "SubmissionStatusResponse"}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer((host, port), Answer) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def context() -> Any:
    return {"task_state_store": Store()}


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> KafkaSparkSubmitOperator:
    """A load on two masters, of which the provider asks one after the other."""
    monkeypatch.setattr(SparkSubmitOperator._fetch_driver_status.retry, "wait", tenacity.wait_none())
    connect(monkeypatch, 1)
    return KafkaSparkSubmitOperator(task_id="t", window={})


def connect(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    extra = {"deploy-mode": "cluster", "rest-port": port}
    fields = {"conn_type": "spark", "host": "spark://127.0.0.1:7077,127.0.0.2:7077", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(fields))


class TestStandalone:
    def found(
        self, task: KafkaSparkSubmitOperator, context: Any, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any]
    ) -> EarlierDriver | None:
        """What a retry goes on with, by what the masters say."""
        memory, port = DriverMemory(task, context), 0
        memory.note(REF, "hash", "a-1", revision=2)
        context["task_state_store"].set(task.external_id_key, DRIVER)
        with ExitStack() as masters:
            for number, answer in enumerate(answers, 1):
                port = masters.enter_context(master(answer, f"127.0.0.{number}", port))
            connect(monkeypatch, port)
            return memory.earlier(REF, "hash")

    def test_the_driver_that_the_second_master_knows_is_gone_on_with_in_its_own_revision(
        self, task: KafkaSparkSubmitOperator, context: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = self.found(task, context, monkeypatch, IN_STANDBY, RUNNING)
        assert driver == EarlierDriver(DRIVER, "a-1", revision=2)

    @pytest.mark.parametrize("answers", [(NEVER_HEARD_OF_IT, IN_STANDBY), (IN_STANDBY, NEVER_HEARD_OF_IT)])
    def test_one_that_the_master_alive_has_never_heard_of_is_not_waited_for(
        self,
        answers: tuple[dict[str, Any], ...],
        task: KafkaSparkSubmitOperator,
        context: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert self.found(task, context, monkeypatch, *answers) is None

    def test_while_no_master_is_alive_the_try_fails_and_submits_nothing(
        self, task: KafkaSparkSubmitOperator, context: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(RuntimeError, match="STANDBY"):
            self.found(task, context, monkeypatch, IN_STANDBY, IN_STANDBY)


class TestForgetting:
    def test_a_task_that_is_killed_forgets_the_driver_that_it_kills(
        self, task: KafkaSparkSubmitOperator, context: Any
    ) -> None:
        """It may be seen running for a while still."""
        task._memory = DriverMemory(task, context)
        task._memory.note(REF, "hash", "a-1", revision=1)
        context["task_state_store"].set(task.external_id_key, DRIVER)
        task.on_kill()
        assert task._memory.earlier(REF, "hash") is None
        assert context["task_state_store"] == {}

    def test_a_driver_that_has_ended_leaves_nothing_behind(self, task: KafkaSparkSubmitOperator, context: Any) -> None:
        memory = DriverMemory(task, context)
        memory.note(REF, "hash", "a-1", revision=1)
        context["task_state_store"].set(task.external_id_key, DRIVER)
        memory.forget()
        assert context["task_state_store"] == {}

    def test_nothing_is_kept_that_vouches_for_a_driver(self, task: KafkaSparkSubmitOperator, context: Any) -> None:
        """Airflow shows the store's values to whoever may see the task."""
        DriverMemory(task, context).note(REF, "hash", "a-1", revision=1)
        (noted,) = context["task_state_store"].values()
        assert noted == {"attempt": "a-1", "revision": 1, "window": "w", "sha256": "00", "arguments_hash": "hash"}

    def test_a_store_that_is_out_of_reach_then_is_logged(
        self, task: KafkaSparkSubmitOperator, context: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        class OutOfReach(Store):
            def delete(self, key: str) -> None:
                raise ConnectionError(key)

        task._memory = DriverMemory(task, {"task_state_store": OutOfReach()})  # type: ignore[typeddict-item,typeddict-unknown-key]
        task.on_kill()
        assert "so the next try may wait for it" in capsys.readouterr().out

    def test_without_durable_nothing_is_remembered(self, context: Any) -> None:
        task = KafkaSparkSubmitOperator(task_id="t", window={}, durable=False)
        DriverMemory(task, context).note(REF, "hash", "a-1", revision=1)
        assert context["task_state_store"] == {}
