"""What tests of the retention watch share: a broker that deletes, and the watch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.alerts import KafkaRetentionWatchOperator
from dev.kafka import Broker, BrokerSettings
from tests.endings import end_with_unit
from tests.integration.airflow.conftest import Context, use_connection
from tests.integration.airflow.retention_watch.logs import Watch
from tests.integration.airflow.windows.conftest import increment
from tests.integration.kafka_clients import connect

__all__ = ["increment"]  # a fixture, that pytest finds here
HOUR_MS = 3_600_000
DAY = {"retention.ms": str(24 * HOUR_MS)}

MakeTopic = Callable[..., str]
Write = Callable[[str, Iterable[int]], None]


@pytest.fixture(scope="session")
def deleting(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that looks five times a second what it can delete."""
    end_with_unit(request)
    properties = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "0"}
    with Broker(BrokerSettings(name="deleting", properties=properties)) as running:
        yield running


@pytest.fixture(scope="session")
def admin(deleting: Broker) -> Iterator[KafkaAdminClient]:
    with closing(connect(KafkaAdminClient, bootstrap_servers=deleting.bootstrap_servers)) as client:
        yield client


@pytest.fixture(scope="session")
def client(deleting: Broker) -> Iterator[OffsetsClient]:
    with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": deleting.bootstrap_servers})) as connected:
        yield connected


@pytest.fixture(autouse=True)
def connection(deleting: Broker, ledger_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": deleting.bootstrap_servers})


@pytest.fixture
def topic(admin: KafkaAdminClient) -> MakeTopic:
    def make(config: Mapping[str, str], partitions: int = 1) -> str:
        name = f"watched-{os.urandom(3).hex()}"
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config)}
        admin.create_topics({name: options}, wait_for_metadata=True)
        return name

    return make


@pytest.fixture
def write(deleting: Broker) -> Write:
    """Write records of 100,000 bytes with these timestamps to partition 0."""

    def send(topic: str, stamps_ms: Iterable[int]) -> None:
        with closing(connect(KafkaProducer, bootstrap_servers=deleting.bootstrap_servers)) as producer:
            for each in stamps_ms:
                producer.send(topic, partition=0, key=b"k", value=b"x" * 100_000, timestamp_ms=each)

    return send


@pytest.fixture
def watch(context: Context) -> Watch:
    def run(kafka_conn_id: str = "kafka_default", **arguments: Any) -> list[dict[str, Any]]:
        pipeline = KafkaPipeline("loads", kafka_conn_id=kafka_conn_id)
        operator = KafkaRetentionWatchOperator(task_id="watch", pipeline=pipeline, **arguments)
        found: list[dict[str, Any]] = operator.execute(context)["windows"]
        return found

    return run
