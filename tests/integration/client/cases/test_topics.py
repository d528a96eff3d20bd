"""Topics that are not what they were: re-created, grown, deleted, without a leader."""

from __future__ import annotations

import time

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.lag import LagStatus
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import (
    T0,
    admin_of,
    commit,
    commits_of,
    connected_client,
    error_names,
    lag_of,
    new_name,
    new_topic,
    produce,
    wait_until_known,
)
from tests.patience import GRACE_S, wait_until


class TestRecreatedTopic:
    """E24: another topic under the same name, and smaller."""

    @pytest.fixture
    def old_id(self, cluster: KafkaCluster, client: OffsetsClient, topic: str, group: str) -> str:
        """The id that the topic had while it was larger, and a group read it."""
        new_topic(cluster, 2, name=topic)
        for partition in range(2):
            produce(cluster, topic, partition, 10)
        commit(client, group, {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 10})
        topic_id = client.topic_facts([topic])[topic].topic_id
        assert topic_id is not None
        with admin_of(cluster) as admin:
            admin.delete_topics([topic])
        wait_until_known(cluster, topic, 0)
        new_topic(cluster, 1, name=topic)
        return topic_id

    @pytest.fixture
    def topic(self) -> str:
        return new_name("recreated")

    @pytest.fixture
    def group(self, topic: str) -> str:
        return f"group-of-{topic}"

    def test_has_another_id(self, client: OffsetsClient, topic: str, old_id: str) -> None:
        """E24"""
        facts = client.topic_facts([topic])[topic]
        assert (facts.topic_id != old_id, facts.partition_count) == (True, 1)

    def test_has_no_commits_of_the_old_one_for_who_names_the_old_id(
        self, client: OffsetsClient, topic: str, group: str, old_id: str
    ) -> None:
        """E24: a commit on the old topic can't be taken for one on the new."""
        asked = [TopicPartition(topic, 0)]
        assert error_names(commits_of(client, group, asked, topic_ids={topic: old_id}).offsets) == ["UNKNOWN_TOPIC_ID"]

    def test_takes_no_commits_for_the_old_id(self, client: OffsetsClient, topic: str, group: str, old_id: str) -> None:
        """E24"""
        commits = CommittedOffsets([CommittedOffset(topic, 0, 5)])
        refused = client.commit_offsets(group, commits, topic_ids={topic: old_id})
        assert error_names(refused) == ["UNKNOWN_TOPIC_ID"]
        new_id = client.topic_facts([topic])[topic].topic_id
        assert new_id is not None
        client.commit_offsets(group, commits, topic_ids={topic: new_id}).raise_for_errors()
        (found,) = commits_of(client, group, [TopicPartition(topic, 0)], topic_ids={topic: new_id}).offsets
        assert found.offset == 5

    def test_never_shows_a_lag_of_zero_for_commits_on_the_old_one(
        self, client: OffsetsClient, topic: str, group: str, old_id: str
    ) -> None:
        """E24, E17: the coordinator forgets the old commits sooner or later; until then they are ahead of the log."""
        lag = lag_of(client, group, topics=[topic])
        statuses = {each.status for each in lag.partitions}
        assert statuses <= {LagStatus.AHEAD_OF_LOG, LagStatus.NO_COMMIT, LagStatus.UNKNOWN_GROUP}
        assert lag.partitions.lookup(topic, 1) is None


class TestAddedPartitions:
    def test_are_counted_from_their_log_start_by_a_client_that_knew_fewer(
        self, cluster: KafkaCluster, client: OffsetsClient
    ) -> None:
        """E23: also where nobody names the topics."""
        topic, group = new_topic(cluster), new_name("group")
        produce(cluster, topic, 0, 2)
        commit(client, group, {TopicPartition(topic, 0): 2})
        assert lag_of(client, group).total == 0
        with admin_of(cluster) as admin:
            admin.create_partitions({topic: 2})
        wait_until_known(cluster, topic, 2)
        produce(cluster, topic, 1, 3)
        for lag in (lag_of(client, group), lag_of(client, group, topics=[topic])):
            added = lag.partitions.lookup(topic, 1)
            assert added is not None
            assert (added.status, added.lag, lag.total) == (LagStatus.NO_COMMIT, 3, 3)


class TestDeletedTopic:
    def test_costs_its_own_commits_an_error(self, cluster: KafkaCluster, client: OffsetsClient) -> None:
        """E25: and the total is unknown, not smaller, for as long as the coordinator keeps the commits."""
        kept, gone, group = new_topic(cluster), new_topic(cluster), new_name("group")
        commit(client, group, {TopicPartition(kept, 0): 0, TopicPartition(gone, 0): 0})
        with admin_of(cluster) as admin:
            admin.delete_topics([gone])
        wait_until_known(cluster, gone, 0)
        lag = lag_of(client, group)
        good = lag.partitions.lookup(kept, 0)
        assert good is not None
        assert (good.status, good.lag) == (LagStatus.OK, 0)
        left = lag.partitions.of_topics([gone])
        assert error_names(left) == ["UNKNOWN_TOPIC_OR_PARTITION"] * len(left)
        assert lag.total == (None if len(left) else 0)


@pytest.mark.nightly("brokers that die; client/cases/test_failover.py kills leaders")
class TestLeaderlessPartition:
    def test_is_an_error_within_the_deadline_and_the_others_answer(self, cluster: KafkaCluster) -> None:
        """E26: its only replica is on a dead broker."""
        topic, group = new_topic(cluster, replicas=[[1], [2], [3]]), new_name("group")
        partitions = [TopicPartition(topic, number) for number in range(3)]
        dead = cluster.brokers[2]
        with connected_client(cluster.bootstrap_servers) as patient:
            commit(patient, group, dict.fromkeys(partitions, 0))
            dead.kill()
            wait_until(lambda: not _has_leader(cluster, topic, 2), "the dead broker leads nothing")
            assert len(commits_of(patient, group).offsets.ok()) == 3, "the group has a coordinator"
        with connected_client(cluster.bootstrap_servers, timeout_s=4) as client:
            started = time.monotonic()
            listed = client.list_offsets(partitions, OffsetSpec.LATEST)
            assert time.monotonic() - started < 4 + GRACE_S
            assert [each.offset for each in listed] == [0, 0, None]
            assert error_names(listed) == [None, None, "LEADER_NOT_AVAILABLE"]
            lag = lag_of(client, group, topics=[topic])
            assert [each.lag for each in lag.partitions] == [0, 0, None]
            assert lag.total is None
            with connected_client(cluster.bootstrap_servers, timeout_s=3) as hasty:
                found = hasty.look_up(hasty.survey([topic]), [T0, T0 + 1])
            for each in found.values():
                assert error_names(each) == [None, None, "LEADER_NOT_AVAILABLE"]
            cluster.heal()
            wait_until(lambda: _has_leader(cluster, topic, 2), "the broker leads again")
            assert len(client.list_offsets(partitions, OffsetSpec.LATEST).errors()) == 0


def _has_leader(cluster: KafkaCluster, topic: str, partition: int) -> bool:
    try:
        cluster.leader(topic, partition)
    except LookupError:
        return False
    return True
