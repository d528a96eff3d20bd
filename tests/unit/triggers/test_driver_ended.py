"""Waiting for a driver on the triggerer: who of the two ends the wait, while the other doesn't answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from airflow_kafka_offsets.ledger.attempt_files import failure_file, result_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.references import WindowRef
from airflow_kafka_offsets.submission.driver import UNKNOWN, DriverStatus
from airflow_kafka_offsets.triggers.ledger_looks import KafkaDriverEndedTrigger
from tests.patience import PATIENCE_S
from tests.unit.submission.resource_manager import APPLICATION_ID, ResourceManager, connection_to, resource_manager

WINDOW, ATTEMPT = "20261121T050000000Z_20261121T060000000Z", 7

MakeTrigger = Callable[[ResourceManager], KafkaDriverEndedTrigger]
Leave = Callable[..., None]


@pytest.fixture
def leave(tmp_path: Path) -> Leave:
    """Leave what a driver leaves that has failed."""
    ledger = Ledger(UPath(tmp_path), "flights")

    def put(attempt: int = ATTEMPT, name: str = failure_file("0000000a")) -> None:
        content = FailureNote("UnprovenError", "why").to_bytes()
        ledger.files.create(f"{ledger.attempt(WINDOW, attempt).folder}/{name}", content)

    return put


@pytest.fixture
def make_trigger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeTrigger:
    monkeypatch.setattr(KafkaDriverEndedTrigger, "shortest_s", 0.05)

    def make(manager: ResourceManager) -> KafkaDriverEndedTrigger:
        monkeypatch.setenv("AIRFLOW_CONN_ASKED", connection_to(manager))
        ref = WindowRef(tmp_path.as_uri(), "flights", WINDOW, "file:///m.json", "00", 10, 1, 3, "kafka_default")
        return KafkaDriverEndedTrigger(
            window=ref.to_json(),
            attempt=ATTEMPT,
            conn_id="asked",
            deploy_mode=None,
            job_id=APPLICATION_ID,
            poll_interval_s=0.05,
        )

    return make


def event_of(trigger: KafkaDriverEndedTrigger, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
    """As the triggerer has it: from what was serialized."""
    _, arguments = trigger.serialize()
    again = KafkaDriverEndedTrigger(**json.loads(json.dumps(arguments)))

    async def first() -> dict[str, Any]:
        return dict((await anext(again.run())).payload)  # type: ignore[call-overload]  # an async generator

    return asyncio.run(asyncio.wait_for(first(), timeout_s))


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("FINISHED", DriverStatus("SUCCEEDED", active=False, succeeded=True)),
        ("FAILED", DriverStatus("FAILED", active=False, succeeded=False)),
        ("unknown", DriverStatus(UNKNOWN, active=False, succeeded=False)),
    ],
)
def test_the_cluster_ends_it(make_trigger: MakeTrigger, state: str, ended: DriverStatus) -> None:
    with resource_manager("RUNNING", state) as manager:
        event = event_of(make_trigger(manager))
    assert event.pop("status") == "ended"
    assert DriverStatus(**event) == ended


@pytest.mark.parametrize("state", ["RUNNING", "unknown", "FAILED"])
@pytest.mark.parametrize("name", [failure_file("0000000a"), result_file("0000000a")], ids=["failed", "counted"])
def test_what_the_driver_has_noted_ends_it_whatever_the_cluster_says(
    make_trigger: MakeTrigger, leave: Leave, state: str, name: str
) -> None:
    leave(name=name)
    with resource_manager(state) as manager:
        assert event_of(make_trigger(manager)) == {"status": "noted"}


def test_a_cluster_that_is_gone_is_asked_on_until_the_driver_has_noted_something(
    make_trigger: MakeTrigger, leave: Leave
) -> None:
    with resource_manager("RUNNING") as gone:
        pass
    trigger = make_trigger(gone)
    with pytest.raises(TimeoutError):
        event_of(trigger, timeout_s=1)
    leave(attempt=ATTEMPT + 1)
    with pytest.raises(TimeoutError):
        event_of(trigger, timeout_s=1)
    leave()
    assert event_of(trigger) == {"status": "noted"}


def test_a_ledger_that_can_not_be_read_leaves_it_to_the_cluster(make_trigger: MakeTrigger, tmp_path: Path) -> None:
    (tmp_path / "flights").write_text("no folder")
    with resource_manager("FINISHED") as manager:
        assert event_of(make_trigger(manager))["state"] == "SUCCEEDED"
