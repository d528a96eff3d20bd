"""Waiting for a driver on the triggerer: who of the two ends the wait, while the other doesn't answer.

Standalone masters are scripted, in the words of Spark's ``StandaloneRestServer``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tenacity
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from upath import UPath

from airflow_kafka_offsets.errors import DriverGoneError, SparkFailedError
from airflow_kafka_offsets.ledger.ledger import FORMAT
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission import driver_status
from airflow_kafka_offsets.submission.driver_status import DriverStatus, SubmittedDriver
from airflow_kafka_offsets.triggers.driver_ended import KafkaDriverEndedTrigger
from tests.unit.spark.manifests import CLUSTER_ID, make_ledger, manifest_of
from tests.unit.submission.test_earlier_driver import DRIVER, IN_STANDBY, NEVER_HEARD_OF_IT, RUNNING, master

MANIFEST = manifest_of([("flights", 0, 0, 10)])
FINISHED = {"success": True, "driverState": "FINISHED"}
FAILED = {"success": True, "driverState": "FAILED"}

MakeTrigger = Callable[[int], KafkaDriverEndedTrigger]


@pytest.fixture
def pinned(tmp_path: Path) -> PinnedManifest:
    """The window that the driver loads."""
    make_ledger(tmp_path / "flights")
    stored = tmp_path / "flights" / "pipeline.json"
    more = {"format": FORMAT, "topics": ["flights"], "cluster_id": CLUSTER_ID, "isolation_level": "read_committed"}
    stored.write_text(json.dumps(json.loads(stored.read_text()) | more))
    return WindowFolders(UPath(tmp_path / "flights")).pin_again(MANIFEST)


@pytest.fixture
def folder(pinned: PinnedManifest, tmp_path: Path) -> WindowFolder:
    return WindowFolders(UPath(tmp_path / "flights")).folder(MANIFEST.window, 1)


@pytest.fixture
def make_trigger(tmp_path: Path, pinned: PinnedManifest, monkeypatch: pytest.MonkeyPatch) -> MakeTrigger:
    """A trigger that asks the master whose REST port is given."""
    monkeypatch.setattr(KafkaDriverEndedTrigger, "shortest_s", 0.05)
    monkeypatch.setattr(SparkSubmitOperator._fetch_driver_status.retry, "wait", tenacity.wait_none())

    def make(port: int) -> KafkaDriverEndedTrigger:
        extra = {"deploy-mode": "cluster", "rest-port": port}
        connection = {"conn_type": "spark", "host": "spark://127.0.0.1:7077", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASKED", json.dumps(connection))
        return KafkaDriverEndedTrigger(
            window=WindowRef.of(tmp_path.as_uri(), pinned).to_json(),
            revision=1,
            attempt="a-1",
            driver=SubmittedDriver("asked", None, DRIVER).to_json(),
            poll_interval_s=0.05,
        )

    return make


def event_of(trigger: KafkaDriverEndedTrigger, timeout_s: float = 60) -> dict[str, Any]:
    """As the triggerer has it: from what was serialized."""
    _, arguments = trigger.serialize()
    again = KafkaDriverEndedTrigger(**json.loads(json.dumps(arguments)))

    async def first() -> dict[str, Any]:
        return dict((await anext(again.run())).payload)  # type: ignore[call-overload]  # an async generator

    return asyncio.run(asyncio.wait_for(first(), timeout_s))


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (FINISHED, DriverStatus("FINISHED", active=False, succeeded=True)),
        (FAILED, DriverStatus("FAILED", active=False, succeeded=False)),
        (NEVER_HEARD_OF_IT, DriverStatus(driver_status.UNKNOWN, active=False, succeeded=False)),
    ],
    ids=["finished", "failed", "unknown"],
)
def test_the_cluster_ends_it(make_trigger: MakeTrigger, answer: dict[str, Any], ended: DriverStatus) -> None:
    with master(answer, "127.0.0.1", 0) as port:
        event = event_of(make_trigger(port))
    assert event.pop("status") == "ended"
    assert DriverStatus(**event) == ended


@pytest.mark.parametrize("answer", [RUNNING, IN_STANDBY, FAILED], ids=["runs", "in standby", "failed"])
def test_what_the_driver_has_noted_ends_it_whatever_the_cluster_says(
    make_trigger: MakeTrigger, folder: WindowFolder, answer: dict[str, Any]
) -> None:
    folder.record_failure("a-1", FailureNote("UnprovenError", "why"))
    with master(answer, "127.0.0.1", 0) as port:
        assert event_of(make_trigger(port)) == {"status": "noted"}


def test_a_cluster_that_is_gone_is_asked_on_until_the_driver_has_noted_something(
    make_trigger: MakeTrigger, folder: WindowFolder
) -> None:
    with master(RUNNING, "127.0.0.1", 0) as port:
        pass
    trigger = make_trigger(port)
    with pytest.raises(TimeoutError):
        event_of(trigger, timeout_s=2)
    folder.record_failure("a-2", FailureNote("UnprovenError", "another attempt's"))
    with pytest.raises(TimeoutError):
        event_of(trigger, timeout_s=2)
    folder.record_failure("a-1", FailureNote("UnprovenError", "why"))
    assert event_of(trigger) == {"status": "noted"}


def test_a_ledger_that_can_not_be_read_leaves_it_to_the_cluster(
    make_trigger: MakeTrigger, folder: WindowFolder, tmp_path: Path
) -> None:
    (tmp_path / "flights" / "pipeline.json").write_text("damaged")
    with master(FINISHED, "127.0.0.1", 0) as port:
        assert event_of(make_trigger(port))["state"] == "FINISHED"


class TestFailure:
    def test_of_a_driver_that_runs_or_has_ended_well_is_none(self) -> None:
        assert DriverStatus("RUNNING", active=True, succeeded=False).failure(DRIVER) is None
        assert DriverStatus("FINISHED", active=False, succeeded=True).failure(DRIVER) is None

    def test_of_another_one_tells_a_driver_that_failed_from_one_that_went(self) -> None:
        failed = DriverStatus("FAILED", active=False, succeeded=False).failure(DRIVER)
        gone = DriverStatus(driver_status.UNKNOWN, active=False, succeeded=False).failure(DRIVER)
        assert (type(failed), type(gone)) == (SparkFailedError, DriverGoneError)
        assert f"Driver {DRIVER} ended as FAILED" in str(failed)
