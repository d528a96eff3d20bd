"""Whose result it is that verify publishes for a prepared load, and what a load that is prepared again finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_kafka_offsets.errors import ConfigurationError, DataLossError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references.window_ref import WindowRef
from tests.integration.airflow.conftest import Context, fails_with
from tests.integration.airflow.windows.conftest import DeleteBefore, XCom
from tests.integration.airflow.windows.counted import pinned, published, revised, window
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
        folder, attempt = ledger.folder_of(pinned), f"{prepared['load']}.{number:08x}"
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
        ledger.folder_of(pinned).record_failure(f"{corrected['load']}.00000001", note)
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

    def test_what_decides_the_rows_is_what_was_asked(
        self, prepare: Prepare, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        def asked(text: str = "v1", **arguments: Any) -> str:
            return str(ledger.folder_of(pinned).attempt(prepare(text, **arguments)["load"])["asked"])

        same = [asked(), asked(), asked(retries=3)]
        others = [
            asked("v2"),
            asked(application_args=["--sink", "delta"]),
            asked(conf={"spark.sql.session.timeZone": "UTC"}),
            asked(packages=["io.delta:delta-spark_2.13:4.0.0"]),
            asked(py_files=["s3://jobs/more.zip"]),
            asked(allow_gaps=True),
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
    folder = ledger.folder_of(pinned)
    second = run_result(pinned.manifest, fewer, attempt=f"{prepared['load']}.00000002", apart=False, started_ms=2_000)
    folder.record_result(second)
    assert verify(prepared)["attempt"] == first
