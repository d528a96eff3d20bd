"""Topic metadata: the cluster's id, topics, partitions and their leaders (Metadata, key 3).

Asked of any broker. Never creates a topic: ``allow_auto_topic_creation`` is off, where brokers can turn it off (0.11).
The topics' settings (retention and so on) are another request, in :mod:`.describe_configs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from kafka.protocol.metadata import MetadataRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.response_errors import (
    LEADER_NOT_AVAILABLE,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    left_out,
    named_error,
    response_error,
)
from airflow_kafka_offsets.client.connection.transport import NodeId, RequestFailedError, Transport
from airflow_kafka_offsets.client.routing.any_broker import ask_any
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import AnswerSet, TopicPartition

_HINTS = {
    UNKNOWN_TOPIC_OR_PARTITION: "no such topic on this cluster; check its name and the connection",
    TOPIC_AUTHORIZATION_FAILED: "the connection's user may not describe it; it needs the ACL Describe on the topic",
}
"""What to do about a topic's error."""
_LEFT_OUT = left_out("the broker")
_NO_PARTITIONS = named_error(LEADER_NOT_AVAILABLE, "the broker named none of its partitions")


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition of a topic.

    :param partition: partition number.
    :param leader: id of the broker that leads it; None while it has no leader.
    :param leader_epoch: epoch of that leadership (v7+, KIP-320); None from older brokers.
    :param error: why it has no leader.
    """

    partition: int
    leader: int | None
    leader_epoch: int | None = None
    error: ResponseError | None = None


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic.

    :param topic: topic name.
    :param topic_id: tells a re-created topic from the old one (v10+, KIP-516); None from brokers before 2.8.
    :param partitions: in order; empty when in error, and then alone.
    :param internal: Kafka's own, such as ``__consumer_offsets``.
    :param error: Kafka's error for this topic alone: unknown, not to be described, an impossible name.
    """

    topic: str
    topic_id: str | None = None
    partitions: tuple[PartitionMetadata, ...] = ()
    internal: bool = False
    error: ResponseError | None = None


class TopicsMetadata(AnswerSet[TopicMetadata]):
    """What a cluster says about topics; iterates by name.

    :param cluster_id: the cluster's id (v2+); None from brokers before 0.10.1.
    """

    asked = "Describing topics"
    __slots__ = ("_topics", "cluster_id")

    def __init__(self, elements: Iterable[TopicMetadata] = (), cluster_id: str | None = None) -> None:
        self.cluster_id = cluster_id
        self._topics = {topic.topic: topic for topic in elements}

    def __iter__(self) -> Iterator[TopicMetadata]:
        return (self._topics[name] for name in sorted(self._topics))

    def __len__(self) -> int:
        return len(self._topics)

    def _of(self, elements: Iterable[TopicMetadata]) -> Self:
        return type(self)(elements, self.cluster_id)

    @staticmethod
    def label(element: TopicMetadata) -> str:
        """``topic flights``."""
        return f"topic {element.topic}"

    def lookup(self, topic: str) -> TopicMetadata | None:
        """One topic; None when it isn't part of the answer."""
        return self._topics.get(topic)

    @property
    def topic_ids(self) -> dict[str, str | None]:
        """Ids by topic, in order; None from brokers before 2.8."""
        return {topic.topic: topic.topic_id for topic in self}

    def leader_epoch(self, topic: str, partition: int) -> int | None:
        """The epoch of a partition's leader, as far as the broker that answered knows; None when it doesn't."""
        found = self.lookup(topic)
        partitions = () if found is None else found.partitions
        return next((element.leader_epoch for element in partitions if element.partition == partition), None)

    def updated(self, later: TopicsMetadata) -> TopicsMetadata:
        """The same with what a later answer says of some of the topics, or of others."""
        return TopicsMetadata([*self._topics.values(), *later], self.cluster_id or later.cluster_id)


def partitions_of(metadata: TopicsMetadata) -> list[TopicPartition]:
    """All partitions of the topics that are not in error."""
    return [TopicPartition(topic.topic, partition.partition) for topic in metadata for partition in topic.partitions]


def metadata_request(topics: Iterable[str] | None, version: int) -> Any:
    """A request for some topics by name, or for all."""
    if topics is None:
        # An empty list means all topics in version 0, and none later.
        names: list[Any] | None = [] if version == 0 else None
    else:
        names = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest[version](topics=names, allow_auto_topic_creation=False)


def parse_metadata(response: Any, asked: Iterable[str] | None = None) -> TopicsMetadata:
    """The topics of an answer; those that were asked for by name and that it is silent about are in error."""
    told = TopicsMetadata(map(_topic, response.topics), response.cluster_id)
    silent = (TopicMetadata(name, error=_LEFT_OUT) for name in asked or () if told.lookup(name) is None)
    return TopicsMetadata([*told, *silent], told.cluster_id)


def _topic(topic: Any) -> TopicMetadata:
    error = response_error(topic.error_code, _HINTS.get(topic.error_code))
    if error is None and not topic.partitions:
        error = _NO_PARTITIONS  # there is no such topic, so that this is one that the broker doesn't know well yet
    return TopicMetadata(
        topic=topic.name,
        topic_id=str(topic.topic_id) if topic.topic_id is not None and topic.topic_id.int else None,
        partitions=tuple(sorted(map(_partition, topic.partitions), key=lambda partition: partition.partition)),
        internal=bool(topic.is_internal),
        error=error,
    )


def _partition(partition: Any) -> PartitionMetadata:
    if partition.leader_id >= 0:
        # Older brokers report REPLICA_NOT_AVAILABLE beside a healthy leader: not our business.
        epoch = partition.leader_epoch
        return PartitionMetadata(partition.partition_index, partition.leader_id, epoch if (epoch or 0) >= 0 else None)
    code = partition.error_code if partition.error_code != NONE else LEADER_NOT_AVAILABLE
    return PartitionMetadata(partition.partition_index, None, error=named_error(code, "the partition has no leader"))


async def fetch_metadata(transport: Transport, topics: Iterable[str] | None, deadline: Deadline) -> TopicsMetadata:
    """Ask any broker, and let the transport know who the brokers are.

    :param topics: names; None for all topics that may be described.
    :raises ClusterUnreachableError: when no broker answers by the deadline.
    """
    names = None if topics is None else sorted(set(topics))

    async def ask(node: NodeId, attempt: Deadline) -> Any:
        floor = 1 if names == [] else 0  # version 0 can't ask for no topics
        version = await transport.version(node, MetadataRequest, attempt, at_least=floor)
        response = await transport.send(node, metadata_request(names, version), attempt)
        if not response.brokers:
            raise RequestFailedError(
                named_error(LEADER_NOT_AVAILABLE, f"{transport.address(node)} knows no brokers yet")
            )
        return response

    response = await ask_any(transport, ask, deadline)
    transport.learn_brokers(response.brokers)
    return parse_metadata(response, names)
