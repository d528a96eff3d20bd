"""Whose result it is that verify publishes for a prepared load, and what a load that is prepared again finds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_kafka_offsets.errors import ConfigurationError, DataLossError, SparkFailedError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.triggers.window_loaded import KafkaWindowLoadedTrigger
from tests.integration.airflow.conftest import Context, fails_with
from tests.integration.airflow.windows.conftest import DeleteBefore, XCom
from tests.integration.airflow.windows.counted import pinned, published, revised, window
from tests.patience import PATIENCE_S
from tests.unit.offsets.proof.results import run_result, tallies

__all__ = ["pinned", "window"]  # fixtures, that pytest finds here

Prepare = Callable[..., XCom]
Count = Callable[..., str]


@pytest.fixture
def prepare(window: XCom, context: Context, tmp_path: Path) -> Prepare:
    """Prepare a load of the window, by an application of some text."""

    def run(text: str = "v1", **arguments: Any) -> XCom:
        application = tmp_path / "job.py"
        application.write_text(text)
        task = KafkaPrepareLoadOperator(task_id="p", application=str(application), **{"window": window} | arguments)
        return task.execute(context)

    return run


@pytest.fixture
def count(ledger: Ledger) -> Count:
    """Leave in the ledger what a driver of a prepared load leaves."""

    def leave(prepared: XCom, number: int = 1, **fields: Any) -> str:
        pinned = WindowRef.from_json(prepared["ref"]).read(ledger)
        folder, attempt = ledger.window_folders.of(pinned), f"{prepared['load']}.{number:08x}"
        folder.record_result(run_result(pinned.manifest, tallies(pinned.manifest), attempt=attempt, **fields))
        return attempt

    return leave


@pytest.fixture
def verify(window: XCom, context: Context) -> Callable[..., dict[str, Any]]:
    def run(prepared: XCom, **arguments: Any) -> dict[str, Any]:
        return KafkaVerifyWindowOperator(
            task_id="v", load=prepared, **{"window": window, "deferrable": False} | arguments
        ).execute(context)

    return run


Verify = Callable[..., dict[str, Any]]


class TestWhoseResult:
    def test_what_was_counted_before_the_application_changed_is_none_of_this_load(
        self, prepare: Prepare, count: Count, verify: Verify, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        count(prepare("v1"))
        corrected = prepare("v2")
        with pytest.raises(TaskDeferred):
            verify(corrected, deferrable=True)
        with pytest.raises(AirflowFailException, match="was never published"):
            verify(corrected)
        assert published(ledger, pinned) == []
        attempt = count(corrected)
        assert verify(corrected)["attempt"] == attempt

    def test_its_own_failure_fails_the_wait_though_another_has_counted(
        self, prepare: Prepare, count: Count, verify: Verify, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        count(prepare("v1"))
        corrected = prepare("v2")
        note = FailureNote("ConfigurationError", "no schema")
        ledger.window_folders.of(pinned).record_failure(f"{corrected['load']}.00000001", note)
        for deferrable in (True, False):
            with pytest.raises(AirflowFailException, match="no schema"):
                verify(corrected, deferrable=deferrable)
        assert published(ledger, pinned) == []

    def test_a_load_of_a_revision_before_the_windows_own_is_refused(
        self, prepare: Prepare, count: Count, verify: Verify, window: XCom, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        prepared = prepare()
        count(prepared)
        newer = WindowRef.of(window["ledger_root"], revised(ledger, pinned)).to_json()
        with pytest.raises(AirflowFailException, match=r"revision 2\. Clear the task that prepares") as failed:
            verify(prepared, window=newer)
        assert fails_with(ConfigurationError, failed)
        assert published(ledger, pinned) == []

    def test_rows_that_another_driver_has_replaced_in_a_table_are_published_in_its_name(
        self, prepare: Prepare, count: Count, verify: Verify, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        """Two drivers of one load; the second began to write while the first one's rows were being published."""
        prepared = prepare()
        first = count(prepared, 1, apart=False, started_ms=1_000)
        assert verify(prepared)["attempt"] == first
        second = count(prepared, 2, apart=False, started_ms=2_000)
        assert verify(prepared)["attempt"] == verify(prepared)["attempt"] == second
        assert [(number, attempt) for number, _, attempt, _ in published(ledger, pinned)] == [(1, first), (2, second)]


@pytest.fixture
def begin() -> Callable[..., str]:
    """Leave what a driver of a prepared load leaves that has begun to write."""

    def leave(prepared: XCom, number: int, started_ms: int) -> str:
        attempt = f"{prepared['load']}.{number:08x}"
        note = {"application_id": "app-1", "ui": None, "signature": None, "writes": True, "started_ms": started_ms}
        beside(prepared, f"applications/{attempt}.json").write_text(json.dumps(note))
        return attempt

    return leave


def beside(prepared: XCom, name: str) -> Path:
    """A file of the window's folder, which may not be there yet."""
    path = Path(prepared["ref"]["manifest"].removeprefix("file://")).parent / name
    path.parent.mkdir(exist_ok=True)
    return path


@pytest.fixture
def fail(ledger: Ledger, pinned: PinnedManifest) -> Callable[..., None]:
    """Leave what a driver of a prepared load leaves that fails."""

    def leave(prepared: XCom, number: int, error: str, noted_ms: int | None = None) -> None:
        note = FailureNote(error, f"of driver {number}.", noted_ms)
        ledger.window_folders.of(pinned).record_failure(f"{prepared['load']}.{number:08x}", note)

    return leave


Begin = Callable[..., str]
Fail = Callable[..., None]
Waiting = Callable[[XCom], KafkaVerifyWindowOperator]


def event_of(prepared: XCom) -> dict[str, Any]:
    """What the trigger fires for a load at once."""
    trigger = KafkaWindowLoadedTrigger(window=prepared["ref"], poll_interval_s=60, load=prepared["load"])

    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("it ended without an event")

    return asyncio.run(asyncio.wait_for(first(), PATIENCE_S))


class TestDriversThatHaveEnded:
    @pytest.fixture
    def waiting(self, window: XCom) -> Waiting:
        """The task, on the triggerer."""
        return lambda prepared: KafkaVerifyWindowOperator(
            task_id="v", window=window, load=prepared, deferrable=True, timeout=600
        )

    def test_one_that_may_come_through_next_time_fails_the_try(
        self, prepare: Prepare, fail: Fail, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        fail(prepared, 1, "UncheckedSourceError")
        event = event_of(prepared)
        assert (event["status"], event["retriable"]) == ("failed", True)
        with pytest.raises(SparkFailedError, match=r"of driver 1\. .*[Ss]ubmit the load again"):
            waiting(prepared).execute_complete(context, event)

    def test_one_that_would_fail_again_fails_the_task(
        self, prepare: Prepare, fail: Fail, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        fail(prepared, 1, "TopicChangedError")
        event = event_of(prepared)
        assert (event["status"], event["retriable"]) == ("failed", False)
        of_an_earlier_version = {name: value for name, value in event.items() if name != "retriable"}
        for each in (event, of_an_earlier_version):
            with pytest.raises(AirflowFailException, match=r"of driver 1\."):
                waiting(prepared).execute_complete(context, each)

    def test_the_wait_goes_on_where_another_one_has_begun_since(
        self, prepare: Prepare, fail: Fail, begin: Begin, count: Count, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        fail(prepared, 1, "UncheckedSourceError")
        event = event_of(prepared)
        begin(prepared, 2, 2_000)
        with pytest.raises(TaskDeferred):
            waiting(prepared).execute_complete(context, event)
        second = count(prepared, 2, started_ms=2_000)
        assert waiting(prepared).execute_complete(context, event_of(prepared))["attempt"] == second

    def test_in_a_table_too_and_keeps_to_its_time(
        self, prepare: Prepare, begin: Begin, count: Count, waiting: Waiting, context: Context
    ) -> None:
        """What the first one had counted when the trigger fired is being replaced when the worker goes on."""
        prepared = prepare()
        begin(prepared, 1, 1_000)
        count(prepared, 1, apart=False, started_ms=1_000)
        beside(prepared, "results").rename(beside(prepared, "elsewhere"))
        with pytest.raises(TaskDeferred) as first:
            waiting(prepared).execute(context)
        beside(prepared, "elsewhere").rename(beside(prepared, "results"))
        event = event_of(prepared)
        begin(prepared, 2, 2_000)
        kwargs = {"event": event} | (first.value.kwargs or {})
        with pytest.raises(TaskDeferred) as again:
            waiting(prepared).resume_execution("execute_complete", kwargs, context)
        assert again.value.kwargs == first.value.kwargs
        assert first.value.timeout == timedelta(seconds=600)
        assert timedelta(seconds=500) < again.value.timeout < first.value.timeout
        with pytest.raises(AirflowFailException, match="was not loaded within 10 minutes"):
            waiting(prepared).execute_complete(context, event, until_ms=1)
        second = count(prepared, 2, apart=False, started_ms=2_000)
        assert waiting(prepared).execute_complete(context, event_of(prepared))["attempt"] == second

    @pytest.mark.parametrize("content", [b"", b'{"format": 1, "err'])
    def test_a_failure_whose_note_can_not_be_read_may_pass(
        self, prepare: Prepare, waiting: Waiting, context: Context, content: bytes
    ) -> None:
        prepared = prepare()
        beside(prepared, f"failures/{prepared['load']}.00000001.json").write_bytes(content)
        with pytest.raises(SparkFailedError, match=r"Attempt .*\.00000001 failed, but its reason can't be read"):
            waiting(prepared).execute_complete(context, event_of(prepared))

    def test_of_several_the_newest_is_told(self, prepare: Prepare, fail: Fail) -> None:
        """Names of attempts end at random."""
        prepared = prepare()
        fail(prepared, 3, "ConfigurationError")  # noted by an earlier version
        fail(prepared, 1, "TopicChangedError", noted_ms=2_000)
        fail(prepared, 2, "ConfigurationError", noted_ms=1_000)
        assert event_of(prepared)["message"].startswith("TopicChangedError: of driver 1.")

    def test_where_one_has_counted_what_another_one_has_replaced_nobody_waits(
        self, prepare: Prepare, begin: Begin, count: Count, fail: Fail, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        begin(prepared, 1, 1_000)
        count(prepared, 1, apart=False, started_ms=1_000)
        begin(prepared, 2, 2_000)
        with pytest.raises(TaskDeferred):
            waiting(prepared).execute(context)
        fail(prepared, 2, "UncheckedSourceError")
        with pytest.raises(SparkFailedError, match=r"of driver 2\. .*[Ss]ubmit the load again"):
            waiting(prepared).execute_complete(context, event_of(prepared))

    def test_one_whose_counts_are_half_written_may_be_running(
        self, prepare: Prepare, fail: Fail, waiting: Waiting, context: Context
    ) -> None:
        prepared = prepare()
        fail(prepared, 1, "TopicChangedError")
        beside(prepared, f"results/{prepared['load']}.00000002.json").write_bytes(b"{")
        with pytest.raises(TaskDeferred):
            waiting(prepared).execute(context)

    def test_what_can_be_published_is_though_another_one_failed(
        self, prepare: Prepare, count: Count, fail: Fail, verify: Verify
    ) -> None:
        prepared = prepare()
        fail(prepared, 1, "TopicChangedError")
        second = count(prepared, 2)
        assert verify(prepared)["attempt"] == second


class TestPreparedAgain:
    def test_what_was_counted_and_not_published_is_published_though_retention_came(
        self, prepare: Prepare, count: Count, verify: Verify, ten: str, delete_before: DeleteBefore
    ) -> None:
        attempt = count(prepare())
        delete_before(ten, 4)
        again = prepare()
        assert (again["ref"]["revision"], again["ref"]["lost"]) == (1, 0)
        report = verify(again)
        assert (report["attempt"], report["written"], report["lost"]) == (attempt, 5, 0)

    @pytest.mark.parametrize("policy", ["fail", "load_rest"])
    def test_of_another_application_it_is_not(
        self,
        prepare: Prepare,
        count: Count,
        ten: str,
        delete_before: DeleteBefore,
        ledger: Ledger,
        pinned: PinnedManifest,
        policy: str,
    ) -> None:
        count(prepare("v1"))
        delete_before(ten, 4)
        if policy == "fail":
            with pytest.raises(AirflowFailException, match="are gone") as failed:
                prepare("v2")
            assert fails_with(DataLossError, failed)
        else:
            assert prepare("v2", on_data_loss=policy)["ref"]["lost"] == 2
        assert published(ledger, pinned) == []

    def test_what_decides_the_rows_is_what_was_hash_of(
        self, prepare: Prepare, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        def hash_of(text: str = "v1", **arguments: Any) -> str:
            return str(ledger.window_folders.of(pinned).attempt(prepare(text, **arguments)["load"])["arguments_hash"])

        same = [hash_of(), hash_of(), hash_of(retries=3)]
        others = [
            hash_of("v2"),
            hash_of(application_args=["--sink", "delta"]),
            hash_of(conf={"spark.sql.session.timeZone": "UTC"}),
            hash_of(packages=["io.delta:delta-spark_2.13:4.0.0"]),
            hash_of(py_files=["s3://jobs/more.zip"]),
            hash_of(allow_gaps=True),
        ]
        assert len({*same}) == 1
        assert len({*same, *others}) == 1 + len(others)


def test_in_a_table_rows_that_are_not_proved_are_published_over_none(
    prepare: Prepare, count: Count, verify: Verify, ledger: Ledger, pinned: PinnedManifest
) -> None:
    prepared = prepare()
    first = count(prepared, 1, apart=False, started_ms=1_000)
    verify(prepared)
    fewer = [replace(each, count=each.count - 1) for each in tallies(pinned.manifest)]
    folder = ledger.window_folders.of(pinned)
    second = run_result(pinned.manifest, fewer, attempt=f"{prepared['load']}.00000002", apart=False, started_ms=2_000)
    folder.record_result(second)
    assert verify(prepared)["attempt"] == first
