"""Groups that look alike to OffsetFetch and aren't: unknown, empty, without commits, classic, KIP-848, abandoned."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from confluent_kafka import Consumer
from kafka import TopicPartition as KafkaPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.errors import CommitRefusedError, OffsetsError
from airflow_kafka_offsets.offsets.answers.groups import EMPTY, CommittedOffset, CommittedOffsets, GroupKind
from airflow_kafka_offsets.offsets.lag import LagStatus
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import (
    Kafka,
    admin_of,
    commit,
    commits_of,
    description_of,
    lag_of,
    new_name,
    new_topic,
    produce,
    wait_until_known,
)
from tests.patience import PATIENCE_S, wait_until

Protocol = Literal["classic", "consumer"]
BOTH_PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@contextmanager
def member(kafka: Kafka, group: str, topics: Sequence[str], protocol: Protocol) -> Iterator[Any]:
    """An active member of a group that has read nothing and commits nothing by itself.

    :param protocol: ``consumer`` for a KIP-848 group.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": f"{protocol}-member",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe(list(topics))
        deadline = time.monotonic() + PATIENCE_S
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(0.1)
        assert consumer.assignment()
        yield consumer
    finally:
        consumer.close()


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """Two partitions of ten records each."""
    name = new_topic(cluster, 2)
    for partition in range(2):
        produce(cluster, name, partition, 10)
    return name


@pytest.fixture
def partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, 0), TopicPartition(topic, 1)]


class TestUnknownGroup:
    def test_is_known_by_its_description_alone(
        self, client: OffsetsClient, group: str, partitions: list[TopicPartition]
    ) -> None:
        """E19: to OffsetFetch it is a group that has committed nothing."""
        commits = commits_of(client, group, partitions)
        assert [each.offset for each in commits.offsets] == [None, None]
        assert not commits.has_commits
        described = description_of(client, group)
        assert (described.no_such_group, described.kind, described.error) == (True, None, None)
        assert (lag_of(client, group).no_such_group, lag_of(client, group).total) == (True, None)

    def test_costs_the_groups_beside_it_nothing(
        self, client: OffsetsClient, group: str, partitions: list[TopicPartition]
    ) -> None:
        """E19"""
        commit(client, group, dict.fromkeys(partitions, 4))
        lags = client.group_lags([group, f"{group}-misspelt"])
        assert {each.group: each.total for each in lags} == {group: 12, f"{group}-misspelt": None}
        assert [each.group for each in client.describe_groups([group, "no-such"]) if each.no_such_group] == ["no-such"]


class TestEmptyGroup:
    @BOTH_PROTOCOLS
    def test_is_measured_after_its_members_have_left(
        self,
        cluster: KafkaCluster,
        client: OffsetsClient,
        topic: str,
        group: str,
        partitions: list[TopicPartition],
        protocol: Protocol,
    ) -> None:
        """E21, E33: commits and no members; also a KIP-848 group, which an administrator may write to now."""
        with member(cluster, group, [topic], protocol):
            pass
        wait_until(lambda: description_of(client, group).state == EMPTY, "the group is empty")
        commit(client, group, {partitions[0]: 4, partitions[1]: 10})
        described = description_of(client, group)
        assert (described.state, described.members) == (EMPTY, ())
        assert described.kind is GroupKind(protocol)
        lag = lag_of(client, group)
        assert (lag.no_such_group, lag.total) == (False, 6)


class TestGroupWithMembers:
    @BOTH_PROTOCOLS
    def test_is_listed_and_described_with_who_reads_what(
        self,
        cluster: KafkaCluster,
        client: OffsetsClient,
        topic: str,
        group: str,
        partitions: list[TopicPartition],
        protocol: Protocol,
    ) -> None:
        """E33: whichever protocol its members speak."""
        with member(cluster, group, [topic], protocol):
            wait_until(lambda: description_of(client, group).assignment() == partitions, "the member has both")
            described = description_of(client, group)
            assert (described.kind, described.state) == (GroupKind(protocol), "Stable")
            assert described.protocol_type == "consumer"
            (found,) = described.members
            assert (found.client_id, found.topics) == (f"{protocol}-member", (topic,))
            assert found.assignment == tuple(partitions)
            assert group in client.all_groups()
        wait_until(lambda: not description_of(client, group).members, "the member has left")

    @BOTH_PROTOCOLS
    def test_and_without_commits_counts_from_the_log_starts(
        self, cluster: KafkaCluster, client: OffsetsClient, topic: str, group: str, protocol: Protocol
    ) -> None:
        """E18, E33: on all partitions of what its members read."""
        with member(cluster, group, [topic], protocol):
            lag = lag_of(client, group)
            assert [each.status for each in lag.partitions] == [LagStatus.NO_COMMIT] * 2
            assert (lag.no_such_group, lag.total) == (False, 20)

    @BOTH_PROTOCOLS
    def test_and_nothing_to_read_is_done(
        self, cluster: KafkaCluster, client: OffsetsClient, protocol: Protocol
    ) -> None:
        """E38: an idle consumer never commits; an empty log is no lag, and the status says that there is no commit."""
        empty, group = new_topic(cluster), new_name("group")
        with member(cluster, group, [empty], protocol):
            (lag,) = lag_of(client, group).partitions
            assert (lag.status, lag.lag, lag.committed_offset) == (LagStatus.NO_COMMIT, 0, None)

    @BOTH_PROTOCOLS
    def test_is_refused_to_strangers(
        self,
        cluster: KafkaCluster,
        client: OffsetsClient,
        topic: str,
        group: str,
        partitions: list[TopicPartition],
        protocol: Protocol,
    ) -> None:
        """E33: its commits are its members', and stay as they are."""
        with member(cluster, group, [topic], protocol) as consumer:
            with pytest.raises(CommitRefusedError, match="has active members"):
                commit(client, group, {partitions[0]: 3})
            assert [each.offset for each in commits_of(client, group, partitions).offsets] == [None, None]
            assert consumer.assignment()


def forget(cluster: KafkaCluster, group: str, partitions: Sequence[TopicPartition]) -> None:
    """Delete commits."""
    with admin_of(cluster) as admin:
        admin.delete_group_offsets(group, [KafkaPartition(*each) for each in partitions])


class TestForgottenCommits:
    def test_count_from_the_log_start_again(
        self, cluster: KafkaCluster, client: OffsetsClient, group: str, partitions: list[TopicPartition]
    ) -> None:
        """E20: as after they expired: never 0."""
        commit(client, group, dict.fromkeys(partitions, 10))
        assert lag_of(client, group).total == 0
        forget(cluster, group, partitions[:1])
        assert [each.offset for each in commits_of(client, group, partitions).offsets] == [None, 10]
        forgotten, kept = lag_of(client, group).partitions
        assert (forgotten.status, forgotten.lag) == (LagStatus.NO_COMMIT, 10)
        assert (kept.status, kept.lag) == (LagStatus.OK, 0)

    def test_leave_a_group_without_a_lag_when_they_were_all(
        self, cluster: KafkaCluster, client: OffsetsClient, group: str, topic: str, partitions: list[TopicPartition]
    ) -> None:
        """E20: the group is there, empty, and nobody knows what it reads; never a lag of 0 over no partitions."""
        commit(client, group, dict.fromkeys(partitions, 10))
        forget(cluster, group, partitions)
        assert description_of(client, group).state == EMPTY
        lag = lag_of(client, group)
        assert (lag.no_such_group, lag.never_committed, lag.total) == (False, True, None)
        named = lag_of(client, group, topics=[topic])
        assert ({each.status for each in named.partitions}, named.total) == ({LagStatus.NO_COMMIT}, 20)


class TestAbandonedTopics:
    @BOTH_PROTOCOLS
    def test_count_unless_the_topics_are_named(
        self, cluster: KafkaCluster, client: OffsetsClient, topic: str, group: str, protocol: Protocol
    ) -> None:
        """E22: the group has read one topic in the past and reads another one now."""
        abandoned = new_topic(cluster)
        produce(cluster, abandoned, count=5)
        commit(client, group, {TopicPartition(abandoned, 0): 2, TopicPartition(topic, 0): 10})
        with member(cluster, group, [topic], protocol):
            assert lag_of(client, group).total == 3 + 0 + 10
            assert lag_of(client, group, topics=[topic]).total == 0 + 10
            assert {each.topic for each in description_of(client, group).assignment()} == {topic}
            forget(cluster, group, [TopicPartition(abandoned, 0)])
            assert lag_of(client, group).partitions.topics() == [topic]

    def test_that_were_deleted_cost_an_error_and_nothing_else(
        self, cluster: KafkaCluster, client: OffsetsClient, topic: str, group: str
    ) -> None:
        """E25: a KIP-848 group that still reads the rest. Whether all is read nobody can say, so no wait is over."""
        gone = new_topic(cluster)
        commit(client, group, {TopicPartition(gone, 0): 0, TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 4})
        with member(cluster, group, [topic, gone], "consumer"):
            with admin_of(cluster) as admin:
                admin.delete_topics([gone])
            wait_until_known(cluster, gone, 0)
            lag = lag_of(client, group)
            assert [each.lag for each in lag.partitions.of_topics([topic])] == [6, 6]
            assert {each.status for each in lag.partitions.of_topics([gone])} <= {LagStatus.ERROR}
            assert lag.total is None
            with pytest.raises(
                OffsetsError, match=f"{gone}.*UNKNOWN_TOPIC_OR_PARTITION|UNKNOWN_TOPIC_OR_PARTITION.*{gone}"
            ):
                GroupsCaughtUp((group,), max_lag=100).check(client)


class TestCommittedEpoch:
    def test_is_what_was_committed_or_none(
        self, client: OffsetsClient, group: str, partitions: list[TopicPartition]
    ) -> None:
        """E34: an offset is written with the epoch that came with it, or with none; never with an older one."""
        listed = client.list_offsets(partitions[:1], OffsetSpec.LATEST).raise_for_errors()
        commits = [CommittedOffset(*partitions[0], each.offset, each.leader_epoch) for each in listed]
        commits += [CommittedOffset(*partitions[1], 3)]
        client.commit_offsets(group, CommittedOffsets(commits)).raise_for_errors()
        (known, unknown) = commits_of(client, group).offsets
        assert (known.offset, known.leader_epoch) == (10, 0)
        assert (unknown.offset, unknown.leader_epoch) == (3, None)
