"""Brokers whose metadata lags: what one of them doesn't know yet may exist, and what one remembers may be outdated."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.integration.client.pieces import Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import commits_are, configs_are, metadata_is, offsets_are, silence

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
ID, NEW_ID = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"


class Leader(NamedTuple):
    """What metadata says of partition ``a-0``."""

    node: int | None
    epoch: int | None
    topic_id: str | None = ID


class Led(NamedTuple):
    """A cluster whose metadata is told by the test."""

    cluster: ScriptedCluster
    client: OffsetsClient

    def is_told(self, *leaders: Leader) -> None:
        """The first answer, the second, and so on, whichever broker is asked."""
        left = list(leaders)

        def answer(request: Any) -> Any:
            leader = left.pop(0) if len(left) > 1 else left[0]
            response = self.cluster.metadata(request)
            for topic in response.topics:
                topic.topic_id = uuid.UUID(leader.topic_id) if leader.topic_id else uuid.UUID(int=0)
                for each in topic.partitions:
                    each.leader_id, each.leader_epoch = leader.node, leader.epoch
            return response

        for each in self.cluster.brokers:
            each.on(MetadataRequest, answer)
            each.on(ListOffsetsRequest, offsets_are(5))

    def described(self) -> Leader:
        (topic,) = self.client.topics(["a"]).raise_for_errors()
        (partition,) = topic.partitions
        return Leader(partition.leader, partition.leader_epoch, topic.topic_id)

    def asked(self) -> list[Leader]:
        """Who was asked for offsets, and under which epoch."""
        requests = [(node, each) for node, each in self.cluster.asked if isinstance(each, ListOffsetsRequest)]
        return [Leader(node, each.topics[0].partitions[0].current_leader_epoch) for node, each in requests]


@pytest.fixture
def led() -> Iterator[Led]:
    with ScriptedCluster({"a": [0]}, brokers=2) as running:
        yield Led(running, running.client())


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """Topics ``a`` and ``b``. The broker that clients connect to first doesn't know ``b`` yet; the other one does."""
    with ScriptedCluster({"a": [0], "b": [1]}, brokers=2) as running:
        running.brokers[0].on(MetadataRequest, metadata_is(running, topics={"b": 3}))
        for each in running.brokers:
            each.on(ListOffsetsRequest, offsets_are(5))
            each.on(OffsetFetchRequest, commits_are({B0: 4}))
            each.on(DescribeConfigsRequest, configs_are({}))
        yield running


class TestUnknownTopics:
    @pytest.mark.parametrize(
        "ask",
        [
            lambda client: client.topics(["a", "b"]).raise_for_errors(),
            lambda client: client.partitions_of(["a", "b"]),
            lambda client: client.survey(["a", "b"]),
            lambda client: client.topic_facts(["a", "b"])["b"],
            lambda client: client.group_lags(["g"], topics=["a", "b"]),
            lambda client: client.list_offsets([B0], OffsetSpec.LATEST).raise_for_errors(),
        ],
        ids=["topics", "partitions_of", "survey", "topic_facts", "group_lags", "list_offsets"],
    )
    def test_are_known_if_another_broker_knows_them(
        self, cluster: ScriptedCluster, ask: Callable[[OffsetsClient], Any]
    ) -> None:
        """Right after a topic was created, for example. Callers fail for good on a topic that doesn't exist."""
        ask(cluster.client())

    def test_are_asked_of_another_broker_alone_and_once(self, cluster: ScriptedCluster) -> None:
        client = cluster.client()
        client.topics(["a", "b"]).raise_for_errors()
        asked = [(node, [topic.name for topic in request.topics]) for node, request in cluster.asked]
        assert asked == [(0, ["a", "b"]), (1, ["b"])]

    def test_that_no_broker_knows_are_in_error(self, cluster: ScriptedCluster) -> None:
        with pytest.raises(OffsetsError, match="topic c: UNKNOWN_TOPIC_OR_PARTITION") as failed:
            cluster.client().partitions_of(["a", "c"])
        assert not failed.value.retriable
        assert len(cluster.requests(MetadataRequest)) == 2

    def test_are_asked_again_of_the_only_broker(self, one: Pieces) -> None:
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": 3}), one.cluster.metadata)
        assert one.client.partitions_of(["b"])
        assert one.described_topics() == [["b"], ["b"]]

    def test_are_in_error_where_the_other_broker_hangs(self, cluster: ScriptedCluster) -> None:
        """The first one is then asked again."""
        cluster.brokers[1].on(MetadataRequest, silence)
        described = cluster.client().topics(["a", "b"])
        assert [each.error and each.error.name for each in described] == [None, "UNKNOWN_TOPIC_OR_PARTITION"]
        assert len(cluster.requests(MetadataRequest, node=0)) == 2

    def test_are_in_an_error_that_may_pass_where_nobody_answers_again(self, cluster: ScriptedCluster) -> None:
        """The only broker that answered is restarting, for example."""
        cluster.brokers[0].on(MetadataRequest, metadata_is(cluster, topics={"b": 3}), silence)
        cluster.brokers[1].on(MetadataRequest, silence)
        known, unknown = cluster.client(timeout_s=2).topics(["a", "b"])
        assert known.error is None
        assert unknown.error is not None
        assert (unknown.error.name, unknown.error.may_pass) == ("REQUEST_TIMED_OUT", True)


class TestOutdatedLeaders:
    """A leader epoch is never lower than an earlier one of the same topic, so metadata that goes back is outdated
    (KIP-320)."""

    def test_do_not_replace_newer_ones(self, led: Led) -> None:
        led.is_told(Leader(1, 8), Leader(0, 7))
        assert led.described() == led.described() == Leader(1, 8)
        assert led.client.list_offsets([A0], OffsetSpec.LATEST).ok()
        assert led.asked() == [Leader(1, 8)]

    def test_are_not_asked_where_the_newer_one_does_not_lead_any_more(self, led: Led) -> None:
        led.is_told(Leader(1, 8), Leader(0, 7), Leader(0, 9))
        led.cluster.brokers[1].on(ListOffsetsRequest, offsets_are(0, errors={A0: 6}))
        assert led.client.list_offsets([A0], OffsetSpec.LATEST).ok()
        assert led.asked() == [Leader(1, 8), Leader(0, 9)]

    def test_are_an_error_that_may_pass_until_there_is_a_newer_one(self, led: Led) -> None:
        led.is_told(Leader(1, 8), Leader(0, 7))
        led.cluster.brokers[1].on(ListOffsetsRequest, offsets_are(0, errors={A0: 6}))
        (listed,) = led.cluster.client(timeout_s=3).list_offsets([A0], OffsetSpec.LATEST)
        assert listed.error is not None
        assert (listed.error.name, listed.error.may_pass) == ("LEADER_NOT_AVAILABLE", True)
        assert "leader epoch 7, and epoch 8 is known" in listed.error.message

    def test_are_believed_once_brokers_have_told_of_nothing_else_for_minutes(self, led: Led) -> None:
        """The epochs of a topic that becomes diskless begin anew under the same id."""
        led.is_told(Leader(1, 8), Leader(0, 2))
        assert led.described() == led.described() == Leader(1, 8)
        opened = led.client._opened
        assert opened is not None
        opened.leaders.now_s = lambda: time.monotonic() + 400
        assert led.described() == Leader(0, 2)
        led.is_told(Leader(0, 1))
        assert led.described() == Leader(0, 2), "an older one yet may be outdated, too"

    def test_keep_the_partitions_that_they_lack(self, led: Led) -> None:
        """A topic never loses partitions: a broker that names fewer doesn't know yet that some were added. What is
        complete on the others isn't complete."""
        led.is_told(Leader(1, 8))
        led.cluster.leaders["a"] = [0, 0]
        known = led.client.partitions_of(["a"])
        led.cluster.leaders["a"] = [0]
        assert led.client.partitions_of(["a"]) == known

    def test_are_those_of_a_new_topic_of_the_same_name(self, led: Led) -> None:
        led.is_told(Leader(1, 8), Leader(0, 0, NEW_ID))
        assert [led.described(), led.described()] == [Leader(1, 8), Leader(0, 0, NEW_ID)]

    def test_can_not_be_told_from_those_of_a_new_topic_before_there_were_ids(self, led: Led) -> None:
        led.is_told(Leader(1, 8, None), Leader(0, 0, None))
        assert [led.described(), led.described()] == [Leader(1, 8, None), Leader(0, 0, None)]


@pytest.mark.parametrize(("version", "epoch"), [(7, None), (8, None), (9, 7)])
def test_epochs_are_sent_only_where_metadata_can_be_relied_on(version: int, epoch: int | None) -> None:
    """Brokers before Kafka 2.4 may tell an old one for hours (KAFKA-9212), under which every leader refuses."""
    with ScriptedCluster({"a": [0]}, versions={MetadataRequest: (0, version)}) as cluster:
        cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
        client = cluster.client()
        assert client.list_offsets([A0], OffsetSpec.LATEST).ok()
        (topic,) = client.topics(["a"])
        (request,) = cluster.requests(ListOffsetsRequest)
    assert request.topics[0].partitions[0].current_leader_epoch == (-1 if epoch is None else epoch)
    assert topic.partitions[0].leader_epoch == epoch
