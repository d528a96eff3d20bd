"""What the edge cases are shown on: three brokers behind fault proxies, one that asks who you are, one of Kafka 3.9."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from dev.cluster import KafkaCluster
from dev.kafka import Broker, BrokerSettings
from dev.zookeeper_broker import ZooKeeperBroker
from tests.integration.client.cases.workload import connected_client, coordinator_id, wait_until

USERS = {"admin": "admin-secret", "alice": "alice-secret"}


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[KafkaCluster]:
    # The cleaner looks twice a second instead of every 15 seconds.
    with KafkaCluster(name="cases", properties={"log.cleaner.backoff.ms": "500"}, proxied=True) as running:
        # Kafka makes the offsets topic now, while there are three brokers to coordinate groups.
        wait_until(lambda: coordinator_id(running, "any"), "groups have coordinators")
        yield running


@pytest.fixture
def cluster(running_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """The cluster, whole again after the test."""
    yield running_cluster
    running_cluster.heal()


@pytest.fixture
def client(cluster: KafkaCluster) -> Iterator[OffsetsClient]:
    """A client that knows nothing yet and reaches the brokers without proxies."""
    with connected_client(cluster.bootstrap_servers) as connected:
        yield connected


@pytest.fixture(scope="module")
def guarded_broker() -> Iterator[Broker]:
    """A broker where nothing is allowed that no ACL allows."""
    settings = BrokerSettings(name="guarded", users=USERS, tls=True, allow_everyone_if_no_acl_found=False)
    with Broker(settings) as running:
        yield running


@pytest.fixture(scope="module")
def old_broker() -> Iterator[ZooKeeperBroker]:
    """A broker of Kafka 3.9 that keeps its metadata in ZooKeeper."""
    with ZooKeeperBroker(name="old") as running:
        yield running
