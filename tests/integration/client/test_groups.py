"""Commits and lag on a real broker; ``cases/test_oracles.py`` measures them against Kafka's own tool."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import CommitRefusedError, OffsetsError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, LagStatus
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


def lag_of(client: OffsetsClient, group: str, topics: list[str] | None = None) -> GroupLag:
    lag = client.group_lags([group], topics=topics, both_ends=True).lookup(group)
    assert lag is not None
    return lag


class TestCommits:
    def test_what_is_committed_is_read_back(self, client: OffsetsClient, flights: str, group: str) -> None:
        commits = CommittedOffsets(
            [CommittedOffset(flights, 0, 3, leader_epoch=0, metadata="by hand"), CommittedOffset(flights, 1, 7)]
        )
        assert list(client.commit_offsets(group, commits).raise_for_errors()) == list(commits)
        (read,) = client.committed_offsets({group: None}).raise_for_errors()
        assert read.offsets == commits

    def test_several_groups_are_read_in_one_call(self, client: OffsetsClient, flights: str, group: str) -> None:
        keys = [TopicPartition(flights, 0), TopicPartition(flights, 1)]
        groups = [f"{group}-{number}" for number in range(5)]
        for number, each in enumerate(groups):
            commit(client, each, {keys[0]: number})
        read = client.committed_offsets(dict.fromkeys(groups, keys)).raise_for_errors()
        assert [[one.offset for one in each.offsets] for each in read] == [[number, None] for number in range(5)]

    def test_a_commit_on_an_unknown_topic_is_an_error_of_its_own(
        self, client: OffsetsClient, flights: str, group: str
    ) -> None:
        commits = CommittedOffsets([CommittedOffset(flights, 0, 3), CommittedOffset("no-such-topic", 0, 3)])
        written = client.commit_offsets(group, commits)
        assert written.ok().topics() == [flights]
        with pytest.raises(OffsetsError, match="Committing offsets failed for no-such-topic-0: UNKNOWN_TOPIC"):
            written.raise_for_errors()

    def test_a_commit_that_is_to_be_deleted_on_an_unknown_topic_is_one_too(
        self, client: OffsetsClient, flights: str, group: str
    ) -> None:
        commit(client, group, {TopicPartition(flights, 0): 3})
        deleted = client.delete_offsets(group, [TopicPartition("no-such-topic", 0)])
        with pytest.raises(OffsetsError, match="Deleting committed offsets failed for no-such-topic-0: UNKNOWN_TOPIC"):
            deleted.raise_for_errors()

    def test_a_group_with_active_members_is_refused(
        self, client: OffsetsClient, flights: str, group: str, member: KafkaConsumer
    ) -> None:
        commits = CommittedOffsets([CommittedOffset(flights, 0, 3)])
        with pytest.raises(CommitRefusedError, match=r"has active members.*Stop its consumers"):
            client.commit_offsets(group, commits)
        assert client.committed_offsets({group: None}).lookup(group) is not None


class TestLag:
    def test_a_partition_without_a_commit_counts_from_the_log_start(
        self, client: OffsetsClient, flights: str, group: str
    ) -> None:
        """E18"""
        commit(client, group, {TopicPartition(flights, 0): 10})
        lag = lag_of(client, group)
        assert [(each.status, each.lag) for each in lag.partitions] == [(LagStatus.OK, 0), (LagStatus.NO_COMMIT, 10)]

    def test_deleted_records_are_counted_as_lost(
        self, client: OffsetsClient, admin: KafkaAdminClient, flights: str, group: str
    ) -> None:
        """E9"""
        from kafka import TopicPartition as KafkaPartition

        commit(client, group, {TopicPartition(flights, 0): 2, TopicPartition(flights, 1): 2})
        admin.delete_records({KafkaPartition(flights, 0): 6})
        below, ok = lag_of(client, group).partitions
        assert (below.status, below.lag, below.lost) == (LagStatus.BELOW_LOG_START, 8, 4)
        assert (ok.status, ok.lag) == (LagStatus.OK, 8)

    def test_a_commit_past_the_end_has_no_lag(self, client: OffsetsClient, flights: str, group: str) -> None:
        """E17"""
        commit(client, group, {TopicPartition(flights, 0): 99, TopicPartition(flights, 1): 10})
        lag = lag_of(client, group)
        assert lag.partitions.lookup(flights, 0).status is LagStatus.AHEAD_OF_LOG  # type: ignore[union-attr]
        assert lag.total is None

    def test_a_deleted_topic_is_an_error_of_its_partitions_only(
        self, client: OffsetsClient, broker: Broker, admin: KafkaAdminClient, topic: MakeTopic, flights: str, group: str
    ) -> None:
        """E25: also right after, while the client still believes it knows the leaders."""
        gone = topic()
        commit(
            client, group, {TopicPartition(flights, 0): 9, TopicPartition(flights, 1): 9, TopicPartition(gone, 0): 0}
        )
        assert lag_of(client, group).total == 2
        admin.delete_topics([gone])
        lag = lag_of(client, group)
        assert [each.lag for each in lag.partitions.ok()] == [1, 1]
        # The coordinator removes the commits of a deleted topic too, sooner or later (KAFKA-16168).
        assert {each.topic for each in lag.partitions.errors()} <= {gone}

    def test_an_empty_group_is_measured(self, client: OffsetsClient, flights: str, group: str) -> None:
        """E21"""
        commit(client, group, {TopicPartition(flights, 0): 4, TopicPartition(flights, 1): 4})
        assert lag_of(client, group).total == 12


class TestGroupsWithoutCommits:
    def test_an_unknown_group_is_unknown_and_has_no_total(self, client: OffsetsClient) -> None:
        """E19"""
        lag = lag_of(client, "no-such-group")
        assert (lag.no_such_group, lag.total) == (True, None)

    def test_an_unknown_group_has_a_row_for_each_partition_of_named_topics(
        self, client: OffsetsClient, flights: str
    ) -> None:
        lag = lag_of(client, "no-such-group", [flights])
        assert [each.status for each in lag.partitions] == [LagStatus.UNKNOWN_GROUP] * 2
        assert lag.total is None

    def test_a_group_that_never_committed_counts_named_topics_from_their_log_starts(
        self, client: OffsetsClient, flights: str, group: str, member: KafkaConsumer
    ) -> None:
        lag = lag_of(client, group, [flights])
        assert [each.status for each in lag.partitions] == [LagStatus.NO_COMMIT] * 2
        assert (lag.no_such_group, lag.total) == (False, 20)

    def test_a_group_that_never_committed_counts_what_its_members_read(
        self, client: OffsetsClient, flights: str, group: str, member: KafkaConsumer
    ) -> None:
        """E18: partitions are those with commits, those assigned, and all others of their topics."""
        lag = lag_of(client, group)
        assert [each.status for each in lag.partitions] == [LagStatus.NO_COMMIT] * 2
        assert (lag.no_such_group, lag.total) == (False, 20)

    def test_named_topics_that_do_not_exist_are_refused(self, client: OffsetsClient) -> None:
        with pytest.raises(OffsetsError, match="topic no-such-topic: UNKNOWN_TOPIC_OR_PARTITION"):
            client.group_lags(["any"], topics=["no-such-topic"])


class TestAllGroups:
    def test_groups_that_only_commit_and_groups_with_members_are_listed(
        self, client: OffsetsClient, flights: str, group: str, member: KafkaConsumer
    ) -> None:
        commit(client, f"{group}-by-hand", {TopicPartition(flights, 0): 1})
        assert {group, f"{group}-by-hand"} <= set(client.all_groups())
