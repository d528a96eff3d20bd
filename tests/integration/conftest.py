"""The brokers that all integration tests share, each started when first asked for; and making topics and records."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from secrets import token_hex
from typing import Protocol

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from kafka import KafkaAdminClient, KafkaProducer

from dev import s3_server
from dev.cluster import KafkaCluster
from dev.kafka import Broker, BrokerSettings
from dev.schema_registry import SchemaRegistry
from dev.spark_cluster import SparkCluster
from dev.zookeeper_broker import ZooKeeperBroker
from tests.endings import end_with_unit
from tests.integration.airflow.services import airflow_services
from tests.integration.client.cases.workload import coordinator_id
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S, wait_until

__all__ = ["airflow_services"]  # a fixture, that pytest finds here

USERS = {name: f"{name}-secret-{token_hex(8)}" for name in ("admin", "alice")}
"""Each test process has passwords of its own: a broker that another one makes has its on its command line."""

Record = tuple[int | None, bytes | None, bytes | None]
"""Timestamp (Unix milliseconds; None: now), key, value."""


class MakeTopic(Protocol):
    def __call__(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Name of a new topic that no other test knows. It exists, with a leader for each partition, on return."""


class Produce(Protocol):
    def __call__(self, topic: str, partition: int, records: Iterable[Record]) -> list[int]:
        """Offsets of the records, once the broker has acknowledged them all. One record after the other."""


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker of this session, with a listener for :data:`USERS` and one behind a fault proxy.

    Tests that stop it start their own. Those that use the proxy leave it healed.
    """
    with Broker(BrokerSettings(name="tests", users=USERS, proxied=True)) as running:
        yield running


@pytest.fixture(scope="session")
def guarded_broker() -> Iterator[Broker]:
    """A broker with TLS where nothing is allowed that no ACL allows."""
    settings = BrokerSettings(name="guarded", users=USERS, tls=True, allow_everyone_if_no_acl_found=False)
    with Broker(settings) as running:
        yield running


@pytest.fixture(scope="session")
def old_broker() -> Iterator[ZooKeeperBroker]:
    """A broker of Kafka 3.9 that keeps its metadata in ZooKeeper."""
    with ZooKeeperBroker(name="old") as running:
        yield running


@pytest.fixture(scope="session")
def running_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three brokers behind fault proxies."""
    end_with_unit(request)
    # The cleaner looks twice a second instead of every 15 seconds, and a follower that has nothing to fetch asks again
    # after a tenth of a second instead of half a second, which is how long a new topic's first record would take.
    properties = {"log.cleaner.backoff.ms": "500", "replica.fetch.wait.max.ms": "100"}
    with KafkaCluster(name="cluster", properties=properties, proxied=True) as running:
        # Kafka makes the offsets topic now, while there are three brokers to coordinate groups.
        wait_until(lambda: coordinator_id(running, "any"), "groups have coordinators")
        yield running


@pytest.fixture
def cluster(running_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """The cluster, whole again after the test."""
    yield running_cluster
    running_cluster.heal()


@pytest.fixture(scope="session")
def running_spark_cluster() -> Iterator[SparkCluster]:
    """A Spark standalone cluster: a master and two workers."""
    with SparkCluster(name="tests") as running:
        yield running


@pytest.fixture
def spark_cluster(running_spark_cluster: SparkCluster) -> Iterator[SparkCluster]:
    """The cluster, whole again after the test."""
    yield running_spark_cluster
    running_spark_cluster.heal()


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistry]:
    """A schema registry without logins."""
    with SchemaRegistry() as running:
        yield running


@pytest.fixture(scope="session")
def registry_client(registry: SchemaRegistry) -> SchemaRegistryClient:
    """Confluent's own client of it."""
    return SchemaRegistryClient({"url": registry.url})


@pytest.fixture(scope="session")
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    with closing(connect(KafkaAdminClient, bootstrap_servers=broker.bootstrap_servers)) as client:
        yield client


@pytest.fixture
def topic(admin: KafkaAdminClient, request: pytest.FixtureRequest) -> MakeTopic:
    """Makes topics; their names start with the test's name, so that a broker's log reads well."""
    prefix = "".join(each if each.isalnum() else "-" for each in request.node.name)[:80]
    numbers = itertools.count(1)

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"{prefix}-{os.urandom(3).hex()}-{next(numbers)}"
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config or {})}
        admin.create_topics({name: options}, wait_for_metadata=True)
        return name

    return make


@pytest.fixture(scope="session")
def produce(broker: Broker) -> Produce:
    """Produces records to one partition of a topic of the session's broker."""
    return partial(produce_to, broker.bootstrap_servers)


def produce_to(bootstrap_servers: str, topic: str, partition: int, records: Iterable[Record]) -> list[int]:
    """Produce records to one partition of a topic."""
    with closing(connect(KafkaProducer, bootstrap_servers=bootstrap_servers)) as producer:
        sent = [
            producer.send(topic, partition=partition, timestamp_ms=timestamp_ms, key=key, value=value)
            for timestamp_ms, key, value in records
        ]
        producer.flush()
        return [each.get(timeout=PATIENCE_S).offset for each in sent]


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """An S3 server."""
    with s3_server.serving() as endpoint:
        yield endpoint
