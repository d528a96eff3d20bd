"""Brokers that die while they are asked, and who comes after them: a right answer or a named error, and in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import pytest
from kafka import KafkaProducer

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.errors import ClusterUnreachableError, ConditionFailedError, KafkaOffsetsError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset
from airflow_kafka_offsets.offsets.answers.logs import LogEpoch
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.lag import LagStatus
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.pipelines.resetter import Resetter, Target
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import (
    commit,
    commits_of,
    connected_client,
    coordinator_id,
    delete_records,
    lag_of,
    latest,
    new_name,
    new_topic,
    produce,
)
from tests.integration.kafka_clients import connect
from tests.patience import GRACE_S, PATIENCE_S, wait_until

PASSING_ERRORS = {
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
}
"""What may be said of a partition whose leader is gone."""
LONG_S = 15.0
"""A group moves to its next coordinator in less."""


@dataclass
class Log:
    """What a producer has been told: the end of each partition's log is at least there."""

    acknowledged: dict[TopicPartition, int]
    stop: threading.Event = field(default_factory=threading.Event)

    def produce(self, servers: str) -> None:
        """A record to each partition in turn, until stopped; then wait for all of them."""
        with closing(connect(KafkaProducer, bootstrap_servers=servers, acks="all")) as producer:
            while not self.stop.wait(0.02):
                for each in self.acknowledged:
                    producer.send(each.topic, b"value", partition=each.partition).add_callback(self._note, each)
            producer.flush(PATIENCE_S)

    def _note(self, partition: TopicPartition, metadata: object) -> None:
        self.acknowledged[partition] = max(self.acknowledged[partition], metadata.offset + 1)  # type: ignore[attr-defined]


@dataclass
class Watch:
    """One client that lists offsets over and over.

    :ivar wrong: answers that are neither right nor a named error that may pass.
    :ivar errors: names of the errors.
    """

    timeout_s: float
    wrong: list[object] = field(default_factory=list)
    errors: set[str] = field(default_factory=set)
    calls: int = 0
    last: dict[TopicPartition, ListedOffset] = field(default_factory=dict)

    def run(self, servers: str, log: Log) -> None:
        with connected_client(servers, timeout_s=self.timeout_s) as client:
            while not log.stop.is_set():
                self._look(client, log)

    def _look(self, client: OffsetsClient, log: Log) -> None:
        floor = dict(log.acknowledged)
        started = time.monotonic()
        try:
            listed = latest(client, log.acknowledged)
        except ClusterUnreachableError as unreachable:
            self.errors.add(type(unreachable).__name__)
            return
        self.calls += 1
        if time.monotonic() - started > self.timeout_s + GRACE_S:
            self.wrong.append(f"a call took {time.monotonic() - started:.1f} s")
        if listed.partitions() != sorted(log.acknowledged):
            self.wrong.append(listed)
        for each in listed:
            self._judge(each, floor)

    def _judge(self, each: ListedOffset, floor: dict[TopicPartition, int]) -> None:
        key = TopicPartition(each.topic, each.partition)
        if each.error is not None:
            self.errors.add(each.error.name)
            if each.error.name not in PASSING_ERRORS or each.offset is not None:
                self.wrong.append(each)
            return
        before = self.last.get(key, each)
        goes_back = (each.leader_epoch or 0, each.offset or 0) < (before.leader_epoch or 0, before.offset or 0)
        if each.offset is None or each.offset < floor[key] or goes_back:
            self.wrong.append((each, before, floor[key]))
        self.last[key] = each


class TestKilledLeader:
    def test_is_followed_and_no_answer_is_wrong_meanwhile(self, cluster: KafkaCluster) -> None:
        """E26, E27, E28, E29: with records coming in, by a client with time to wait and by one without.

        Every offset is at or past all records that were acknowledged before it was asked for. One that comes from a
        leader too old or too new would be lower.
        """
        replicas = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        topic = new_topic(cluster, replicas=replicas, config={"min.insync.replicas": "2"})
        partitions = [TopicPartition(topic, number) for number in range(3)]
        log, patient, impatient = Log(dict.fromkeys(partitions, 0)), Watch(20), Watch(0.7)
        with ThreadPoolExecutor(3) as threads:
            jobs = [threads.submit(each.run, cluster.bootstrap_servers, log) for each in (patient, impatient)]
            jobs.append(threads.submit(log.produce, cluster.bootstrap_servers))
            try:
                wait_until(lambda: len(patient.last) == 3 and min(log.acknowledged.values()) > 10, "all is well")
                before = {key: each.leader_epoch or 0 for key, each in patient.last.items()}
                victim = cluster.leader(topic, 0)
                led = {each for each in partitions if cluster.leader(*each) is victim}
                victim.kill()
                wait_until(lambda: has_new_leaders(patient, before, led), "its partitions have new leaders")
                floor = max(log.acknowledged[each] for each in led)
                wait_until(lambda: min(log.acknowledged[each] for each in led) > floor + 5, "they take records")
            finally:
                log.stop.set()
            for each in jobs:
                each.result(PATIENCE_S)
        assert patient.wrong == impatient.wrong == []
        assert patient.errors == set(), "with enough time, the new leader is found"
        assert impatient.errors, "without, there is an error to be seen"
        with connected_client(cluster.bootstrap_servers) as client:
            listed = latest(client, partitions).raise_for_errors()
            assert {TopicPartition(*each[:2]): each.offset for each in listed} == log.acknowledged


def has_new_leaders(watch: Watch, before: dict[TopicPartition, int], led: Iterable[TopicPartition]) -> bool:
    return all((watch.last[each].leader_epoch or 0) > before[each] for each in led)


@pytest.mark.nightly("brokers that die; windows/cluster/test_leaders.py finds an unclean election")
class TestUncleanElection:
    def test_moves_the_end_back_and_a_commit_is_ahead_of_it(self, cluster: KafkaCluster) -> None:
        """E17, E34: records were lost with the leader. The epochs of commit and log say when, however the group was
        moved there.

        When the log has grown past its old end again, only the old epoch still ends where it was cut.
        """
        ahead, behind = cluster.brokers[0], cluster.brokers[1]
        config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        topic = new_topic(cluster, replicas=[[ahead.node_id, behind.node_id]], config=config)
        key, group = TopicPartition(topic, 0), new_name("group")
        produce(cluster, topic, count=3)
        wait_until(lambda: len(cluster.in_sync(topic, 0)) == 2, "both replicas are in sync")
        with connected_client(cluster.bootstrap_servers, timeout_s=30) as client:
            behind.kill()
            wait_until(lambda: cluster.in_sync(topic, 0) == {ahead.node_id}, "one replica is left")
            produce(cluster, topic, count=4)
            (old,) = latest(client, [key]).raise_for_errors()
            assert old.offset == 7
            commit_with_epoch(client, group, old)
            before = FixedOffsets.of("a window's end", [SeenOffset(*key, 6, old.leader_epoch)])
            moved = [moved_to(client, topic, each) for each in (OffsetSpec.LATEST, OffsetSpec.at(now_ms()), before)]
            ahead.kill()
            behind.launch()
            wait_until(lambda: cluster.leader(topic, 0) is behind, "the replica that was behind leads")
            (new,) = latest(client, [key]).raise_for_errors()
            assert new.offset == 3
            assert (new.leader_epoch or 0) > (old.leader_epoch or 0)
            lag = lag_of(client, group)
            (judged,) = lag.partitions
            assert (judged.status, judged.lag, lag.total) == (LagStatus.AHEAD_OF_LOG, None, None)
            assert (judged.committed_offset, judged.leader_epoch) == (7, old.leader_epoch)
            assert [judged_alone(client, each) for each in moved] == [LagStatus.AHEAD_OF_LOG] * 3
            assert produce(cluster, topic, count=6)[-1] == 8
            assert old.leader_epoch is not None
            (cut,) = client.epoch_ends([LogEpoch(*key, old.leader_epoch)]).values()
            assert (cut.leader_epoch, cut.end_offset) == (0, 3)
            assert [cut_at(client, key, each) for each in (group, *moved)] == [3] * 4, (
                "a consumer finds it by the epoch"
            )
            lag = lag_of(client, group)
            (judged,) = lag.partitions
            assert (judged.status, judged.lag, lag.total) == (LagStatus.LOG_TRUNCATED, None, None)
            assert [judged_alone(client, each) for each in moved] == [LagStatus.LOG_TRUNCATED] * 3
            with pytest.raises(
                ConditionFailedError, match=f"log of {topic}-0 was truncated below the commit of group {group}"
            ):
                GroupsCaughtUp((group,), max_lag=10**9).check(client)
            with pytest.raises(ConditionFailedError, match="was truncated below the commit"):
                OffsetsReached(group, FixedOffsets.of("target", [SeenOffset(*key, 5)])).check(client)
            delete_records(cluster, {key: 5})
            (forgotten,) = client.epoch_ends([LogEpoch(*key, 0)]).values()
            assert (forgotten.leader_epoch, forgotten.end_offset) == (0, 5), "where the oldest known epoch starts"


def moved_to(client: OffsetsClient, topic: str, target: Target) -> str:
    """A new group that was moved to the log's end, and then to a target."""
    group = new_name("group")
    resetter = Resetter(client, group, [topic], backwards=True)
    for each in (OffsetSpec.LATEST, target):
        resetter.execute(resetter.plan(each), new_group=True)
    return group


def cut_at(client: OffsetsClient, key: TopicPartition, group: str) -> int | None:
    """Where the epoch of a group's commit ends, which is below the commit."""
    (found,) = client.committed_offsets({group: [key]}).raise_for_errors()
    (commit,) = found.offsets
    assert commit.offset is not None
    assert commit.leader_epoch is not None
    (end,) = client.epoch_ends([LogEpoch(*key, commit.leader_epoch)]).values()
    assert (end.end_offset or 0) < commit.offset
    return end.end_offset


def judged_alone(client: OffsetsClient, group: str) -> LagStatus:
    (judged,) = lag_of(client, group).partitions
    return judged.status


def commit_with_epoch(client: OffsetsClient, group: str, listed: ListedOffset) -> None:
    commits = CommittedOffsets([CommittedOffset(listed.topic, listed.partition, listed.offset, listed.leader_epoch)])
    client.commit_offsets(group, commits).raise_for_errors()


@contextmanager
def others_commit(cluster: KafkaCluster, group: str, idle: TopicPartition) -> Iterator[None]:
    """If what follows takes long, the group commits to another partition meanwhile, over and over.

    A coordinator of Kafka 4.3 that has just taken over sometimes misses that the last commits were replicated. It then
    lets each OffsetFetch run into its own timeout, until the next commit in its partition of ``__consumer_offsets``.
    """
    ended = threading.Event()

    def commit_meanwhile() -> None:
        while not ended.wait(LONG_S):
            with suppress(KafkaOffsetsError), connected_client(cluster.bootstrap_servers) as client:
                commit(client, group, {idle: 0})

    with ThreadPoolExecutor(1) as threads:
        threads.submit(commit_meanwhile)
        try:
            yield
        finally:
            ended.set()


class TestKilledCoordinator:
    def test_is_followed_by_the_next_one_within_the_deadline(self, cluster: KafkaCluster) -> None:
        """E30: by a client that remembers the dead one, for reading and for writing."""
        topic, group = new_topic(cluster, replicas=[[1, 2, 3]] * 2), new_name("group")
        key, idle = TopicPartition(topic, 0), TopicPartition(topic, 1)
        with connected_client(cluster.bootstrap_servers, timeout_s=90) as client:
            commit(client, group, {key: 5})
            dead = cluster.brokers[coordinator_id(cluster, group) - 1]
            dead.kill()
            with others_commit(cluster, group, idle):
                found = commits_of(client, group, [key])
            assert (found.error, [each.offset for each in found.offsets]) == (None, [5])
            assert coordinator_id(cluster, group) != dead.node_id
            commit(client, group, {key: 6})
            assert [each.offset for each in commits_of(client, group, [key]).offsets] == [6]
