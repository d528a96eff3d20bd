"""How far sensors that wait have come, when somebody asks: as Kafka says it, by the page's own connection."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from fastapi import FastAPI
from sqlalchemy import delete
from starlette.testclient import TestClient

from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.page import permissions
from airflow_kafka_offsets.page.app import make_app
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from dev.kafka import Broker
from tests.integration.airflow.waits.whole_airflow import commit
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.page.auth_manager import SECRET
from tests.integration.page.conftest import As
from tests.integration.page.test_waits import add_task
from tests.patience import PATIENCE_S

CONN_ID, SAME, OTHER = "page_kafka", "dags_kafka", "other_kafka"
SETTING = "AIRFLOW__KAFKA_OFFSETS__PAGE_KAFKA_CONN_ID"
OURS = {"X-Requested-With": "fetch"}
Press = Callable[..., httpx.Response]


@pytest.fixture(autouse=True)
def nothing_left(log_in: As) -> Iterator[None]:
    yield
    with create_session() as session:
        for model in (TaskInstance, DagRun, Trigger):
            session.execute(delete(model))


@pytest.fixture
def name(topic: MakeTopic, produce: Produce, broker: Broker) -> str:
    """A topic of ten records, of which ``billing`` has read four."""
    made = topic()
    produce(made, 0, [(None, None, b"x")] * 10)
    commit(broker, made, 4, "billing")
    return made


@pytest.fixture
def press(log_in: As, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Press:
    """Press the button."""
    for conn_id, servers in (
        (CONN_ID, broker.bootstrap_servers),
        (SAME, broker.bootstrap_servers),
        (OTHER, "localhost:1"),
    ):
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))
    monkeypatch.setenv(SETTING, CONN_ID)

    def ask(role: str = "viewer", headers: dict[str, str] | None = None) -> httpx.Response:
        browser = TestClient(make_app(), cookies=log_in(role).cookies, raise_server_exceptions=False)
        answer: httpx.Response = browser.get("/api/waits/now", headers=OURS if headers is None else headers)
        return answer

    return ask


def defer(task_id: str, condition: Condition, conn_id: str = CONN_ID, dag_id: str = "loads") -> None:
    trigger = KafkaWaitTrigger(kafka_conn_id=conn_id, condition=condition.to_json(), poll_interval_s=60)
    add_task(dag_id, task_id, trigger.serialize())


def told(answer: httpx.Response) -> dict[str, Any]:
    return {each["task_id"]: each["now"] for each in answer.json()["waits"]}


def test_each_deferred_sensor_says_what_its_own_log_would_say(press: Press, name: str) -> None:
    """Also through another connection to the same brokers."""
    target = FixedOffsets.of("here", [SeenOffset(name, 0, 9)])
    defer("lag", GroupsCaughtUp(("billing",), (name,)))
    defer("drained", OffsetsReached("billing", target), SAME)
    defer("done", OffsetsReached("billing", FixedOffsets.of("here", [SeenOffset(name, 0, 4)])))
    found = told(press())
    assert "6" in found["lag"]
    assert "5" in found["drained"]
    assert found["done"].endswith(": done")


def test_no_other_cluster_is_asked(press: Press, name: str) -> None:
    defer("elsewhere", GroupsCaughtUp(("billing",), (name,)), OTHER)
    defer("nowhere", GroupsCaughtUp(("billing",), (name,)), "not_there")
    assert told(press()) == {"elsewhere": None, "nowhere": None}


def test_what_kafka_can_not_tell_of_one_hides_no_other(press: Press, name: str) -> None:
    defer("gone", OffsetsReached("billing", FixedOffsets.of("here", [SeenOffset("no-such-topic", 0, 9)])))
    defer("lag", GroupsCaughtUp(("billing",), (name,)))
    found = told(press())
    assert found["gone"].startswith("unknown")
    assert "6" in found["lag"]


def test_only_the_button_asks_and_only_about_dags_that_one_may_read(press: Press, name: str) -> None:
    defer("hidden", GroupsCaughtUp(("billing",), (name,)), dag_id=f"{SECRET}_loads")
    assert press(headers={}).status_code == 403
    assert (told(press()), list(told(press("admin")))) == ({}, ["hidden"])


def test_a_broker_that_hangs_holds_two_threads_until_a_deadline_and_its_name_is_not_told(
    press: Press, monkeypatch: pytest.MonkeyPatch
) -> None:
    defer("lag", GroupsCaughtUp(("billing",), ("t",)))
    page, server = make_app(), FastAPI()
    page.dependency_overrides[permissions.ASKS.dependency] = lambda: None
    page.dependency_overrides[get_user] = lambda: SimpleNamespace()  # FastAPI reads its signature
    monkeypatch.setattr(permissions.Reader, "may_read_tasks", lambda *_: True)
    server.mount("/kafka-windows", page)

    @server.get("/heartbeat")
    def heartbeat() -> str:
        return "ok"

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(server)
        async with httpx.AsyncClient(transport=transport, base_url="http://page", timeout=PATIENCE_S) as browser:
            pressed = [
                asyncio.create_task(browser.get("/kafka-windows/api/waits/now", headers=OURS)) for _ in range(60)
            ]
            first, _ = await asyncio.wait(pressed, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            assert {each.result().status_code for each in first} == {503}, "refused, while two wait"
            answer = await asyncio.wait_for(browser.get("/heartbeat"), PATIENCE_S)
            assert answer.json() == "ok"
            return [await each for each in pressed]

    with socket.create_server(("127.0.0.1", 0), backlog=100) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": address, "sasl.password": "hush"}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(connection))
        answers = asyncio.run(ask())
    told = [each.text for each in answers if each.status_code != 503]
    assert any("ClusterUnreachableError" in each for each in told)
    assert [each for each in told if address in each or "hush" in each] == []
