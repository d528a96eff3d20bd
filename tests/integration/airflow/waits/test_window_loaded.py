"""Verify waits for a load that runs elsewhere: on Airflow's own trigger runner, with a ledger on disk."""

from __future__ import annotations

import asyncio
import json
import os
import pkgutil
import time
from collections.abc import Iterator, MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.models.trigger import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.attempt_files import result_file
from airflow_kafka_offsets.ledger.counted import WindowStatus, status
from airflow_kafka_offsets.ledger.files import attempt_folder, commit_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references import WindowRef
from airflow_kafka_offsets.triggers import ledger_looks
from airflow_kafka_offsets.triggers.ledger_looks import KafkaWindowLoadedTrigger
from dev.kafka import Broker
from tests.integration.airflow.conftest import Context, use_connection
from tests.integration.airflow.waits.runner import running
from tests.integration.airflow.waits.waits import Triggerer, triggering, wait_for_lines
from tests.integration.ledger.loads import OFFSETS, begin, new_ledger, publish, resolve
from tests.patience import GRACE_S


@pytest.fixture(autouse=True)
def ledger_root(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of a cluster that is no more. The verdict goes by what it had said when the window was loaded."""
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": broker.bootstrap_servers})
    return tmp_path / "ledger"


@pytest.fixture
def ledger(ledger_root: Path) -> Ledger:
    return new_ledger(ledger_root.as_uri())


@pytest.fixture
def pinned(ledger: Ledger) -> Window:
    """A window that nobody has loaded."""
    return resolve(ledger, 0)


@pytest.fixture
def window(ledger: Ledger, pinned: Window, ledger_root: Path) -> dict[str, Any]:
    """The same window, as resolve returns it."""
    pipeline = KafkaPipeline("loads", "t", ledger_root=ledger_root.as_uri())
    return WindowRef.of(pipeline, ledger.pinned(pinned), pinned.number).to_json()


@pytest.fixture
def verify(window: dict[str, Any]) -> KafkaVerifyWindowOperator:
    """The task after a load that runs elsewhere."""
    return KafkaVerifyWindowOperator(task_id="v", window=window, deferrable=True, poke_interval=0, timeout=30)


@pytest.fixture
def triggerer() -> Iterator[Triggerer]:
    with triggering() as running:
        yield running


def deferred(verify: KafkaVerifyWindowOperator, context: Context) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as found:
        verify.execute(context)
    return found.value


def taken_up(trigger: BaseTrigger) -> BaseTrigger:
    """The trigger as a triggerer makes it from its row in the database."""
    path, arguments = trigger.serialize()
    kind: type[BaseTrigger] = pkgutil.resolve_name(path)
    return kind(**json.loads(json.dumps(arguments)))


class TestUnpublished:
    def test_it_waits_for_the_load_and_judges_then(
        self,
        verify: KafkaVerifyWindowOperator,
        context: Context,
        triggerer: Triggerer,
        ledger: Ledger,
        pinned: Window,
    ) -> None:
        wait = deferred(verify, context)
        assert wait.timeout == timedelta(seconds=30)
        number = triggerer.start(taken_up(wait.trigger))
        time.sleep(0.5)
        assert triggerer.events(number) == []
        publish(ledger, pinned)
        event = triggerer.event(number)
        assert event == {"status": "done"}
        report = verify.resume_execution(wait.method_name, {"event": event}, context)
        assert (report["verdict"], report["written"]) == ("read = written = log", OFFSETS)
        ledger.read()
        assert status(ledger, ledger.window(pinned.name)) is WindowStatus.VERIFIED

    def test_a_store_that_cannot_be_read_is_asked_again(
        self,
        verify: KafkaVerifyWindowOperator,
        context: Context,
        triggerer: Triggerer,
        ledger: Ledger,
        pinned: Window,
        said: list[MutableMapping[str, Any]],
    ) -> None:
        """A folder where a file should be is an error that no class of ours has."""
        wait = deferred(verify, context)
        in_the_way = Path(ledger.folder.path) / commit_file(ledger.read().number + 1)
        in_the_way.mkdir(parents=True)
        number = triggerer.start(taken_up(wait.trigger))
        wait_for_lines(said, "can't be asked (IsADirectoryError", "Looking again")
        in_the_way.rmdir()
        publish(ledger, pinned)
        assert triggerer.event(number) == {"status": "done"}

    def test_a_window_that_is_voided_meanwhile_fails_the_task(
        self,
        verify: KafkaVerifyWindowOperator,
        context: Context,
        triggerer: Triggerer,
        ledger: Ledger,
        pinned: Window,
    ) -> None:
        """S23: another one will have its name."""
        wait = deferred(verify, context)
        ledger.change(lambda state: corrections.void(state, [pinned.name]))
        event = triggerer.event(triggerer.start(taken_up(wait.trigger)))
        with pytest.raises(AirflowFailException, match=f"has no window {pinned.name}"):
            verify.resume_execution(wait.method_name, {"event": event}, context)

    def test_a_wait_that_takes_too_long_fails_the_task_and_names_the_window(
        self, verify: KafkaVerifyWindowOperator, context: Context, pinned: Window
    ) -> None:
        timed_out = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
        with pytest.raises(AirflowFailException, match=f"{pinned.name} was not loaded within 30 s"):
            verify.resume_execution(TRIGGER_FAIL_REPR, timed_out, context)

    def test_without_a_timeout_it_waits_without_end(self, verify: KafkaVerifyWindowOperator, context: Context) -> None:
        verify.timeout = None
        assert deferred(verify, context).timeout is None


@pytest.fixture
def pipe(ledger: Ledger, pinned: Window) -> Iterator[Path]:
    """A pipe in place of what a driver has counted: whoever opens it waits until somebody writes, as at a store that
    doesn't answer."""
    attempt = begin(ledger, pinned)
    path = Path(ledger.folder.path) / attempt_folder(pinned.name, attempt.number) / result_file("0000000f")
    path.parent.mkdir()
    os.mkfifo(path)
    yield path
    if path.exists():
        let_go(path)


def let_go(pipe: Path) -> None:
    """Whoever waits there reads nothing, and nobody waits there any more."""
    writing = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    pipe.unlink()
    os.close(writing)


class TestAStoreThatHangs:
    def test_is_told_and_heard_of_when_it_answers_again(
        self,
        verify: KafkaVerifyWindowOperator,
        context: Context,
        triggerer: Triggerer,
        ledger: Ledger,
        pinned: Window,
        said: list[MutableMapping[str, Any]],
        monkeypatch: pytest.MonkeyPatch,
        request: pytest.FixtureRequest,
    ) -> None:
        monkeypatch.setattr(ledger_looks, "LONGEST_LOOK_S", 1.0)
        wait = deferred(verify, context)
        pipe = request.getfixturevalue("pipe")
        number = triggerer.start(taken_up(wait.trigger))
        wait_for_lines(said, "didn't answer within 1 s", "Looking again")
        assert triggerer.events(number) == []
        let_go(pipe)
        wait_for_lines(said, "isn't loaded yet", "Looking again")
        publish(ledger, pinned)
        assert triggerer.event(number) == {"status": "done"}

    def test_keeps_no_other_trigger_from_resolving_a_name(self, window: dict[str, Any], pipe: Path) -> None:
        async def work() -> None:
            async with running() as runner:
                for number in range((os.cpu_count() or 1) + 5):
                    runner.start(KafkaWindowLoadedTrigger(window=window, poll_interval_s=1, attempt=number))
                await asyncio.sleep(1)
                try:
                    await asyncio.wait_for(asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80), GRACE_S)
                finally:
                    let_go(pipe)

        asyncio.run(work())


class TestPublished:
    def test_it_judges_without_waiting(
        self, verify: KafkaVerifyWindowOperator, context: Context, ledger: Ledger, pinned: Window
    ) -> None:
        publish(ledger, pinned)
        assert verify.execute(context)["written"] == OFFSETS


class TestTrigger:
    def test_a_row_of_another_version_is_refused_in_the_way_that_airflow_takes(self) -> None:
        with pytest.raises(TypeError, match="can't be used here"):
            KafkaWindowLoadedTrigger(window={"version": 9}, poll_interval_s=1)
