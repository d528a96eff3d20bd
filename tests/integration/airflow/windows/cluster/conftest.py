"""Tasks on a cluster of three brokers, and a log of it that an unclean election cuts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from dev.cluster import KafkaCluster
from tests.integration.airflow.conftest import T0_MS, use_connection
from tests.integration.client.cases.workload import connected_client, new_topic, produce
from tests.patience import wait_until


@pytest.fixture(autouse=True)
def connection(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks' connection leads to the cluster."""
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": cluster.bootstrap_servers})


@pytest.fixture
def client(cluster: KafkaCluster) -> Iterator[OffsetsClient]:
    with connected_client(cluster.bootstrap_servers) as connected:
        yield connected


def stamps(*seconds: int) -> list[int]:
    return [T0_MS + each * 1000 for each in seconds]


def leads(cluster: KafkaCluster, topic: str, partition: int) -> bool:
    try:
        cluster.leader(topic, partition)
    except LookupError:
        return False
    return True


class Cut:
    """A topic whose log an unclean election cuts at 3: a leader with 7 records, and a replica with 3 of them."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.ahead, self.behind = cluster.brokers[0], cluster.brokers[1]
        config = {"unclean.leader.election.enable": "true"}
        replicas = [[self.ahead.node_id, self.behind.node_id]]
        self.topic = new_topic(cluster, replicas=replicas, config=config)
        produce(cluster, self.topic, timestamps=stamps(0, 1, 2))
        wait_until(lambda: len(cluster.in_sync(self.topic, 0)) == 2, "both replicas are in sync")
        self.behind.kill()
        wait_until(lambda: cluster.in_sync(self.topic, 0) == {self.ahead.node_id}, "one replica is left")
        produce(cluster, self.topic, timestamps=stamps(3, 4, 5, 6))

    def elect(self) -> None:
        """Have the replica that is behind lead."""
        self.ahead.kill()
        self.behind.launch()
        wait_until(self.elected, "the other replica leads")

    def elected(self) -> bool:
        """Whether the replica that was behind leads."""
        return leads(self.cluster, self.topic, 0) and self.cluster.leader(self.topic, 0) is self.behind

    def grow(self, *seconds: int) -> None:
        produce(self.cluster, self.topic, timestamps=stamps(*seconds))


@pytest.fixture
def cut(cluster: KafkaCluster) -> Cut:
    return Cut(cluster)
