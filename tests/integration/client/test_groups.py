"""Commits and lag on a real broker; ``cases/test_oracles.py`` measures them against Kafka's own tool."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from dev.kafka import Broker
from tests.integration.client.cases.workload import group_member
from tests.integration.conftest import MakeTopic, Produce


@pytest.fixture
def flights(topic: MakeTopic, produce: Produce) -> str:
    """Two partitions of ten records each."""
    name = topic(partitions=2)
    for partition in range(2):
        produce(name, partition, [(None, None, b"x")] * 10)
    return name


@pytest.fixture
def group(flights: str) -> str:
    return f"group-of-{flights}"


@pytest.fixture
def member(broker: Broker, flights: str, group: str) -> Iterator[KafkaConsumer]:
    """A consumer that is an active member of the group."""
    with group_member(broker, group, [flights], auto_offset_reset="earliest") as consumer:
        yield consumer


def commit(client: OffsetsClient, group: str, offsets: dict[TopicPartition, int]) -> None:
    commits = CommittedOffsets(CommittedOffset(*key, offset) for key, offset in offsets.items())
    client.commit_offsets(group, commits).raise_for_errors()


class TestCommits:
    def test_what_is_committed_is_read_back(self, client: OffsetsClient, flights: str, group: str) -> None:
        commits = CommittedOffsets(
            [CommittedOffset(flights, 0, 3, leader_epoch=0, metadata="by hand"), CommittedOffset(flights, 1, 7)]
        )
        assert list(client.commit_offsets(group, commits).raise_for_errors()) == list(commits)
        (read,) = client.committed_offsets({group: None}).raise_for_errors()
        assert read.offsets == commits

    def test_a_commit_on_an_unknown_topic_is_an_error_of_its_own(
        self, client: OffsetsClient, flights: str, group: str
    ) -> None:
        commits = CommittedOffsets([CommittedOffset(flights, 0, 3), CommittedOffset("no-such-topic", 0, 3)])
        written = client.commit_offsets(group, commits)
        assert written.ok().topics() == [flights]
        with pytest.raises(OffsetsError, match="Committing offsets failed for no-such-topic-0: UNKNOWN_TOPIC"):
            written.raise_for_errors()


class TestGroupsWithoutCommits:
    def test_named_topics_that_do_not_exist_are_refused(self, client: OffsetsClient) -> None:
        with pytest.raises(OffsetsError, match="topic no-such-topic: UNKNOWN_TOPIC_OR_PARTITION"):
            client.group_lags(["any"], topics=["no-such-topic"])


class TestAllGroups:
    def test_groups_that_only_commit_and_groups_with_members_are_listed(
        self, client: OffsetsClient, flights: str, group: str, member: KafkaConsumer
    ) -> None:
        commit(client, f"{group}-by-hand", {TopicPartition(flights, 0): 1})
        assert {group, f"{group}-by-hand"} <= set(client.all_groups())
