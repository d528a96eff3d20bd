"""Listing offsets on a real broker; ``cases/test_oracles.py`` measures it against Kafka's own tool."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.integration.conftest import MakeTopic, Produce

T0 = 1_795_240_800_000
"""2026-11-21T06:00:00Z"""


@pytest.fixture
def flights(topic: MakeTopic, produce: Produce) -> str:
    """Three partitions: five records a second apart, three of them, none."""
    name = topic(partitions=3)
    produce(name, 0, [(T0 + 1000 * number, None, b"x") for number in range(5)])
    produce(name, 1, [(T0 + 1000 * number, None, b"x") for number in range(3)])
    return name


class TestUnknown:
    def test_an_unknown_partition_is_an_element_in_error(self, client: OffsetsClient, flights: str) -> None:
        asked = [TopicPartition(flights, 0), TopicPartition(flights, 9), TopicPartition("no-such-topic", 0)]
        listed = client.list_offsets(asked, OffsetSpec.LATEST)
        assert listed.ok().partitions() == [TopicPartition(flights, 0)]
        assert {each.error.name for each in listed.errors() if each.error} == {"UNKNOWN_TOPIC_OR_PARTITION"}
        assert {each.offset for each in listed.errors()} == {None}

    def test_partitions_of_unknown_topics_name_every_one(self, client: OffsetsClient, flights: str) -> None:
        with pytest.raises(OffsetsError, match=r"topic no-1: UNKNOWN.*topic no-2: UNKNOWN"):
            client.partitions_of([flights, "no-1", "no-2"])

    def test_asking_for_a_topic_does_not_create_it(self, client: OffsetsClient) -> None:
        client.topics(["never-made"])
        assert client.topics().lookup("never-made") is None

    def test_an_unknown_partition_has_an_extent_in_error(self, client: OffsetsClient) -> None:
        (extent,) = client.log_extents([TopicPartition("no-such-topic", 0)])
        assert extent.error is not None
        assert (extent.error.name, extent.high_watermark) == ("UNKNOWN_TOPIC_OR_PARTITION", None)


class TestFacts:
    def test_facts_are_what_the_broker_says(self, client: OffsetsClient, topic: MakeTopic) -> None:
        name = topic(partitions=2, config={"cleanup.policy": "compact", "retention.ms": "60000"})
        facts = client.topic_facts([name, "no-such-topic"])
        assert facts.keys() == {name}
        assert (facts[name].partition_count, facts[name].cleanup_policy) == (2, "compact")
        assert (facts[name].retention_ms, facts[name].retention_bytes) == (60_000, -1)
        assert facts[name].timestamp_type == "CreateTime"
        assert facts[name].topic_id is not None

    def test_the_cluster_has_one_id(self, client: OffsetsClient) -> None:
        assert client.cluster_id() == client.topics([]).cluster_id
