"""Groups whose members' topics aren't all told: never a total, and never a target, over those that are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Literal

import pytest
from confluent_kafka import Consumer

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.offsets_reached import log_ends
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from tests.integration.client.cases.workload import (
    Kafka,
    commit,
    connected_client,
    description_of,
    group_member,
    lag_of,
    new_name,
    new_topic,
    produce,
)
from tests.patience import wait_until

_OLDER = pytest.mark.nightly("the same on Kafka 3.9; make test has it on Kafka 4, and test_old_broker.py that broker")


@pytest.fixture(params=["broker", pytest.param("old_broker", marks=_OLDER)])
def kafka(request: pytest.FixtureRequest) -> Kafka:
    """While a group rebalances, Kafka 4 tells what its members were assigned before, and Kafka 3.9 nothing."""
    found: Kafka = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def client(kafka: Kafka) -> Iterator[OffsetsClient]:
    with connected_client(kafka.bootstrap_servers) as connected:
        yield connected


@contextmanager
def joining(kafka: Kafka, group: str, topics: Sequence[str], protocol: Literal["classic", "consumer"]) -> Iterator[Any]:
    """A member of a group from the moment when it asks to join; the client joins by itself."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "group.protocol": protocol}
    with closing(Consumer(config | {"enable.auto.commit": False})) as consumer:
        consumer.subscribe(list(topics))
        yield consumer


class TestClassicGroup:
    def test_has_no_total_and_sets_no_target_until_its_topics_are_told(
        self, kafka: Kafka, client: OffsetsClient
    ) -> None:
        """E22: a member joins while another one works on what it has read: only the latter's topic has been read up."""
        read, joined, group = new_topic(kafka), new_topic(kafka), new_name("group")
        produce(kafka, read, count=5)
        produce(kafka, joined, count=10)
        commit(client, group, {TopicPartition(read, 0): 5})
        with group_member(kafka, group, [read]):
            assert lag_of(client, group).total == 0
            with joining(kafka, group, [joined], "classic"):
                wait_until(lambda: len(description_of(client, group).members) == 2, "the second member has joined")
                assert description_of(client, group).state == "PreparingRebalance"
                lag = lag_of(client, group)
                assert (lag.total, lag.error and lag.error.name) == (None, "REBALANCE_IN_PROGRESS")
                assert lag_of(client, group, topics=[read]).total == 0
                with pytest.raises(OffsetsError, match="wait, or name the topics") as raised:
                    GroupsCaughtUp((group,)).check(client)
                assert raised.value.retriable
                with pytest.raises(OffsetsError, match="REBALANCE_IN_PROGRESS"):
                    log_ends(client, group, None, IsolationLevel.READ_COMMITTED)

    def test_counts_what_the_new_member_reads_once_it_is_told(self, kafka: Kafka, client: OffsetsClient) -> None:
        read, joined, group = new_topic(kafka), new_topic(kafka), new_name("group")
        produce(kafka, joined, count=10)
        commit(client, group, {TopicPartition(read, 0): 0})
        with joining(kafka, group, [joined], "classic"):
            wait_until(lambda: description_of(client, group).state == "Stable", "the member has joined")
            assert (lag_of(client, group).error, lag_of(client, group).total) == (None, 10)


class TestGroupOfKip848:
    @pytest.mark.parametrize("kafka", ["broker"], indirect=True)
    def test_that_reads_by_a_new_expression_has_no_total_until_it_is_resolved(
        self, kafka: Kafka, client: OffsetsClient
    ) -> None:
        """E33: the coordinator resolves expressions every ten seconds at most, and calls the group Stable meanwhile."""
        prefix, group = new_name("topic"), new_name("group")
        read, other = new_topic(kafka, name=f"{prefix}-a"), new_topic(kafka, name=f"{prefix}-b")
        produce(kafka, other, count=10)
        commit(client, group, {TopicPartition(read, 0): 0})
        with joining(kafka, group, [f"^{prefix}-a"], "consumer"):
            wait_until(lambda: lag_of(client, group).total == 0, "the first expression is resolved")
            with joining(kafka, group, [f"^{prefix}-b"], "consumer"):
                wait_until(lambda: len(description_of(client, group).members) == 2, "the second member has joined")
                lag = lag_of(client, group)
                assert (lag.total, lag.error and lag.error.name) == (None, "REBALANCE_IN_PROGRESS")
