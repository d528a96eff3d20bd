"""Three partitions on one scripted broker, and a client that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.integration.client.scripted import ScriptedBroker, ScriptedCluster

A0, B0, B1 = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1)
ALL = (A0, B0, B1)
OFFSETS = CommittedOffsets([CommittedOffset("a", 0, 4), CommittedOffset("b", 0, 5), CommittedOffset("b", 1, 6)])


class Pieces(NamedTuple):
    """A cluster with three partitions on one broker, which a test scripts, and a client of it."""

    cluster: ScriptedCluster
    broker: ScriptedBroker
    client: OffsetsClient

    def asked(self, request_class: Any) -> list[Any]:
        return self.cluster.requests(request_class)

    def asked_partitions(self, request_class: Any) -> list[list[TopicPartition]]:
        """What each request named, in order of arrival."""
        return [list(_named(each)) for each in self.asked(request_class)]

    def described_topics(self) -> list[list[str]]:
        """The topics of each metadata request."""
        return [[topic.name for topic in each.topics] for each in self.asked(MetadataRequest)]

    def located_groups(self) -> list[list[str]]:
        """The groups of each look-up of coordinators."""
        return [each.coordinator_keys for each in self.asked(FindCoordinatorRequest)]


def _named(request: Any) -> Iterator[TopicPartition]:
    for topic in request.topics:
        numbers = getattr(topic, "partition_indexes", None)
        for number in numbers or [each.partition_index for each in topic.partitions]:
            yield TopicPartition(topic.name, number)
