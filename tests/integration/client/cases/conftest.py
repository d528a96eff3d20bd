"""What the edge cases are asked by; the brokers that they are shown on are every integration test's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import connected_client


@pytest.fixture
def client(cluster: KafkaCluster) -> Iterator[OffsetsClient]:
    """A client that knows nothing yet and reaches the brokers without proxies."""
    with connected_client(cluster.bootstrap_servers) as connected:
        yield connected
