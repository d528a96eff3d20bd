"""Faults while tasks wait on the triggerer: passing ones are survived, others told, and nothing passes wrongly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import replace
from typing import Any

import pytest
from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from dev.cluster import KafkaCluster
from dev.kafka import Broker
from tests.integration.airflow.conftest import FOR_EVER, T0_MS, sasl, use_connection
from tests.integration.airflow.waits.waits import INTERVAL_S, KINDS, Log, Triggerer, Waits, triggering, wait_for_lines
from tests.integration.client.cases.workload import admin_of, commit, connected_client, new_topic, produce
from tests.integration.conftest import USERS
from tests.patience import wait_until

UNHURRIED_S = 2.0
"""Between polls of waits that bear five bad ones: so long a busy machine may take to mend what a test has broken."""
CLIENT_TIMEOUT_S = 3.0

MakeWaits = Callable[..., Waits]


@pytest.fixture
def triggerer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Triggerer]:
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", str(CLIENT_TIMEOUT_S))
    with triggering() as one:
        yield one


@pytest.fixture
def waits(triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch) -> MakeWaits:
    """Makes waits on a log, by a connection to its cluster."""

    def make(log: Log, conn_id: str = "waits", **options: Any) -> Waits:
        use_connection(monkeypatch, conn_id, {"bootstrap.servers": log.kafka.bootstrap_servers})
        return Waits(triggerer, conn_id, log, **options)

    return make


class TestPermission:
    """E32: on the topic, for all four kinds of wait at once."""

    @pytest.fixture
    def log(self, broker: Broker) -> Log:
        return Log.on(broker)

    @pytest.fixture
    def as_alice(
        self, triggerer: Triggerer, broker: Broker, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[float], Waits]:
        use_connection(monkeypatch, "alice", sasl(broker, "alice", USERS["alice"]))

        def start(interval_s: float) -> Waits:
            waiting = Waits(triggerer, "alice", log, interval_s)
            waiting.start()
            waiting.are_polled()
            return waiting

        return start

    def take_away(self, log: Log) -> None:
        pattern = ResourcePattern(ResourceType.TOPIC, log.topic)
        with admin_of(log.kafka) as admin:
            admin.create_acls([ACL("User:alice", "*", ACLOperation.ALL, ACLPermissionType.DENY, pattern)])

    def give_back(self, log: Log) -> None:
        pattern = ResourcePattern(ResourceType.TOPIC, log.topic)
        with admin_of(log.kafka) as admin:
            admin.delete_acls([ACLFilter("User:alice", "*", ACLOperation.ALL, ACLPermissionType.DENY, pattern)])

    @pytest.mark.nightly("the test below takes a permission away")
    def test_that_is_taken_away_and_given_back_is_survived(
        self, log: Log, as_alice: Callable[[float], Waits], said: list[MutableMapping[str, Any]]
    ) -> None:
        waiting = as_alice(UNHURRIED_S)
        self.take_away(log)
        wait_for_lines(said, "Asking again", log.topic, "TOPIC_AUTHORIZATION_FAILED", count=len(KINDS))
        self.give_back(log)
        waiting.are_polled(1)
        assert waiting.have_ended() == {}
        log.come_true()
        assert waiting.all_pass()

    def test_that_is_taken_away_for_good_fails_the_task_after_five_polls(
        self, log: Log, as_alice: Callable[[float], Waits]
    ) -> None:
        waiting = as_alice(INTERVAL_S)
        self.take_away(log)
        taken_at = time.monotonic()
        ended = waiting.end()
        assert time.monotonic() - taken_at > 4 * INTERVAL_S
        for message in ended.values():
            assert f"{log.topic}: TOPIC_AUTHORIZATION_FAILED" in message


class TestTopic:
    @pytest.mark.nightly("waits for brokers; conditions' own tests have re-created topics")
    def test_that_is_deleted_and_made_again_is_waited_for_unless_the_target_belongs_to_the_old_one(
        self, broker: Broker, waits: MakeWaits, said: list[MutableMapping[str, Any]]
    ) -> None:
        """E24, E25: what is true of the new topic passes, and nothing in between."""
        log, kept = Log.on(broker), new_topic(broker)
        with connected_client(broker.bootstrap_servers) as client:
            commit(client, log.group, {TopicPartition(kept, 0): 0})  # by which the group outlives the topic
            (topic,) = client.topics([log.topic])
        wanted = log.conditions(topic.topic_id)
        waiting = waits(log, interval_s=UNHURRIED_S)
        waiting.start(**wanted | {"caught up": replace(wanted["caught up"], no_commit="wait")})  # type: ignore[type-var]
        waiting.are_polled()
        with admin_of(broker) as admin:
            admin.delete_topics([log.topic])
            wait_for_lines(said, "Asking again", log.topic, "UNKNOWN_TOPIC_OR_PARTITION", count=len(KINDS))
        assert waiting.have_ended() == {}
        new_topic(broker, name=log.topic, config=FOR_EVER)
        produce(broker, log.topic, timestamps=[T0_MS])
        waiting.are_polled(1)
        assert waiting.have_ended().keys() == {"reached", "new data"}
        log.commit(1)
        produce(broker, log.topic, timestamps=[T0_MS + 10_000])
        log.commit(2)
        ended = waiting.end()
        assert (ended.pop("caught up"), ended.pop("complete")) == ("done", "done")
        for message in ended.values():
            assert f"Topic {log.topic} was re-created" in message

    def test_that_gets_another_partition_has_not_been_read_before_that_is(
        self, broker: Broker, waits: MakeWaits
    ) -> None:
        """E23: for a group whose topics were not named, too."""
        log = Log.on(broker)
        waiting = waits(log)
        waiting.start(all_topics=GroupsCaughtUp((log.group,)), named=GroupsCaughtUp((log.group,), (log.topic,)))
        waiting.are_polled()
        with admin_of(broker) as admin:
            admin.create_partitions({log.topic: 2})
        wait_until(lambda: produce(broker, log.topic, 1), "the partition has a leader")
        log.commit(10)
        waiting.are_polled()
        assert waiting.have_ended() == {}
        log.commit(1, partition=1)
        assert waiting.all_pass()


class TestGroup:
    def test_that_is_reset_backwards_has_to_catch_up_again(self, broker: Broker, waits: MakeWaits) -> None:
        """One that waits for a row of polls at zero lag: a few of them are not enough."""
        log = Log.on(broker)
        waiting = waits(log)
        waiting.start(stable=GroupsCaughtUp((log.group,), stable_polls=8), at_once=GroupsCaughtUp((log.group,)))
        waiting.are_polled(1)
        log.commit(2)
        waiting.are_polled()
        assert waiting.have_ended() == {}
        log.commit(10)
        waiting.are_polled(1)
        log.commit(0)
        waiting.are_polled(3)
        assert waiting.have_ended().keys() == {"at_once"}
        log.commit(10)
        assert waiting.all_pass()


class TestConnection:
    def test_that_is_pointed_at_another_cluster_asks_there(
        self, broker: Broker, cluster: KafkaCluster, waits: MakeWaits, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where topic and group have the same names, and all is true."""
        log = Log.on(broker)
        there = Log(cluster, new_topic(cluster, name=log.topic, config=FOR_EVER), log.group)
        produce(cluster, log.topic, timestamps=[T0_MS] * 10)
        there.come_true()
        waiting = waits(log, conn_id="moved")
        waiting.start()
        waiting.are_polled()
        assert waiting.have_ended() == {}
        use_connection(monkeypatch, "moved", {"bootstrap.servers": cluster.bootstrap_servers})
        assert waiting.all_pass()
