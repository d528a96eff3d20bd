"""The first visible record at or after a position: what is left to read, when offsets alone don't tell."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import ACLOperation, ResourceType

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, ReadPosition
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from dev.cluster import KafkaCluster
from dev.kafka import Broker
from tests.integration.client.cases.test_permissions import allow, login
from tests.integration.client.cases.test_transactions import wait_until_decided
from tests.integration.client.cases.workload import (
    HOUR_MS,
    T0,
    commit,
    connected_client,
    delete_records,
    error_names,
    lag_of,
    new_compacted_topic,
    new_name,
    new_topic,
    produce,
    records,
    send,
    transactional_producer,
)
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S, wait_until

READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
FETCH = 1
"""Kafka's number of the request."""


@pytest.fixture
def polling(cluster: KafkaCluster) -> Iterator[OffsetsClient]:
    """A client whose requests are counted."""
    with connected_client(cluster.proxied_bootstrap_servers) as connected:
        yield connected


def first_of(client: OffsetsClient, key: TopicPartition, position: int, **options: Any) -> FirstRecord:
    (found,) = client.first_records([ReadPosition(*key, position)], **options).raise_for_errors()
    return found


def first_offset(client: OffsetsClient, key: TopicPartition, position: int, **options: Any) -> int | None:
    return first_of(client, key, position, **options).offset


def transact(
    cluster: KafkaCluster,
    client: OffsetsClient,
    key: TopicPartition,
    *,
    commits: bool,
    timestamps: Sequence[int | None] = (None, None),
) -> None:
    """A transaction of some records and its marker."""
    with transactional_producer(cluster) as producer:
        send(producer, key.topic, key.partition, timestamps=timestamps)
        producer.commit_transaction() if commits else producer.abort_transaction()
    wait_until_decided(client, key)


def fetches(cluster: KafkaCluster) -> int:
    """How many Fetch requests of clients the brokers got."""
    return sum(each.requests[FETCH] for each in cluster.proxies)


class TestPosition:
    def test_before_a_record_has_it_and_its_timestamp(self, cluster: KafkaCluster, client: OffsetsClient) -> None:
        """E12: the age of the oldest unread record."""
        key = TopicPartition(new_topic(cluster), 0)
        produce(cluster, key.topic, timestamps=[T0, T0 + HOUR_MS])
        assert first_of(client, key, 0) == FirstRecord(*key, 0, 0, T0)
        assert first_of(client, key, 1) == FirstRecord(*key, 1, 1, T0 + HOUR_MS)

    def test_at_the_end_has_none(self, client: OffsetsClient, key: TopicPartition) -> None:
        assert first_of(client, key, 3) == FirstRecord(*key, 3, searched_to=3)

    def test_past_the_end_has_none_and_the_end_is_told(self, client: OffsetsClient, key: TopicPartition) -> None:
        """E17"""
        for position in (4, 1_000_000):
            assert first_of(client, key, position) == FirstRecord(*key, position, searched_to=3)

    def test_in_an_empty_log_has_none(self, cluster: KafkaCluster, client: OffsetsClient) -> None:
        key = TopicPartition(new_topic(cluster), 0)
        assert first_of(client, key, 0) == FirstRecord(*key, 0, searched_to=0)

    def test_below_the_log_start_counts_from_there(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition
    ) -> None:
        """E9"""
        delete_records(cluster, {key: 2})
        assert [first_offset(client, key, each) for each in (0, 1, 2)] == [2, 2, 2]
        delete_records(cluster, {key: 3})
        assert first_of(client, key, 0) == FirstRecord(*key, 0, searched_to=3)

    def test_below_zero_is_refused(self, client: OffsetsClient, key: TopicPartition) -> None:
        with pytest.raises(ConfigurationError, match="must have offsets of 0 or more"):
            first_of(client, key, -1)


class TestTransactions:
    def test_a_commit_marker_at_the_tail_is_nothing_to_read(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition
    ) -> None:
        """E12: one offset of lag, for ever, and not one record."""
        transact(cluster, client, key, commits=True)
        group = new_name("group")
        commit(client, group, {key: 5})
        assert lag_of(client, group).total == 1
        assert first_of(client, key, 5) == FirstRecord(*key, 5, searched_to=6)
        assert first_offset(client, key, 4) == 4

    def test_an_aborted_tail_is_nothing_to_read_of_committed_records(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition
    ) -> None:
        """E11, E12, E15"""
        transact(cluster, client, key, commits=False)
        assert first_of(client, key, 3) == FirstRecord(*key, 3, searched_to=6)
        assert first_offset(client, key, 3, isolation_level=READ_UNCOMMITTED) == 3
        assert first_offset(client, key, 5, isolation_level=READ_UNCOMMITTED) is None

    def test_committed_records_after_aborted_ones_are_found(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition
    ) -> None:
        """E11"""
        transact(cluster, client, key, commits=False)
        transact(cluster, client, key, commits=True)
        assert [first_offset(client, key, each) for each in range(3, 9)] == [6, 6, 6, 6, 7, None]

    def test_records_of_an_open_transaction_are_not_there_yet(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition
    ) -> None:
        """E13: whatever others write after it."""
        with transactional_producer(cluster) as producer:
            send(producer, key.topic)
            produce(cluster, key.topic, count=2)
            assert first_of(client, key, 3) == FirstRecord(*key, 3, searched_to=3)
            assert first_of(client, key, 5) == FirstRecord(*key, 5, searched_to=3)
            assert first_offset(client, key, 3, isolation_level=READ_UNCOMMITTED) == 3
            producer.commit_transaction()
        wait_until_decided(client, key)
        assert first_offset(client, key, 3) == 3


class TestInstant:
    def test_that_a_marker_matches_has_the_record_that_is_really_as_late(
        self, cluster: KafkaCluster, client: OffsetsClient
    ) -> None:
        """E41: the marker is stamped with the broker's clock, however old the records before and after it are."""
        key = TopicPartition(new_topic(cluster), 0)
        transact(cluster, client, key, commits=True, timestamps=[T0, T0 + 1])
        produce(cluster, key.topic, timestamps=[T0 + 2, T0 + HOUR_MS])
        (matched,) = client.list_offsets([key], OffsetSpec.at(T0 + HOUR_MS))
        assert matched.offset == 2
        found = first_of(client, key, 2, at_or_after_ms=T0 + HOUR_MS)
        assert found == FirstRecord(*key, 2, 4, T0 + HOUR_MS)
        assert first_of(client, key, 2) == FirstRecord(*key, 2, 3, T0 + 2)
        assert first_of(client, key, 2, at_or_after_ms=T0 + HOUR_MS + 1) == FirstRecord(*key, 2, searched_to=5)

    def test_on_a_log_append_time_topic_is_the_brokers(self, cluster: KafkaCluster, client: OffsetsClient) -> None:
        key = TopicPartition(new_topic(cluster, config={"message.timestamp.type": "LogAppendTime"}), 0)
        before = int(time.time() * 1000) - 1
        produce(cluster, key.topic, timestamps=[T0, T0])
        found = first_of(client, key, 0)
        (listed,) = client.list_offsets([key], OffsetSpec.at(before))
        assert (found.offset, found.timestamp_ms) == (listed.offset, listed.timestamp_ms) == (0, found.timestamp_ms)
        assert found.timestamp_ms is not None
        assert found.timestamp_ms >= before
        assert first_offset(client, key, 0, at_or_after_ms=found.timestamp_ms + HOUR_MS) is None


class TestStoredBatches:
    def test_that_are_compressed_are_read(self, cluster: KafkaCluster, client: OffsetsClient) -> None:
        key = TopicPartition(new_topic(cluster), 0)
        with closing(
            connect(KafkaProducer, bootstrap_servers=cluster.bootstrap_servers, compression_type="gzip", linger_ms=1000)
        ) as producer:
            sent = [
                producer.send(key.topic, b"value" * 100, partition=0, timestamp_ms=T0 + number) for number in range(50)
            ]
            producer.flush()
            assert [each.get(timeout=PATIENCE_S).offset for each in sent] == list(range(50))
        assert first_of(client, key, 31) == FirstRecord(*key, 31, 31, T0 + 31)
        assert first_of(client, key, 0, at_or_after_ms=T0 + 40) == FirstRecord(*key, 0, 40, T0 + 40)

    def test_that_were_compacted_have_gaps(self, cluster: KafkaCluster, client: OffsetsClient) -> None:
        """E11"""
        key = TopicPartition(new_compacted_topic(cluster), 0)

        def agree() -> bool:
            """The cleaner may come again between the two reads."""
            kept = [(each.offset, each.timestamp) for each in records(cluster, key.topic) if each.offset >= 3]
            found = first_of(client, key, 3)
            return kept[0] == (found.offset, found.timestamp_ms)

        wait_until(agree, "a reader of everything has the same record first")

    def test_that_are_larger_than_the_first_read_are_found_on_every_partition(
        self, cluster: KafkaCluster, client: OffsetsClient
    ) -> None:
        """A broker sends a large batch of one partition only, unless more is asked for."""
        topic = new_topic(cluster, 9)
        with closing(
            connect(KafkaProducer, bootstrap_servers=cluster.bootstrap_servers, max_request_size=1 << 20)
        ) as producer:
            for partition in range(9):
                producer.send(topic, b"v" * 900_000, partition=partition, timestamp_ms=T0).get(timeout=PATIENCE_S)
        found = client.first_records([ReadPosition(topic, number, 0) for number in range(9)])
        assert [(each.offset, each.timestamp_ms) for each in found.raise_for_errors()] == [(0, T0)] * 9


class TestSeveralPositions:
    def test_of_a_partition_each_have_their_own_answer(
        self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition
    ) -> None:
        """As many groups as there are, each with its commit."""
        transact(cluster, client, key, commits=False)
        produce(cluster, key.topic)
        positions = [ReadPosition(*key, offset) for offset in range(12)]
        found = client.first_records([*positions, *positions]).raise_for_errors()
        assert [each.offset for each in found] == [0, 1, 2, 6, 6, 6, 6, *[None] * 5]
        assert list(map(found.key, found)) == positions

    def test_on_three_leaders_are_asked_for_in_three_requests(
        self, cluster: KafkaCluster, polling: OffsetsClient
    ) -> None:
        topic = new_topic(cluster, replicas=[[1], [2], [3]] * 2)
        for partition in range(6):
            produce(cluster, topic, partition, count=2)
        polling.partitions_of([topic])
        before = fetches(cluster)
        found = polling.first_records([ReadPosition(topic, number, 1) for number in range(6)])
        assert [each.offset for each in found.raise_for_errors()] == [1] * 6
        assert fetches(cluster) - before == 3


class TestErrors:
    def test_are_those_of_their_position_alone(self, client: OffsetsClient, key: TopicPartition) -> None:
        """E25"""
        unknown = [ReadPosition(key.topic, 7, 0), ReadPosition(new_name("zzz"), 0, 0)]
        found = client.first_records([ReadPosition(*key, 1), *unknown])
        assert error_names(found) == [None, "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION"]
        assert [each.offset for each in found] == [1, None, None]
        assert found.failures()[0][0] == f"offset 0 of {key.topic}-7"

    def test_of_a_topic_that_may_be_described_and_not_read_say_so(self, guarded_broker: Broker) -> None:
        """E32: listing offsets needs Describe, reading a record needs Read."""
        shown, readable = new_topic(guarded_broker), new_topic(guarded_broker)
        for name, may in ((shown, ACLOperation.DESCRIBE), (readable, ACLOperation.READ)):
            produce(guarded_broker, name, count=2)
            allow(guarded_broker, "alice", (ResourceType.TOPIC, name), may=may)
        with login(guarded_broker) as alice:
            wait_until(lambda: not len(alice.topics([shown, readable]).errors()), "the ACLs are in force")
            found = alice.first_records([ReadPosition(shown, 0, 1), ReadPosition(readable, 0, 1)])
        errors = {each.topic: error_names([each]) for each in found}
        assert errors == {shown: ["TOPIC_AUTHORIZATION_FAILED"], readable: [None]}


class TestMemory:
    """What one poll has read, the next doesn't read again."""

    @pytest.fixture
    def tail(self, cluster: KafkaCluster, client: OffsetsClient, key: TopicPartition) -> TopicPartition:
        """Aborted records from offset 3 on, 6 is the end."""
        transact(cluster, client, key, commits=False)
        return key

    def asked(self, cluster: KafkaCluster, client: OffsetsClient, positions: Mapping[TopicPartition, int]) -> list[Any]:
        """Offsets found, and the number of requests that it took."""
        before = fetches(cluster)
        found = client.first_records(
            [ReadPosition(*key, offset) for key, offset in positions.items()]
        ).raise_for_errors()
        return [*[each.offset for each in found], fetches(cluster) - before]

    def test_of_none_lets_the_search_go_on_at_the_end(
        self, cluster: KafkaCluster, polling: OffsetsClient, tail: TopicPartition
    ) -> None:
        assert self.asked(cluster, polling, {tail: 3}) == [None, 1]
        produce(cluster, tail.topic)
        assert self.asked(cluster, polling, {tail: 3}) == [6, 1]
        assert self.asked(cluster, polling, {tail: 4}) == [6, 1]

    def test_is_one_for_each_question(
        self, cluster: KafkaCluster, polling: OffsetsClient, tail: TopicPartition
    ) -> None:
        """E15"""
        assert first_offset(polling, tail, 3) is None
        assert first_offset(polling, tail, 3, isolation_level=READ_UNCOMMITTED) == 3
        assert first_offset(polling, tail, 0) == 0
        assert first_offset(polling, tail, 0, at_or_after_ms=T0 * 2) is None
