"""A cluster of three brokers, one of which dies, hangs, stops and comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.protocol.consumer import ListOffsetsRequest

from dev.cluster import SIZE, KafkaCluster
from dev.kafka import Broker
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.nightly("brokers that die and come back; client/cases rely on the same")

DEADLINE_S = 240.0


class TestStart:
    def test_every_broker_knows_all(self, cluster: KafkaCluster) -> None:
        assert [each.live_brokers() for each in cluster.brokers] == [{1, 2, 3}] * 3

    def test_the_internal_topics_have_a_replica_on_each(self, cluster: KafkaCluster) -> None:
        consumer = connect(KafkaConsumer, bootstrap_servers=cluster.bootstrap_servers, group_id="any")
        with closing(consumer):
            consumer.committed(TopicPartition(_topic(cluster), 0))
        described = cluster.run_tool(
            "org.apache.kafka.tools.TopicCommand", "--describe", "--topic", "__consumer_offsets"
        )
        assert "ReplicationFactor: 3" in described


class TestKilledBroker:
    def test_another_replica_leads_and_has_every_record(self, cluster: KafkaCluster) -> None:
        topic = _topic(cluster)
        _produce(cluster, topic, 10)
        old = cluster.leader(topic, 0)
        old.kill()
        _wait_until(lambda: _leads_another(cluster, topic, old))
        _produce(cluster, topic, 10)
        assert _end_offset(cluster, topic) == 20

    def test_comes_back_and_catches_up(self, cluster: KafkaCluster) -> None:
        topic = _topic(cluster)
        dead = cluster.leader(topic, 0)
        dead.kill()
        _wait_until(lambda: _leads_another(cluster, topic, dead))
        _produce(cluster, topic, 10)
        dead.start()
        _wait_until(lambda: dead.node_id in cluster.in_sync(topic, 0))


class TestPausedBroker:
    def test_loses_its_partitions(self, cluster: KafkaCluster) -> None:
        topic = _topic(cluster)
        hung = cluster.leader(topic, 0)
        hung.pause()
        _wait_until(lambda: _leads_another(cluster, topic, hung))

    def test_goes_on_when_resumed(self, cluster: KafkaCluster) -> None:
        hung = cluster.brokers[0]
        hung.pause()
        hung.resume()
        hung.wait_until_ready(cluster_size=SIZE)


class TestProxies:
    def test_keep_the_clients_who_start_there(self, cluster: KafkaCluster) -> None:
        topics = [_topic(cluster, replicas=[each.node_id]) for each in cluster.brokers]
        for each in cluster.proxies:
            each.reset_counts()
        with closing(connect(KafkaConsumer, bootstrap_servers=cluster.proxied_bootstrap_servers)) as consumer:
            consumer.end_offsets([TopicPartition(each, 0) for each in topics])
        assert [each.requests[ListOffsetsRequest.API_KEY] for each in cluster.proxies] == [1, 1, 1]


class TestUncleanElection:
    """A replica that had fallen behind when the last one in sync died."""

    def test_happens_only_where_a_topic_allows_it(self, cluster: KafkaCluster) -> None:
        ahead, behind = cluster.brokers[0], cluster.brokers[1]
        replicas = [ahead.node_id, behind.node_id]
        strict = _topic(cluster, replicas=replicas, config={"min.insync.replicas": "1"})
        lax_config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        lax = _topic(cluster, replicas=replicas, config=lax_config)
        behind.kill()
        for topic in (strict, lax):
            _wait_until(lambda topic=topic: cluster.in_sync(topic, 0) == {ahead.node_id})
            _produce(cluster, topic, 1)
        ahead.kill()
        behind.start()
        _wait_until(lambda: cluster.leader(lax, 0) is behind)
        with pytest.raises(LookupError, match="no broker leads"):
            cluster.leader(strict, 0)
        assert _end_offset(cluster, lax) == 0


def _topic(cluster: KafkaCluster, replicas: Sequence[int] = (1, 2, 3), config: Mapping[str, str] | None = None) -> str:
    """A new topic of one partition, led by the first of its replicas."""
    name = f"topic-{os.urandom(3).hex()}"
    options = {"assignments": {0: list(replicas)}, "configs": dict(config or {})}
    with closing(connect(KafkaAdminClient, bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_topics({name: options}, wait_for_metadata=True)
    _wait_until(lambda: cluster.leader(name, 0) is not None)  # whichever broker is asked, and knows it later
    return name


def _produce(cluster: KafkaCluster, topic: str, count: int) -> None:
    """Records that all replicas in sync have acknowledged."""
    with closing(connect(KafkaProducer, bootstrap_servers=cluster.bootstrap_servers, acks="all")) as producer:
        for _ in range(count):
            producer.send(topic, b"value").get(timeout=PATIENCE_S)


def _end_offset(cluster: KafkaCluster, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    with closing(connect(KafkaConsumer, bootstrap_servers=cluster.bootstrap_servers)) as consumer:
        offset: int = consumer.end_offsets([partition])[partition]
    return offset


def _leads_another(cluster: KafkaCluster, topic: str, than: Broker) -> bool:
    return cluster.leader(topic, 0) is not than


def _wait_until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; meanwhile there may be no leader."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        with suppress(LookupError):
            if holds():
                return
        time.sleep(0.1)
    raise TimeoutError(f"not within {DEADLINE_S:.0f} s")
