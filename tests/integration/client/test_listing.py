"""Topics as a real broker lists them; ``cases/test_oracles.py`` measures offsets against Kafka's own tool."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import OffsetsError
from tests.integration.conftest import MakeTopic


def test_partitions_of_unknown_topics_name_every_one(client: OffsetsClient, topic: MakeTopic) -> None:
    with pytest.raises(OffsetsError, match=r"topic no-1: UNKNOWN.*topic no-2: UNKNOWN"):
        client.partitions_of([topic(), "no-1", "no-2"])


def test_asking_for_a_topic_does_not_create_it(client: OffsetsClient) -> None:
    client.topics(["never-made"])
    assert client.topics().lookup("never-made") is None


def test_facts_are_what_the_broker_says(client: OffsetsClient, topic: MakeTopic) -> None:
    name = topic(partitions=2, config={"cleanup.policy": "compact", "retention.ms": "60000"})
    facts = client.topic_facts([name, "no-such-topic"])
    assert facts.keys() == {name}
    assert (facts[name].partition_count, facts[name].cleanup_policy) == (2, "compact")
    assert (facts[name].retention_ms, facts[name].retention_bytes) == (60_000, -1)
    assert facts[name].timestamp_type == "CreateTime"
    assert facts[name].topic_id is not None


def test_the_cluster_has_one_id(client: OffsetsClient) -> None:
    assert client.cluster_id() == client.topics([]).cluster_id
