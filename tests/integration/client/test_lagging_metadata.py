"""Brokers whose metadata lags: what one of them doesn't know yet may exist, and what one remembers may be outdated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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

B0 = TopicPartition("b", 0)


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
