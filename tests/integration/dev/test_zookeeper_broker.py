"""The broker that speaks what Kafka 4 has forgotten."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from dev.raw_client import api_versions, connected, receive, send
from dev.zookeeper_broker import ZooKeeperBroker
from tests.integration.client.cases.workload import new_topic, produce
from tests.integration.kafka_clients import connect

pytestmark = pytest.mark.nightly("a broker that make test does not need")

TOPIC = "old"
LATEST = -1


@pytest.fixture(scope="module", autouse=True)
def _three_records(old_broker: ZooKeeperBroker) -> None:
    """In a topic of one partition."""
    new_topic(old_broker, name=TOPIC)
    produce(old_broker, TOPIC, count=3)


class TestVersions:
    @pytest.mark.parametrize(
        ("request_class", "newest"),
        [(ListOffsetsRequest, 9), (OffsetFetchRequest, 9), (OffsetCommitRequest, 9)],
    )
    def test_reach_back_to_zero(self, old_broker: ZooKeeperBroker, request_class: Any, newest: int) -> None:
        with connected(old_broker.bootstrap_servers) as connection:
            spoken = {each.api_key: (each.min_version, each.max_version) for each in api_versions(connection).api_keys}
        assert spoken[request_class.API_KEY] == (0, newest)


class TestOffsetsInZooKeeper:
    def test_are_committed_and_fetched_by_version_0(self, old_broker: ZooKeeperBroker) -> None:
        assert _commit(old_broker, "old-group", 2, version=0) == 0
        assert _fetch(old_broker, "old-group", version=0) == 2

    def test_are_unknown_to_later_versions(self, old_broker: ZooKeeperBroker) -> None:
        _commit(old_broker, "older-group", 2, version=0)
        consumer = connect(KafkaConsumer, bootstrap_servers=old_broker.bootstrap_servers, group_id="older-group")
        with closing(consumer):
            assert consumer.committed(TopicPartition(TOPIC, 0)) is None


class TestSegmentOffsets:
    def test_version_0_lists_them_newest_first(self, old_broker: ZooKeeperBroker) -> None:
        topic_class = ListOffsetsRequest.ListOffsetsTopic
        partition = topic_class.ListOffsetsPartition(partition_index=0, timestamp=LATEST, max_num_offsets=10)
        request = ListOffsetsRequest(replica_id=-1, topics=[topic_class(name=TOPIC, partitions=[partition])])
        answer = _ask(old_broker, request, ListOffsetsResponse, version=0)
        assert answer.topics[0].partitions[0].old_style_offsets == [3, 0]


def _commit(broker: ZooKeeperBroker, group: str, offset: int, *, version: int) -> int:
    """The error code of a commit for partition 0."""
    topic_class = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_class = topic_class.OffsetCommitRequestPartition
    partition = partition_class(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(group_id=group, topics=[topic_class(name=TOPIC, partitions=[partition])])
    answer = _ask(broker, request, OffsetCommitResponse, version=version)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def _fetch(broker: ZooKeeperBroker, group: str, *, version: int) -> int:
    """The committed offset of partition 0; -1 for none."""
    topic_class = OffsetFetchRequest.OffsetFetchRequestTopic
    request = OffsetFetchRequest(group_id=group, topics=[topic_class(name=TOPIC, partition_indexes=[0])])
    answer = _ask(broker, request, OffsetFetchResponse, version=version)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def _ask(broker: ZooKeeperBroker, request: Any, response_class: Any, *, version: int) -> Any:
    with connected(broker.bootstrap_servers) as connection:
        send(connection, request, version)
        return receive(connection, response_class, version)
