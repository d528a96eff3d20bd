"""The button "Ask Kafka now": what Kafka says at this moment, and that a broker that hangs holds nothing else up."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI
from kafka import KafkaAdminClient
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition as KafkaTopicPartition
from starlette.testclient import TestClient

from airflow_kafka_offsets.client.connection.wire import Code
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary, Evidence, OffsetSnapshot
from airflow_kafka_offsets.page import kafka_now, permissions
from airflow_kafka_offsets.page.app import make_app
from dev.kafka import Broker
from tests.integration.airflow.waits.whole_airflow import commit
from tests.integration.client.cases.workload import connected_client
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import configs_are, hang_up, metadata_is, offsets_are, silence
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.ledger.loads import pin, publish
from tests.integration.page.conftest import As, open_pipeline
from tests.patience import PATIENCE_S
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

CONN_ID = "page_kafka"
OURS = {"X-Requested-With": "fetch"}
"""What the page's own script sends."""
SETTING = "AIRFLOW__KAFKA_OFFSETS__PAGE_KAFKA_CONN_ID"
Json = dict[str, Any]
Now = Callable[..., httpx.Response]
Load = Callable[[int, int], None]


@pytest.fixture
def client(broker: Broker) -> Iterator[OffsetsClient]:
    with connected_client(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def name(topic: MakeTopic, produce: Produce) -> str:
    """A topic of two partitions with ten records each."""
    made = topic(partitions=2, config={"retention.ms": "-1"})
    for partition in (0, 1):
        produce(made, partition, [(None, None, b"x")] * 10)
    return made


@pytest.fixture
def ledger(root: str, name: str, client: OffsetsClient, log_in: As) -> Ledger:
    return open_pipeline(root, f"now-{name[-8:]}", [name], client.cluster_id())


@pytest.fixture
def load(ledger: Ledger, name: str, client: OffsetsClient) -> Load:
    """Load a window of some offsets on both partitions, the one of an hour that is as great as its start."""
    survey = client.survey([name])

    def at(offset: int) -> OffsetSnapshot:
        at_ms = T0 + offset * HOUR_MS
        taken = snapshot({0: offset}, at_ms=at_ms)
        boundaries = {
            TopicPartition(name, each): Boundary(name, each, offset, Evidence.MATCHED, at_ms, None, 0, 10, 10)
            for each in (0, 1)
        }
        return replace(taken, cluster_id=survey.cluster_id, topics=survey.facts, boundaries=boundaries)

    def load_window(start: int, end: int) -> None:
        publish(ledger, pin(ledger, at(start), at(end)))

    return load_window


@pytest.fixture
def now(ledger: Ledger, log_in: As, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Now:
    """Press the button."""
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(connection))
    monkeypatch.setenv(SETTING, CONN_ID)

    def ask(role: str | None = "viewer", headers: dict[str, str] | None = None, **asked: str) -> httpx.Response:
        browser = TestClient(make_app(), cookies=log_in(role).cookies, raise_server_exceptions=False)
        path = f"/api/pipelines/{ledger.pipeline}/now"
        answer: httpx.Response = browser.get(path, params=asked, headers=OURS if headers is None else headers)
        return answer

    return ask


class TestAnswer:
    def test_says_where_logs_end_and_what_no_published_window_has(
        self, now: Now, load: Load, name: str, produce: Produce
    ) -> None:
        """Offsets 0 to 4 and 6 to 8 of ten are loaded, and then 5 more records come."""
        load(0, 4)
        load(6, 8)
        produce(name, 0, [(None, None, b"x")] * 5)
        (told,) = now().json()["topics"]
        assert told == {
            "topic": name,
            "partitions": 2,
            "recreated": False,
            "retention_ms": -1,
            "log_start": "0",
            "log_end": "25",
            "unloaded": str(2 * 2 + 2 * 2 + 5),
            "gone": "0",
            "truncated": 0,
        }

    def test_says_what_was_deleted_before_it_was_loaded(
        self, now: Now, load: Load, name: str, admin: KafkaAdminClient
    ) -> None:
        load(0, 4)
        admin.delete_records({KafkaTopicPartition(name, 1): 7})
        (told,) = now().json()["topics"]
        assert (told["log_start"], told["gone"], told["unloaded"]) == ("7", "3", str(6 + 3))

    def test_says_how_far_a_group_is_behind(self, now: Now, load: Load, name: str, broker: Broker) -> None:
        load(0, 4)
        group = f"g-{name}"
        commit(broker, name, 3, group)
        answer = now(group=group).json()
        assert answer["group"] == group
        assert (answer["topics"][0]["committed"], answer["topics"][0]["lag"]) == ("6", "14")
        assert answer["topics"][0]["remarks"] == []

    def test_never_says_zero_of_a_group_that_is_not_there(self, now: Now, load: Load) -> None:
        load(0, 4)
        (told,) = now(group="misspelt").json()["topics"]
        assert (told["committed"], told["lag"], told["remarks"]) == (None, None, ["there is no such group"])

    def test_says_that_a_topic_was_re_created_and_what_is_loaded_lies_past_its_end(
        self, now: Now, load: Load, ledger: Ledger, name: str, admin: KafkaAdminClient, produce: Produce
    ) -> None:
        """Until the pipeline is restarted: then all of the new log isn't loaded."""
        load(0, 4)
        admin.delete_topics([name])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
                break
            except Exception:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        (told,) = now().json()["topics"]
        assert (told["recreated"], told["truncated"], told["log_end"]) == (True, 2, "0")
        assert (told["unloaded"], told["gone"]) == (None, None)
        wish = Restarted(T0 + 5 * HOUR_MS, (name,), "it was re-created")
        ledger.change(lambda state: corrections.restart(state, wish, ledger.contents))
        produce(name, 0, [(None, None, b"x")] * 3)
        (told,) = now().json()["topics"]
        assert (told["recreated"], told["truncated"], told["unloaded"], told["gone"]) == (False, 0, "3", "0")

    def test_names_a_topic_that_is_gone(self, now: Now, load: Load, name: str, admin: KafkaAdminClient) -> None:
        load(0, 4)
        admin.delete_topics([name])
        answer = now()
        assert answer.status_code == 502
        assert name in answer.json()["detail"]

    @pytest.mark.parametrize("beside", [[], ["not-in-this-cluster"]])
    def test_is_refused_where_the_connection_reaches_another_cluster(
        self, now: Now, root: str, name: str, log_in: As, beside: list[str]
    ) -> None:
        """A topic that isn't there doesn't seem to be deleted."""
        other = open_pipeline(root, f"other-{len(beside)}-{name[-8:]}", [name, *beside], "another-cluster")
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer = browser.get(f"/api/pipelines/{other.pipeline}/now", headers=OURS)
        assert answer.status_code == 502
        assert "topics are in cluster another-cluster" in answer.json()["detail"]

    def test_nothing_is_unloaded_or_gone_where_there_is_no_window(self, now: Now, name: str) -> None:
        (told,) = now("admin").json()["topics"]
        assert (told["log_end"], told["unloaded"], told["gone"]) == ("20", None, None)


class TestWhoMayAsk:
    @pytest.mark.parametrize(("role", "status"), [(None, 401), ("", 403), ("viewer", 200)])
    def test_those_who_may_see_the_pipeline(self, now: Now, load: Load, role: str | None, status: int) -> None:
        load(0, 4)
        assert now(role).status_code == status

    def test_nobody_else(self, now: Now) -> None:
        """No Dag has loaded it, so that it is for those who may read all."""
        assert (now("viewer").status_code, now("admin").status_code) == (404, 200)

    def test_no_link_or_image_on_another_site(self, now: Now, load: Load) -> None:
        """Over plain HTTP a browser says nothing of where it comes from."""
        load(0, 4)
        assert (now(headers={}).status_code, now(headers=OURS).status_code) == (403, 200)

    def test_nobody_where_no_connection_is_named(
        self, now: Now, load: Load, ledger: Ledger, log_in: As, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        load(0, 4)
        browser = TestClient(make_app(), cookies=log_in("viewer").cookies)
        assert browser.get(f"/api/pipelines/{ledger.pipeline}").json()["asks_kafka"] is True
        monkeypatch.delenv(SETTING)
        assert browser.get(f"/api/pipelines/{ledger.pipeline}").json()["asks_kafka"] is False
        answer = now()
        assert answer.status_code == 400
        assert "page_kafka_conn_id names no connection" in answer.json()["detail"]


@pytest.fixture
def ask_scripted(root: str, log_in: As, monkeypatch: pytest.MonkeyPatch) -> Callable[[ScriptedCluster], httpx.Response]:
    """Press the button of a pipeline whose topic ``t`` is in a scripted cluster."""

    def ask(cluster: ScriptedCluster) -> httpx.Response:
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": cluster.bootstrap_servers}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(connection))
        monkeypatch.setenv(SETTING, CONN_ID)
        monkeypatch.setattr(kafka_now, "_MOST_S", 2.0)
        asked = open_pipeline(root, f"asked-{cluster.brokers[-1].port}", ["t"], "scripted")
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer: httpx.Response = browser.get(f"/api/pipelines/{asked.pipeline}/now", headers=OURS)
        return answer

    return ask


@pytest.mark.parametrize("answer", [silence, hang_up])
def test_a_leader_that_does_not_answer_is_named_by_its_partition_and_not_by_its_address(
    ask_scripted: Callable[[ScriptedCluster], httpx.Response], answer: Answer
) -> None:
    with ScriptedCluster({"t": [0, 1]}, brokers=2) as cluster:
        for each in cluster.brokers:
            each.on(DescribeConfigsRequest, configs_are({}))
        cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
        cluster.brokers[1].on(ListOffsetsRequest, answer)
        told = ask_scripted(cluster)
        assert told.status_code == 502
        assert "t-1: " in told.json()["detail"]
        assert [each.port for each in cluster.brokers if str(each.port) in told.text] == []


def test_a_topic_in_error_is_named_although_no_broker_says_afterwards_which_cluster_it_is(
    ask_scripted: Callable[[ScriptedCluster], httpx.Response],
) -> None:
    with ScriptedCluster({"t": [0]}) as cluster:
        (broker,) = cluster.brokers
        error = metadata_is(cluster, topics={"t": Code.TOPIC_AUTHORIZATION_FAILED})
        broker.on(MetadataRequest, lambda request: error(request) if request.topics else hang_up(request))
        told = ask_scripted(cluster)
        assert told.status_code == 502
        assert "topic t: TOPIC_AUTHORIZATION_FAILED" in told.json()["detail"]


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a broker that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": address, "sasl.password": "hush"}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(connection))
        yield address


def test_a_broker_that_hangs_holds_two_threads_until_a_deadline_and_its_name_is_not_told(
    now: Now, load: Load, ledger: Ledger, deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(0, 4)
    monkeypatch.setattr(kafka_now, "_MOST_S", 6.0)
    page = make_app()
    page.dependency_overrides[permissions.ASKS.dependency] = lambda: None
    page.dependency_overrides[get_user] = lambda: SimpleNamespace()  # FastAPI reads its signature
    monkeypatch.setattr(permissions.Reader, "may_read", lambda *_: True)
    server = FastAPI()
    server.mount("/kafka-windows", page)

    @server.get("/heartbeat")
    def heartbeat() -> str:
        return "ok"

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(server)
        async with httpx.AsyncClient(transport=transport, base_url="http://page", timeout=PATIENCE_S) as browser:
            path = f"/kafka-windows/api/pipelines/{ledger.pipeline}/now"
            pressed = [asyncio.create_task(browser.get(path, headers=OURS)) for _ in range(60)]
            first, _ = await asyncio.wait(pressed, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            assert {each.result().status_code for each in first} == {503}, "refused, while two wait"
            answer = await asyncio.wait_for(browser.get("/heartbeat"), PATIENCE_S)
            assert answer.json() == "ok"
            return [await each for each in pressed]

    answers = asyncio.run(ask())
    assert {answer.status_code for answer in answers} == {502, 503}
    said = {answer.json()["detail"] for answer in answers}
    assert any("ClusterUnreachableError" in each for each in said)
    assert [each for each in said if deaf in each or "hush" in each] == []
