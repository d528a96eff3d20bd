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

from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.triggers import store_looks
from airflow_kafka_offsets.triggers.window_loaded import KafkaWindowLoadedTrigger
from dev.kafka import Broker
from tests.integration.airflow.conftest import Context, use_connection
from tests.integration.airflow.waits.runner import running
from tests.integration.airflow.waits.waits import Triggerer, triggering, wait_for_lines
from tests.integration.ledger.loads import OFFSETS, publish, resolve
from tests.patience import GRACE_S


@pytest.fixture(autouse=True)
def ledger_root(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of a cluster that is no more. The verdict goes by what it had said when the window was loaded."""
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": broker.bootstrap_servers})
    return tmp_path / "ledger"


@pytest.fixture
def pinned(ledger: Ledger) -> PinnedManifest:
    """A window that nobody has loaded."""
    ledger.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return resolve(ledger, 0)


@pytest.fixture
def verify(pinned: PinnedManifest, ledger_root: Path) -> KafkaVerifyWindowOperator:
    """The task after a load that runs elsewhere."""
    window = WindowRef.of(ledger_root.as_uri(), pinned).to_json()
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
        pinned: PinnedManifest,
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
        assert ledger.window_folders.newest(pinned.manifest.window).listing().state is WindowState.VERIFIED

    def test_a_store_that_cannot_be_read_is_asked_again(
        self,
        verify: KafkaVerifyWindowOperator,
        context: Context,
        triggerer: Triggerer,
        ledger: Ledger,
        pinned: PinnedManifest,
        said: list[MutableMapping[str, Any]],
    ) -> None:
        """A folder where a file should be is an error that no class of ours has."""
        wait = deferred(verify, context)
        in_the_way = Path(pinned.uri.removeprefix("file://")).with_name("publications") / "00000001.json"
        in_the_way.mkdir(parents=True)
        number = triggerer.start(taken_up(wait.trigger))
        wait_for_lines(said, "can't be asked (IsADirectoryError", "Looking again")
        in_the_way.rmdir()
        publish(ledger, pinned)
        assert triggerer.event(number) == {"status": "done"}

    def test_a_window_that_is_forgotten_meanwhile_fails_the_task(
        self,
        verify: KafkaVerifyWindowOperator,
        context: Context,
        triggerer: Triggerer,
        ledger: Ledger,
        pinned: PinnedManifest,
    ) -> None:
        """S23: another one will have its name."""
        wait = deferred(verify, context)
        forget_windows(ledger, [pinned.manifest.window], "resolved too early")
        event = triggerer.event(triggerer.start(taken_up(wait.trigger)))
        with pytest.raises(AirflowFailException, match="has been forgotten since this run resolved it"):
            verify.resume_execution(wait.method_name, {"event": event}, context)

    def test_a_wait_that_takes_too_long_fails_the_task_and_names_the_window(
        self, verify: KafkaVerifyWindowOperator, context: Context, pinned: PinnedManifest
    ) -> None:
        timed_out = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
        with pytest.raises(AirflowFailException, match=f"{pinned.manifest.window} was not loaded within 30 s"):
            verify.resume_execution(TRIGGER_FAIL_REPR, timed_out, context)

    def test_without_a_timeout_it_waits_without_end(self, verify: KafkaVerifyWindowOperator, context: Context) -> None:
        verify.timeout = None
        assert deferred(verify, context).timeout is None


@pytest.fixture
def pipe(pinned: PinnedManifest) -> Iterator[Path]:
    """A pipe in place of what a driver has counted: whoever opens it waits until somebody writes, as at a store that
    doesn't answer."""
    path = Path(pinned.uri.removeprefix("file://")).with_name("results") / "a-0.json"
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
        pinned: PinnedManifest,
        said: list[MutableMapping[str, Any]],
        monkeypatch: pytest.MonkeyPatch,
        request: pytest.FixtureRequest,
    ) -> None:
        monkeypatch.setattr(store_looks, "LONGEST_LOOK_S", 1.0)
        wait = deferred(verify, context)
        pipe = request.getfixturevalue("pipe")
        number = triggerer.start(taken_up(wait.trigger))
        wait_for_lines(said, "didn't answer within 1 s", "Looking again")
        assert triggerer.events(number) == []
        let_go(pipe)
        wait_for_lines(said, "isn't loaded yet", "Looking again")
        publish(ledger, pinned)
        assert triggerer.event(number) == {"status": "done"}

    def test_keeps_no_other_trigger_from_resolving_a_name(
        self, pinned: PinnedManifest, ledger_root: Path, pipe: Path
    ) -> None:
        window = WindowRef.of(ledger_root.as_uri(), pinned).to_json()

        async def work() -> None:
            async with running() as runner:
                for number in range((os.cpu_count() or 1) + 5):
                    runner.start(KafkaWindowLoadedTrigger(window=window, poll_interval_s=1, load=f"load-{number}"))
                await asyncio.sleep(1)
                try:
                    await asyncio.wait_for(asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80), GRACE_S)
                finally:
                    let_go(pipe)

        asyncio.run(work())


class TestPublished:
    def test_it_judges_without_waiting(
        self, verify: KafkaVerifyWindowOperator, context: Context, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        publish(ledger, pinned)
        assert verify.execute(context)["written"] == OFFSETS


class TestTrigger:
    def test_a_row_of_another_version_is_refused_in_the_way_that_airflow_takes(self) -> None:
        with pytest.raises(TypeError, match="can't be used here"):
            KafkaWindowLoadedTrigger(window={"version": 9}, poll_interval_s=1)
