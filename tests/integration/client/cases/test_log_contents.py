"""What ranges of real logs hold, next to what Kafka's own consumer reads of them at both isolation levels."""

from __future__ import annotations

from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition as KafkaPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.records import LogContent
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from dev.cluster import KafkaCluster
from tests.integration.client.cases.test_transactions import wait_until_decided
from tests.integration.client.cases.workload import (
    connected_client,
    new_compacted_topic,
    new_topic,
    records,
    send,
    transactional_producer,
)
from tests.integration.kafka_clients import connect

READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
TOGETHER = {"compression_type": "gzip", "linger_ms": 100}
"""What a producer sends at once is one batch."""


@pytest.fixture(scope="module")
def interleaved(running_cluster: KafkaCluster) -> str:
    """Two producers' transactions side by side, committed and aborted by turns, and records of none; one partition.

    Compressed batches of four records, which most ranges cut through.
    """
    topic, four = new_topic(running_cluster), (None,) * 4
    with (
        transactional_producer(running_cluster, **TOGETHER) as one,
        transactional_producer(running_cluster, **TOGETHER) as other,
        closing(connect(KafkaProducer, bootstrap_servers=running_cluster.bootstrap_servers, **TOGETHER)) as plain,
    ):
        send(one, topic, timestamps=four)
        send(other, topic, timestamps=four)
        send(plain, topic, timestamps=four)
        one.abort_transaction()
        send(other, topic, timestamps=four)
        one.begin_transaction()
        send(one, topic, timestamps=four)
        other.commit_transaction()
        other.begin_transaction()
        send(other, topic, timestamps=four)
        one.commit_transaction()
        other.abort_transaction()
        send(plain, topic, timestamps=four)
    with connected_client(running_cluster.bootstrap_servers) as client:
        wait_until_decided(client, TopicPartition(topic, 0))
    return topic


@pytest.fixture(scope="module")
def compacted(running_cluster: KafkaCluster) -> str:
    return new_compacted_topic(running_cluster)


def offsets(cluster: KafkaCluster, topic: str, level: IsolationLevel) -> list[int]:
    """What Kafka's own consumer reads."""
    return [each.offset for each in records(cluster, topic, config={"isolation_level": str(level)})]


def count(client: OffsetsClient, topic: str, start: int, end: int, level: IsolationLevel) -> LogContent:
    (found,) = client.log_contents([LogRange(topic, 0, start, end)], isolation_level=level).raise_for_errors()
    return found


class TestTransactions:
    def test_committed_and_aborted_records_and_markers_add_up_in_every_range(
        self, cluster: KafkaCluster, client: OffsetsClient, interleaved: str
    ) -> None:
        """E12: whichever batches the range's ends cut through."""
        committed = offsets(cluster, interleaved, READ_COMMITTED)
        written = offsets(cluster, interleaved, READ_UNCOMMITTED)
        end = 7 * 4 + 4
        assert (len(committed), len(written)) == (20, 28)
        for start, stop in [(0, end), *((each, each + 13) for each in range(0, end - 13, 3)), (5, 6), (end, end)]:
            within = range(start, stop)
            visible = [each for each in committed if each in within]
            held = sum(each in within for each in written)
            found = count(client, interleaved, start, stop, READ_COMMITTED)
            assert (found.records, found.aborted) == (len(visible), held - len(visible))
            assert (found.markers, found.missing) == (stop - start - held, 0)
            assert found.offset_sum == sum(visible)

    def test_aborted_records_are_records_to_a_reader_of_uncommitted_ones(
        self, client: OffsetsClient, interleaved: str
    ) -> None:
        """E15"""
        found = count(client, interleaved, 0, 32, READ_UNCOMMITTED)
        assert (found.records, found.aborted, found.markers, found.missing) == (28, 0, 4, 0)


class TestCompaction:
    def test_what_the_cleaner_took_is_missing(
        self, cluster: KafkaCluster, client: OffsetsClient, compacted: str
    ) -> None:
        """E11: it may go on taking meanwhile."""
        before = len(offsets(cluster, compacted, READ_COMMITTED))
        found = count(client, compacted, 0, 20, READ_COMMITTED)
        after = len(offsets(cluster, compacted, READ_COMMITTED))
        assert after <= found.records <= before < 20
        assert found.records + found.missing == 20


class TestRetention:
    def test_offsets_before_the_log_start_are_gone(
        self, cluster: KafkaCluster, client: OffsetsClient, interleaved: str
    ) -> None:
        """E9; last, as it deletes records."""
        with closing(connect(KafkaAdminClient, bootstrap_servers=cluster.bootstrap_servers)) as admin:
            admin.delete_records({KafkaPartition(interleaved, 0): 6})
        (found,) = client.log_contents([LogRange(interleaved, 0, 5, 10)])
        assert found.is_gone
        assert count(client, interleaved, 6, 10, READ_COMMITTED).is_complete
