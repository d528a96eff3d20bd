"""Kafka 3.9 with ZooKeeper: what Kafka 4 dropped, and that everything else works there too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.groups import EMPTY, GroupKind
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import SegmentOffsets
from airflow_kafka_offsets.offsets.lag import LagStatus
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from dev import raw_client
from dev.cluster import KafkaCluster
from dev.zookeeper_broker import ZooKeeperBroker
from tests.integration.client.cases.workload import (
    HOUR_MS,
    T0,
    commit,
    commits_of,
    connected_client,
    description_of,
    error_names,
    group_member,
    lag_of,
    new_topic,
    produce,
    send,
    transactional_producer,
)
from tests.patience import wait_until


@pytest.fixture(scope="module")
def client(old_broker: ZooKeeperBroker) -> Iterator[OffsetsClient]:
    with connected_client(old_broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture(scope="module")
def topic(old_broker: ZooKeeperBroker) -> str:
    """Two partitions: ten records an hour apart, about three to a segment; and none."""
    name = new_topic(old_broker, 2, config={"segment.bytes": "250"})
    produce(old_broker, name, timestamps=[T0 + number * HOUR_MS for number in range(10)])
    return name


def segments_of(client: OffsetsClient, topic: str, *options: OffsetSpec, **limits: int) -> tuple[int, ...]:
    (found,) = client.segment_offsets([TopicPartition(topic, 0)], *options, **limits).raise_for_errors()
    return found.offsets


def segment_files(broker: ZooKeeperBroker, topic: str) -> list[int]:
    """First offsets of the segments on the broker's disk, newest first."""
    folder = broker.data_folder / "log" / f"{topic}-0"
    return sorted((int(each.stem) for each in folder.glob("*.log")), reverse=True)


class TestSegmentOffsets:
    def test_are_the_log_end_and_the_starts_of_the_segments_on_disk(
        self, old_broker: ZooKeeperBroker, client: OffsetsClient, topic: str
    ) -> None:
        on_disk = segment_files(old_broker, topic)
        assert len(on_disk) > 2
        assert list(segments_of(client, topic)) == [10, *on_disk]

    def test_are_cut_to_the_newest(self, old_broker: ZooKeeperBroker, client: OffsetsClient, topic: str) -> None:
        assert segments_of(client, topic, max_offsets=2) == (10, segment_files(old_broker, topic)[0])

    def test_of_the_earliest_are_the_log_start(self, client: OffsetsClient, topic: str) -> None:
        assert segments_of(client, topic, OffsetSpec.EARLIEST) == (0,)

    def test_before_an_instant_are_of_segments_written_before_it(self, client: OffsetsClient, topic: str) -> None:
        """By the time of writing, not by the records' stamps: these were written after 2025, all of them."""
        assert segments_of(client, topic, OffsetSpec.at(T0 + 100 * HOUR_MS)) == ()
        assert segments_of(client, topic, OffsetSpec.at(T0 * 2)) == segments_of(client, topic)

    def test_of_an_empty_log_are_its_start(self, client: OffsetsClient, topic: str) -> None:
        assert list(client.segment_offsets([TopicPartition(topic, 1)])) == [SegmentOffsets(topic, 1, (0,))]

    def test_of_an_unknown_partition_are_its_own_error(self, client: OffsetsClient, topic: str) -> None:
        answered = client.segment_offsets([TopicPartition(topic, 0), TopicPartition(topic, 9)])
        assert error_names(answered) == [None, "UNKNOWN_TOPIC_OR_PARTITION"]

    def test_are_errors_of_their_partitions_on_kafka_4(self, cluster: KafkaCluster) -> None:
        name = new_topic(cluster, 2)
        with connected_client(cluster.bootstrap_servers) as newer:
            assert error_names(newer.segment_offsets(newer.partitions_of([name]))) == ["UNSUPPORTED_VERSION"] * 2


class TestOffsetsInZooKeeper:
    def test_are_read_where_old_consumers_left_them(
        self, old_broker: ZooKeeperBroker, client: OffsetsClient, topic: str, group: str
    ) -> None:
        """A partition without a commit has none, and one that doesn't exist is an error, though the broker says
        UNKNOWN_TOPIC_OR_PARTITION of both.
        """
        commit_to_zookeeper(old_broker, group, topic, 7)
        asked = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 9)]
        found = client.zookeeper_offsets(group, asked)
        assert found.error is None
        assert [each.offset for each in found.offsets] == [7, None, None]
        assert error_names(found.offsets) == [None, None, "UNKNOWN_TOPIC_OR_PARTITION"]

    def test_are_other_commits_than_kafkas_own(
        self, old_broker: ZooKeeperBroker, client: OffsetsClient, topic: str, group: str
    ) -> None:
        key = TopicPartition(topic, 0)
        commit_to_zookeeper(old_broker, group, topic, 7)
        assert not commits_of(client, group, [key]).has_commits
        commit(client, group, {key: 3})
        assert [each.offset for each in commits_of(client, group, [key]).offsets] == [3]
        assert [each.offset for each in client.zookeeper_offsets(group, [key]).offsets] == [7]

    def test_of_a_group_that_left_none_are_no_commits(self, client: OffsetsClient, topic: str, group: str) -> None:
        """E19: whether there is such a group can't be told."""
        found = client.zookeeper_offsets(group, [TopicPartition(topic, 0)])
        assert (found.error, found.has_commits) == (None, False)

    def test_are_the_groups_error_on_kafka_4(self, cluster: KafkaCluster, group: str) -> None:
        name = new_topic(cluster)
        with connected_client(cluster.bootstrap_servers) as newer:
            found = newer.zookeeper_offsets(group, [TopicPartition(name, 0)])
        assert error_names([found]) == ["UNSUPPORTED_VERSION"]
        assert found.has_commits, "there may be some: nobody could say"


class TestEverythingElse:
    def test_offsets_are_listed_by_every_spec(self, client: OffsetsClient, topic: str) -> None:
        """E1: with the reason why there is none."""
        keys = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        expected: dict[OffsetSpec, list[tuple[ListOutcome, int | None]]] = {
            OffsetSpec.LATEST: [(ListOutcome.FOUND, 10), (ListOutcome.FOUND, 0)],
            OffsetSpec.EARLIEST: [(ListOutcome.FOUND, 0), (ListOutcome.FOUND, 0)],
            OffsetSpec.EARLIEST_LOCAL: [(ListOutcome.FOUND, 0), (ListOutcome.FOUND, 0)],
            OffsetSpec.LATEST_TIERED: [(ListOutcome.NO_RECORD, None)] * 2,
            OffsetSpec.MAX_TIMESTAMP: [(ListOutcome.FOUND, 9), (ListOutcome.NO_RECORD, None)],
            OffsetSpec.at(T0 + HOUR_MS): [(ListOutcome.FOUND, 1), (ListOutcome.EMPTY_LOG, None)],
            OffsetSpec.at(T0 + 10 * HOUR_MS): [(ListOutcome.ALL_OLDER, None), (ListOutcome.EMPTY_LOG, None)],
        }
        for spec, answers in expected.items():
            assert [(each.outcome, each.offset) for each in client.list_offsets(keys, spec)] == answers, spec

    def test_an_open_transaction_ends_the_log(self, old_broker: ZooKeeperBroker, client: OffsetsClient) -> None:
        """E13"""
        key = TopicPartition(new_topic(old_broker), 0)
        produce(old_broker, key.topic, count=2)
        with transactional_producer(old_broker) as producer:
            send(producer, key.topic)
            (extent,) = client.log_extents([key]).raise_for_errors()
            assert (extent.last_stable_offset, extent.high_watermark) == (2, 3)
            (found,) = client.producers([key]).raise_for_errors()
            assert [each.transaction_start_offset for each in found.open_transactions] == [2]
        wait_until(lambda: not next(iter(client.producers([key]))).open_transactions, "the transaction is aborted")

    def test_lag_is_measured(self, client: OffsetsClient, topic: str, group: str) -> None:
        """E18"""
        commit(client, group, {TopicPartition(topic, 0): 4})
        for lag in (lag_of(client, group), lag_of(client, group, isolation_level=IsolationLevel.READ_UNCOMMITTED)):
            assert [(each.status, each.lag) for each in lag.partitions] == [
                (LagStatus.OK, 6),
                (LagStatus.NO_COMMIT, 0),
            ]

    def test_an_unknown_group_is_told_from_an_empty_one(self, client: OffsetsClient, topic: str, group: str) -> None:
        """E19, E21: where DescribeGroups has no version 6, and calls it Dead."""
        commit(client, group, {TopicPartition(topic, 0): 4})
        empty, unknown = description_of(client, group), description_of(client, f"{group}-misspelt")
        assert (empty.state, empty.kind, empty.no_such_group) == (EMPTY, GroupKind.CLASSIC, False)
        assert (unknown.no_such_group, unknown.error) == (True, None)
        assert lag_of(client, f"{group}-misspelt").no_such_group

    def test_members_are_described(
        self, old_broker: ZooKeeperBroker, client: OffsetsClient, topic: str, group: str
    ) -> None:
        """E33: classic ones, as there are no others."""
        with group_member(old_broker, group, [topic]):
            described = description_of(client, group)
            assert described.state == "Stable"
            assert described.assignment() == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
            assert group in client.all_groups()

    def test_topic_ids_are_told_and_not_asked_for(self, client: OffsetsClient, topic: str, group: str) -> None:
        """E24: OffsetFetch takes ids from 4.1 on; before, the name alone decides, and the answer is the same."""
        key = TopicPartition(topic, 0)
        commit(client, group, {key: 4})
        ids = {topic: "00000000-0000-0000-0000-000000000001"}
        assert client.topic_facts([topic])[topic].topic_id is not None
        assert [each.offset for each in commits_of(client, group, [key], topic_ids=ids).offsets] == [4]


def commit_to_zookeeper(broker: ZooKeeperBroker, group: str, topic: str, offset: int) -> None:
    """Commit on partition 0 as consumers did before Kafka kept offsets itself."""
    topic_class = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_class = topic_class.OffsetCommitRequestPartition
    partition = partition_class(partition_index=0, committed_offset=offset, committed_metadata="")
    request: Any = OffsetCommitRequest(group_id=group, topics=[topic_class(name=topic, partitions=[partition])])
    with raw_client.connected(broker.bootstrap_servers) as connection:
        raw_client.send(connection, request, 0)
        answer = raw_client.receive(connection, OffsetCommitResponse, 0)
    assert answer.topics[0].partitions[0].error_code == 0
