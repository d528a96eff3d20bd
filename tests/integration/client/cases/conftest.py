"""What the edge cases are asked by; the brokers that they are shown on are every integration test's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import connected_client, new_name, new_topic, produce


@pytest.fixture
def client(cluster: KafkaCluster) -> Iterator[OffsetsClient]:
    """A client that knows nothing yet and reaches the brokers without proxies."""
    with connected_client(cluster.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """One partition with three records that belong to no transaction."""
    name = new_topic(cluster)
    produce(cluster, name, count=3)
    return name


@pytest.fixture
def key(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


@pytest.fixture
def group() -> str:
    return new_name("group")
