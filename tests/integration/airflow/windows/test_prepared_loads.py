"""Prepared loads: how long verify waits for the drivers of one, and what a load that is prepared again finds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_kafka_offsets.errors import SparkFailedError
from airflow_kafka_offsets.ledger import corrections, load_decisions
from airflow_kafka_offsets.ledger.attempt_files import failure_file, note_file, result_file
from airflow_kafka_offsets.ledger.entries import Pinned
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.proof.run_result import Tally
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.triggers.ledger_looks import KafkaWindowLoadedTrigger
from tests.integration.airflow.conftest import Context, cleared
from tests.integration.airflow.windows.conftest import DeleteBefore, XCom
from tests.integration.airflow.windows.counted import pinned, published, window
from tests.integration.ledger.results import result_of
from tests.patience import PATIENCE_S

__all__ = ["pinned", "window"]  # fixtures, that pytest finds here

FIRST, SECOND, THIRD = "0000000a", "0000000b", "0000000c"
"""Drivers of one load."""
IN_A_TABLE = {"sink": "delta", "output": "lake.flights", "apart": False}

Prepare = Callable[..., XCom]
Count = Callable[..., int]
Verify = Callable[..., dict[str, Any]]
Put = Callable[..., None]
Waiting = Callable[[XCom], KafkaVerifyWindowOperator]


@pytest.fixture
def prepare(window: XCom, context: Context) -> Prepare:
    """Prepare a load of the window."""

    def run(**arguments: Any) -> XCom:
        return KafkaPrepareLoadOperator(task_id="p", window=window, **arguments).execute(context)

    return run


@pytest.fixture
def put(ledger: Ledger) -> Put:
    """Write a file of a prepared load's attempt."""

    def write(prepared: XCom, name: str, content: bytes) -> None:
        folder = ledger.attempt(prepared["window"], prepared["attempt"]).folder
        ledger.files.replace(f"{folder}/{name}", content)

    return write


@pytest.fixture
def count(ledger: Ledger) -> Count:
    """Leave in the ledger what a driver of a prepared load leaves. Returns its attempt."""

    def leave(prepared: XCom, run: str = FIRST, **fields: Any) -> int:
        ledger.read()
        window = ledger.window(prepared["window"])
        attempt = window.attempt(prepared["attempt"])
        assert attempt is not None
        result = result_of(ledger, window, attempt, run=run, **fields)
        ledger.attempt(window.name, attempt.number).record_result(result)
        return attempt.number

    return leave


@pytest.fixture
def begin(put: Put) -> Put:
    """Leave what a driver of a prepared load leaves that has begun."""
    note = json.dumps({"application_id": "app-1", "ui": None, "signature": None}).encode()
    return lambda prepared, run: put(prepared, note_file(run), note)


@pytest.fixture
def fail(put: Put) -> Put:
    """Leave what a driver of a prepared load leaves that fails."""

    def leave(prepared: XCom, run: str, error: str, noted_ms: int | None = None) -> None:
        put(prepared, failure_file(run), FailureNote(error, f"of driver {run}.", noted_ms).to_bytes())

    return leave


@pytest.fixture
def verify(window: XCom, context: Context) -> Verify:
    def run(prepared: XCom, **arguments: Any) -> dict[str, Any]:
        return KafkaVerifyWindowOperator(
            task_id="v", load=prepared, **{"window": window, "deferrable": False} | arguments
        ).execute(context)

    return run


@pytest.fixture
def waiting(window: XCom) -> Waiting:
    """The task, on the triggerer."""
    return lambda prepared: KafkaVerifyWindowOperator(
        task_id="v", window=window, load=prepared, deferrable=True, timeout=600
    )


def event_of(prepared: XCom) -> dict[str, Any]:
    """What the trigger fires for a load at once."""
    trigger = KafkaWindowLoadedTrigger(window=prepared["ref"], poll_interval_s=60, attempt=prepared["attempt"])

    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("it ended without an event")

    return asyncio.run(asyncio.wait_for(first(), PATIENCE_S))


class TestWhatIsNotPublishedAnyMore:
    """The window was taken from under a driver that runs."""

    @pytest.mark.parametrize("again", [False, True], ids=["reload", "void and pinned again"])
    def test_is_not_waited_for(
        self, prepare: Prepare, count: Count, verify: Verify, ledger: Ledger, again: bool
    ) -> None:
        prepared = prepare()
        counted = count(prepared)
        name, before = prepared["window"], ledger.window(prepared["window"])
        if again:
            pin = Pinned(name, before.manifest, before.offsets)
            ledger.change(lambda state: corrections.void(state, [name]))
            ledger.change(lambda _: (pin,))
        else:
            ledger.change(lambda state: load_decisions.reload(state, [name]))
        event = event_of(prepared)
        assert (event["status"], event["retriable"]) == ("failed", False)
        assert f"Attempt {counted} at window {name} can't be published any more" in event["message"]
        assert "prepares" in event["message"]
        for deferrable in (False, True):
            with pytest.raises(AirflowFailException, match="can't be published any more"):
                verify(prepared, deferrable=deferrable)

    def test_is_what_another_one_has_loaded_since(
        self, prepare: Prepare, count: Count, verify: Verify, ledger: Ledger
    ) -> None:
        prepared = prepare()
        ledger.change(lambda state: load_decisions.reload(state, [prepared["window"]]))
        later = count(prepare())
        assert event_of(prepared) == {"status": "done"}
        assert verify(prepared)["attempt"] == later


class TestTwoDriversOfOneLoad:
    """A submitter that lost its cluster for a moment submits again."""

    @pytest.mark.parametrize("fields", [{}, IN_A_TABLE], ids=["files", "table"])
    def test_what_one_has_counted_is_published_once(
        self,
        prepare: Prepare,
        count: Count,
        verify: Verify,
        ledger: Ledger,
        pinned: Window,
        fields: dict[str, Any],
    ) -> None:
        prepared = prepare()
        count(prepared, FIRST, **fields)
        count(prepared, SECOND, **fields)
        first = verify(prepared)
        counts = published(ledger, pinned)
        assert counts is not None
        assert first["attempt"] == prepared["attempt"] == counts.attempt
        count(prepared, THIRD, **fields)
        assert verify(prepared)["attempt"] == first["attempt"]
        assert published(ledger, pinned) == counts._replace(verdict=published(ledger, pinned).verdict)  # type: ignore[union-attr]

    def test_where_one_has_counted_what_is_not_proved_the_other_ones_rows_count(
        self, prepare: Prepare, count: Count, verify: Verify, ledger: Ledger, pinned: Window
    ) -> None:
        prepared = prepare()
        count(prepared, FIRST, read=Tally(4))
        count(prepared, SECOND)
        verify(prepared)
        counts = published(ledger, pinned)
        assert counts is not None
        assert counts.run == SECOND


class TestAnotherLoad:
    def test_whoever_has_counted_is_published_though_this_one_has_failed(
        self, prepare: Prepare, count: Count, fail: Put, verify: Verify
    ) -> None:
        first, second = prepare(), prepare()
        fail(second, FIRST, "ConfigurationError")
        with pytest.raises(AirflowFailException, match="of driver"):
            verify(second)
        count(first)
        assert verify(second)["attempt"] == first["attempt"]

    def test_in_a_table_the_rows_of_one_that_began_later_are_waited_for(
        self, prepare: Prepare, count: Count, verify: Verify, ledger: Ledger, pinned: Window
    ) -> None:
        first, second = prepare(), prepare()
        count(first, **IN_A_TABLE)
        for prepared in (first, second):
            with pytest.raises(TaskDeferred):
                verify(prepared, deferrable=True)
        with pytest.raises(AirflowFailException, match="was never published"):
            verify(second)
        count(second, **IN_A_TABLE)
        assert verify(first)["attempt"] == second["attempt"]


class TestDriversThatHaveEnded:
    def test_one_that_may_come_through_next_time_fails_the_try(
        self, prepare: Prepare, fail: Put, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        fail(prepared, FIRST, "UncheckedSourceError")
        event = event_of(prepared)
        assert (event["status"], event["retriable"]) == ("failed", True)
        with pytest.raises(SparkFailedError, match=r"of driver 0000000a\. .*[Ss]ubmit the load again"):
            waiting(prepared).execute_complete(context, event)

    def test_one_that_would_fail_again_fails_the_task(
        self, prepare: Prepare, fail: Put, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        fail(prepared, FIRST, "TopicChangedError")
        event = event_of(prepared)
        assert (event["status"], event["retriable"]) == ("failed", False)
        with pytest.raises(AirflowFailException, match=r"of driver 0000000a\."):
            waiting(prepared).execute_complete(context, event)

    def test_the_wait_goes_on_where_another_one_has_begun_since(
        self, prepare: Prepare, fail: Put, begin: Put, count: Count, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        fail(prepared, FIRST, "UncheckedSourceError")
        event = event_of(prepared)
        begin(prepared, SECOND)
        with pytest.raises(TaskDeferred):
            waiting(prepared).execute_complete(context, event)
        count(prepared, SECOND)
        assert waiting(prepared).execute_complete(context, event_of(prepared))["attempt"] == prepared["attempt"]

    def test_in_a_table_where_another_load_has_begun_since_and_keeps_to_its_time(
        self, prepare: Prepare, count: Count, waiting: Waiting, context: Context
    ) -> None:
        """What its driver had counted when the trigger fired is being replaced when the worker goes on."""
        prepared = prepare()
        with pytest.raises(TaskDeferred) as first:
            waiting(prepared).execute(context)
        count(prepared, **IN_A_TABLE)
        event = event_of(prepared)
        later = prepare_again(prepare)
        kwargs = {"event": event} | (first.value.kwargs or {})
        with pytest.raises(TaskDeferred) as again:
            waiting(prepared).resume_execution("execute_complete", kwargs, context)
        assert again.value.kwargs == first.value.kwargs
        assert first.value.timeout == timedelta(seconds=600)
        assert timedelta(seconds=500) < again.value.timeout < first.value.timeout
        with pytest.raises(AirflowFailException, match="was not loaded within 10 minutes"):
            waiting(prepared).execute_complete(context, event, until_ms=1)
        count(later, **IN_A_TABLE)
        assert waiting(prepared).execute_complete(context, event_of(prepared))["attempt"] == later["attempt"]

    @pytest.mark.parametrize("content", [b"", b'{"format": 1, "err'])
    def test_a_failure_whose_note_can_not_be_read_may_pass(
        self, prepare: Prepare, put: Put, waiting: Waiting, context: Context, content: bytes
    ) -> None:
        prepared = prepare()
        put(prepared, failure_file(FIRST), content)
        with pytest.raises(
            SparkFailedError, match=rf"Attempt {prepared['attempt']} failed, but its reason can't be read"
        ):
            waiting(prepared).execute_complete(context, event_of(prepared))

    def test_of_several_the_newest_is_told(self, prepare: Prepare, fail: Put) -> None:
        """Names of drivers are random."""
        prepared = prepare()
        fail(prepared, THIRD, "ConfigurationError")
        fail(prepared, FIRST, "TopicChangedError", noted_ms=2_000)
        fail(prepared, SECOND, "ConfigurationError", noted_ms=1_000)
        assert event_of(prepared)["message"].startswith("TopicChangedError: of driver 0000000a.")

    def test_one_whose_counts_are_half_written_may_be_running(
        self, prepare: Prepare, fail: Put, begin: Put, put: Put, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        fail(prepared, FIRST, "TopicChangedError")
        begin(prepared, SECOND)
        put(prepared, result_file(THIRD), b"{")
        with pytest.raises(TaskDeferred):
            waiting(prepared).execute(context)

    def test_what_can_be_published_is_though_another_one_failed(
        self, prepare: Prepare, count: Count, fail: Put, verify: Verify
    ) -> None:
        prepared = prepare()
        fail(prepared, FIRST, "TopicChangedError")
        count(prepared, SECOND)
        assert verify(prepared)["attempt"] == prepared["attempt"]


def prepare_again(prepare: Prepare) -> XCom:
    """Begin another attempt though the first one's counts could be published: they are, if nobody began later."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("airflow_kafka_offsets.pipelines.attempts.left_to_publish", lambda *_: None)
        return prepare()


class TestPreparedAgain:
    def test_what_was_counted_and_not_published_is_published_though_retention_came(
        self, prepare: Prepare, count: Count, verify: Verify, ten: str, delete_before: DeleteBefore
    ) -> None:
        attempt = count(prepare())
        delete_before(ten, 4)
        again = prepare()
        assert (again["needs_driver"], again["attempt"]) == (False, attempt)
        report = verify(again)
        assert (report["attempt"], report["written"], report["lost"]) == (attempt, 5, 0)

    def test_another_try_begins_another_attempt_of_the_same_files(
        self, prepare: Prepare, ledger: Ledger, pinned: Window, context: Context
    ) -> None:
        first = prepare()
        context["ti"].try_number = 2
        second = prepare()
        assert first["attempt"] < second["attempt"]
        assert (first["application"], first["py_files"]) == (second["application"], second["py_files"])
        attempts = ledger.read().windows[pinned.name].attempts
        assert [(each.number, each.who["try_number"]) for each in attempts] == [
            (first["attempt"], 1),
            (second["attempt"], 2),
        ]

    def test_of_a_published_window_nothing_needs_to_be_submitted_until_somebody_says_so(
        self, prepare: Prepare, count: Count, verify: Verify, context: Context
    ) -> None:
        first = prepare()
        count(first)
        verify(first)
        again = prepare()
        assert (again["needs_driver"], again["attempt"]) == (False, first["attempt"])
        assert again["conf"]["spark.kafkaOffsets.attempt"] == str(first["attempt"]), "a driver finds it published"
        reloaded = prepare(reload=True)
        assert (reloaded["needs_driver"], reloaded["attempt"] > first["attempt"]) == (True, True)
        count(reloaded)
        context["ti"].try_number = 2
        assert prepare(reload=True)["needs_driver"] is False, "a retry asks no more"
        cleared(context)
        assert prepare(reload=True)["needs_driver"] is True
