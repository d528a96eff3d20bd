"""Transactions: what is undecided, what a dead producer leaves behind, and the markers in the log."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition as KafkaPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, PartitionProducers
from airflow_kafka_offsets.offsets.lag import LagStatus
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import (
    admin_of,
    commit,
    commits_of,
    connected_client,
    error_names,
    lag_of,
    new_name,
    new_topic,
    send,
    transactional_producer,
)
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S, wait_until

READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED

DYING_PRODUCER = f"""
import os, sys
from kafka import KafkaProducer
servers, transactional_id, topic = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
producer.init_transactions()
producer.begin_transaction()
for _ in range(2):
    producer.send(topic, b"value", partition=0).get(timeout={PATIENCE_S})
os._exit(0)
"""


@pytest.fixture
def dead_producer(cluster: KafkaCluster, topic: str) -> str:
    """Transactional id of a producer that sent two records and died in the middle of its transaction."""
    transactional_id = new_name("dead")
    arguments = [cluster.bootstrap_servers, transactional_id, topic]
    subprocess.run([sys.executable, "-c", DYING_PRODUCER, *arguments], check=True, timeout=2 * PATIENCE_S)
    return transactional_id


def extent_of(client: OffsetsClient, key: TopicPartition) -> LogExtent:
    (found,) = client.log_extents([key]).raise_for_errors()
    return found


def producers_of(client: OffsetsClient, key: TopicPartition) -> PartitionProducers:
    (found,) = client.producers([key]).raise_for_errors()
    return found


def wait_until_decided(client: OffsetsClient, key: TopicPartition) -> None:
    """Wait for the marker, which is written after the producer has heard that its transaction is decided."""
    wait_until(lambda: not producers_of(client, key).open_transactions, "no transaction is open")


class TestOpenTransaction:
    @pytest.fixture(autouse=True)
    def _undecided(self, cluster: KafkaCluster, topic: str) -> Iterator[None]:
        """Two more records, of an open transaction."""
        with transactional_producer(cluster) as producer:
            send(producer, topic, timestamps=(None, None))
            yield

    def test_ends_the_log_for_readers_of_committed_records(self, client: OffsetsClient, key: TopicPartition) -> None:
        """E13, E14: a window may end at the last stable offset, and not at the high watermark."""
        extent = extent_of(client, key)
        assert (extent.last_stable_offset, extent.high_watermark) == (3, 5)
        for level, end in ((READ_COMMITTED, 3), (READ_UNCOMMITTED, 5)):
            (latest,) = client.list_offsets([key], OffsetSpec.LATEST, isolation_level=level)
            assert latest.offset == extent.end_offset(level) == end

    def test_does_not_make_a_reader_who_is_past_it_ahead_of_the_log(
        self, client: OffsetsClient, key: TopicPartition, group: str
    ) -> None:
        """E13, E17: past the last stable offset and below the high watermark is where such readers are."""
        commit(client, group, {key: 5})
        (lag,) = lag_of(client, group).partitions
        assert (lag.status, lag.lag) == (LagStatus.OK, 0)
        assert (lag.last_stable_offset, lag.high_watermark) == (3, 5)

    def test_is_named_with_where_it_began(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition
    ) -> None:
        """E13: the first one holds the last stable offset."""
        with transactional_producer(cluster) as second:
            send(second, key.topic)
            held = producers_of(client, key).open_transactions
            assert [each.transaction_start_offset for each in held] == [3, 5]
            assert extent_of(client, key).last_stable_offset == 3


class TestHangingTransaction:
    """A producer that is gone, and its transaction with it until somebody ends it."""

    def test_is_named_with_the_producers_id(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition, dead_producer: str
    ) -> None:
        """E13: as the transaction coordinator knows it."""
        with admin_of(cluster) as admin:
            expected = admin.describe_transactions([dead_producer])[dead_producer].producer_id
        (held,) = producers_of(client, key).open_transactions
        assert (held.producer_id, held.transaction_start_offset) == (expected, 3)

    def test_lets_go_when_its_successor_takes_over(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition, dead_producer: str
    ) -> None:
        with closing(
            connect(KafkaProducer, bootstrap_servers=cluster.bootstrap_servers, transactional_id=dead_producer)
        ) as heir:
            heir.init_transactions()
        wait_until_decided(client, key)
        wait_until(lambda: extent_of(client, key).last_stable_offset == 6, "the log is stable up to the abort marker")


class TestProducers:
    def test_of_a_partition_that_does_not_exist_are_its_own_error(
        self, client: OffsetsClient, key: TopicPartition
    ) -> None:
        answered = client.producers([key, TopicPartition(key.topic, 9)])
        assert error_names(answered) == [None, "UNKNOWN_TOPIC_OR_PARTITION"]
        good = answered.lookup(*key)
        assert good is not None
        assert good.open_transactions == []


class TestPendingCommit:
    """Offsets that a transaction commits, while nobody knows whether it will."""

    @pytest.fixture
    def settled(self, client: OffsetsClient, cluster: KafkaCluster, key: TopicPartition, group: str) -> TopicPartition:
        """Another topic, where the group has committed 7."""
        other = TopicPartition(new_topic(cluster), 0)
        commit(client, group, {other: 7, key: 1})
        return other

    @pytest.fixture
    def impatient(self, cluster: KafkaCluster) -> Iterator[OffsetsClient]:
        with connected_client(cluster.bootstrap_servers, timeout_s=2) as connected:
            connected.cluster_id()
            yield connected

    @pytest.fixture
    def pending(
        self, cluster: KafkaCluster, key: TopicPartition, group: str, settled: TopicPartition
    ) -> Iterator[KafkaProducer]:
        """A producer whose transaction has offset 2 for the group, and is open."""
        with transactional_producer(cluster) as producer:
            producer.send_offsets_to_transaction({KafkaPartition(*key): OffsetAndMetadata(2, "", -1)}, group)
            yield producer

    def test_is_an_error_at_the_deadline_and_the_others_answer(
        self,
        impatient: OffsetsClient,
        key: TopicPartition,
        group: str,
        settled: TopicPartition,
        pending: KafkaProducer,
    ) -> None:
        """E31: neither the old commit nor the new one."""
        for asked in ([key, settled], None):
            offsets = commits_of(impatient, group, asked).offsets
            unstable, good = offsets.lookup(*key), offsets.lookup(*settled)
            assert unstable is not None
            assert good is not None
            assert (unstable.offset, error_names([unstable])) == (None, ["UNSTABLE_OFFSET_COMMIT"])
            assert (good.offset, good.error) == (7, None)

    def test_makes_the_lag_unknown(
        self, impatient: OffsetsClient, key: TopicPartition, group: str, pending: KafkaProducer
    ) -> None:
        """E31: of its partition, and of the whole."""
        lag = lag_of(impatient, group, topics=[key.topic])
        assert error_names(lag.partitions) == ["UNSTABLE_OFFSET_COMMIT"]
        assert lag.total is None

    def test_is_waited_for(
        self, client: OffsetsClient, key: TopicPartition, group: str, pending: KafkaProducer
    ) -> None:
        """E31"""
        client.cluster_id()
        decide = threading.Timer(0.5, pending.commit_transaction)
        decide.start()
        (found,) = commits_of(client, group, [key]).offsets
        decide.join()
        assert (found.offset, found.error) == (2, None)

    def test_is_forgotten_when_it_was_aborted(
        self, client: OffsetsClient, key: TopicPartition, group: str, pending: KafkaProducer
    ) -> None:
        """E31"""
        pending.abort_transaction()
        (found,) = commits_of(client, group, [key]).offsets
        assert found.offset == 1
