"""Metadata (key 3): the cluster's id, topics, partitions and their leaders. The fan-out's locator for partitions.

Any broker can answer. Never creates a topic: ``allow_auto_topic_creation`` is off on brokers that support it (0.11).
Topic settings (such as retention) take another request, in :mod:`.describe_configs`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Self, TypeVar

from kafka.protocol.metadata import MetadataRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline, backoff_s
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.transport import RequestFailedError, Transport
from airflow_kafka_offsets.client.connection.wire import Code, left_out, named_error, or_none, response_error
from airflow_kafka_offsets.client.routing.any_broker import ask_any
from airflow_kafka_offsets.errors import ClusterUnreachableError, ResponseError
from airflow_kafka_offsets.offsets.partitions import AnswerSet, OnPartition, TopicPartition

P = TypeVar("P", bound=OnPartition)

_HINTS = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: "no such topic on this cluster; check its name and the connection",
    Code.TOPIC_AUTHORIZATION_FAILED: "the connection's user may not describe it; "
    "it needs the ACL Describe on the topic",
}
"""What the user should do about a topic's error."""
_LEFT_OUT = left_out("the broker")
_TELLS_EPOCHS = 9
"""First version whose leader epochs can be relied on, as in Kafka's own clients. Brokers before it may tell an old one
for hours, while partitions are reassigned (KAFKA-9212), and the leader would refuse every request."""
_BELIEVED_AFTER_S = 300.0
"""How long no broker must have told an epoch until a lower one is believed: much longer than any metadata lags."""
_NO_PARTITIONS = named_error(Code.LEADER_NOT_AVAILABLE, "the broker named none of its partitions")


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition of a topic.

    :param leader: id of the broker that leads it; None while it has no leader.
    :param leader_epoch: the leader's epoch (v9+, KIP-320); None from brokers before 2.4.
    :param error: why it has no leader.
    """

    partition: int
    leader: int | None
    leader_epoch: int | None = None
    error: ResponseError | None = None


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic.

    :param topic_id: distinguishes a re-created topic from the old one (v10+, KIP-516); None from brokers before 2.8.
    :param partitions: in order; empty if, and only if, the topic is in error.
    :param internal: whether it is Kafka's own, such as ``__consumer_offsets``.
    :param error: Kafka's error for this topic alone: unknown, may not be described, or an invalid name.
    """

    topic: str
    topic_id: str | None = None
    partitions: tuple[PartitionMetadata, ...] = ()
    internal: bool = False
    error: ResponseError | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether the brokers asked know no such topic."""
        return self.error is not None and self.error.code == Code.UNKNOWN_TOPIC_OR_PARTITION


class TopicsMetadata(AnswerSet[TopicMetadata]):
    """What a cluster says about topics; iterates by name.

    :param cluster_id: the cluster's id (v2+); None from brokers before 0.10.1.
    """

    asked = "Describing topics"

    def __init__(self, elements: Iterable[TopicMetadata] = (), cluster_id: str | None = None) -> None:
        super().__init__(elements)
        self.cluster_id = cluster_id

    @staticmethod
    def key(element: TopicMetadata) -> str:
        return element.topic

    def _of(self, elements: Iterable[TopicMetadata]) -> Self:
        return type(self)(elements, self.cluster_id)

    @classmethod
    def label(cls, element: TopicMetadata) -> str:
        return f"topic {element.topic}"

    def lookup(self, topic: str) -> TopicMetadata | None:
        """One topic; None when it isn't part of the answer."""
        return self._elements.get(topic)

    @property
    def topic_ids(self) -> dict[str, str | None]:
        """Ids by topic, in order; None from brokers before 2.8."""
        return {topic.topic: topic.topic_id for topic in self}

    def leader_epoch(self, topic: str, partition: int) -> int | None:
        """The epoch of a partition's leader; None if the broker that answered doesn't know it."""
        found = self.lookup(topic)
        partitions = () if found is None else found.partitions
        return next((element.leader_epoch for element in partitions if element.partition == partition), None)

    def updated(self, later: TopicsMetadata) -> TopicsMetadata:
        """This metadata, updated with a later answer about some of the topics, or about others."""
        return TopicsMetadata([*self._elements.values(), *later], self.cluster_id or later.cluster_id)


def partitions_of(metadata: TopicsMetadata) -> list[TopicPartition]:
    """All partitions of the topics that are not in error."""
    return [TopicPartition(topic.topic, partition.partition) for topic in metadata for partition in topic.partitions]


def metadata_request(topics: Iterable[str] | None, version: int) -> Any:
    """A request for some topics by name, or for all."""
    if topics is None:
        # An empty list means all topics in version 0, and no topics in later versions.
        names: list[Any] | None = [] if version == 0 else None
    else:
        names = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest[version](topics=names, allow_auto_topic_creation=False)


def parse_metadata(response: Any, asked: Iterable[str] | None = None) -> TopicsMetadata:
    """The topics in a response. Topics that were asked for by name and are missing from it are in error."""
    version = response.API_VERSION
    answered = TopicsMetadata((_topic(topic, version) for topic in response.topics), response.cluster_id)
    missing = (TopicMetadata(name, error=_LEFT_OUT) for name in asked or () if answered.lookup(name) is None)
    return TopicsMetadata([*answered, *missing], answered.cluster_id)


def _topic(topic: Any, version: int) -> TopicMetadata:
    error = response_error(topic.error_code, _HINTS.get(topic.error_code))
    if error is None and not topic.partitions:
        error = _NO_PARTITIONS  # every topic has partitions, so the broker's metadata isn't complete yet
    return TopicMetadata(
        topic=topic.name,
        topic_id=str(topic.topic_id) if topic.topic_id is not None and topic.topic_id.int else None,
        partitions=tuple(
            sorted((_partition(each, version) for each in topic.partitions), key=lambda each: each.partition)
        ),
        internal=bool(topic.is_internal),
        error=error,
    )


def _partition(partition: Any, version: int) -> PartitionMetadata:
    if partition.leader_id >= 0:
        # Older brokers report REPLICA_NOT_AVAILABLE next to a healthy leader, which doesn't concern us.
        epoch = or_none(partition.leader_epoch) if version >= _TELLS_EPOCHS else None
        return PartitionMetadata(partition.partition_index, partition.leader_id, epoch)
    code = partition.error_code if partition.error_code != Code.NONE else Code.LEADER_NOT_AVAILABLE
    return PartitionMetadata(partition.partition_index, None, error=named_error(code, "the partition has no leader"))


Epochs = Callable[[TopicPartition], int | None]
"""The current leader epoch of a partition; None if unknown, which skips the broker's check."""


class Leaders:
    """Leaders of partitions, cached between calls. Entries that prove stale are dropped, and not replaced by older ones
    (by leader epoch)."""

    def __init__(self, transport: Transport, now_s: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self.now_s = now_s
        self._described_at_s: dict[str, float] = {}
        self._leaders: dict[str, dict[int, PartitionMetadata]] = {}
        self._topic_ids: dict[str, str | None] = {}
        self._newest: dict[str, dict[int, tuple[int, float]]] = {}
        """The highest leader epoch of each partition so far, and when it was told last, by topic id."""

    async def describe(self, topics: Iterable[str] | None, deadline: Deadline) -> TopicsMetadata:
        """Fresh metadata of some topics, or of all that may be described. Caches their leaders and the brokers.

        That a topic doesn't exist takes a second answer, from another broker if there is one: a broker's metadata may
        lag, for example right after the topic was created, and callers fail for good on a missing topic. Without one,
        the topic has an error that may pass.

        :raises ClusterUnreachableError: when no broker answers by the deadline.
        """
        node, metadata = await self._ask(None if topics is None else sorted(set(topics)), deadline)
        unknown = [topic.topic for topic in metadata if topic.is_unknown]
        if not unknown:
            return metadata
        unconfirmed = named_error(Code.REQUEST_TIMED_OUT, "one broker doesn't know it, and none else answered in time")
        second, pause = TopicsMetadata(TopicMetadata(topic, error=unconfirmed) for topic in unknown), backoff_s(0)
        if deadline.allows(pause):
            await self._transport.sleep(pause)
            with suppress(ClusterUnreachableError):  # the first answer stays valid for the other topics
                _, second = await self._ask(unknown, deadline, last=node)
        return metadata.updated(second)

    async def _ask(
        self, names: list[str] | None, deadline: Deadline, *, last: NodeId | None = None
    ) -> tuple[NodeId, TopicsMetadata]:
        """One answer, and the broker that gave it.

        :param last: a broker to ask only after all others; None for no such broker.
        """

        async def ask(node: NodeId, attempt: Deadline) -> tuple[NodeId, Any]:
            floor = 1 if names == [] else 0  # version 0 can't ask for no topics
            version = await self._transport.version(node, MetadataRequest, attempt, at_least=floor)
            response = await self._transport.send(node, metadata_request(names, version), attempt)
            if not response.brokers:
                why = f"{self._transport.address(node)} knows no brokers yet"
                raise RequestFailedError(named_error(Code.LEADER_NOT_AVAILABLE, why))
            return node, response

        node, response = await ask_any(self._transport, ask, deadline, last=last)
        self._transport.connections.learn_brokers(response.brokers)
        answered = parse_metadata(response, names)
        metadata = TopicsMetadata(map(self._without_older, answered), answered.cluster_id)
        for topic in metadata:
            self._leaders[topic.topic] = {partition.partition: partition for partition in topic.partitions}
            self._topic_ids[topic.topic] = topic.topic_id
            self._described_at_s[topic.topic] = self.now_s()
        return node, metadata

    def _without_older(self, topic: TopicMetadata) -> TopicMetadata:
        """The topic, but with known leaders instead of older ones (KIP-320), and for known partitions that it leaves
        out, as no topic loses any: the broker's metadata lags.

        Before there were topic ids, the leaders of a new topic of the same name look older, too: they are left as they
        are. So is a partition whose newest epoch no broker has told for minutes: its epochs began anew under the same
        topic id, as when a topic becomes diskless.
        """
        if topic.topic_id is None or topic.error is not None:
            return topic
        known = self._leaders.get(topic.topic, {}) if self._topic_ids.get(topic.topic) == topic.topic_id else {}
        newest, now_s = self._newest.setdefault(topic.topic_id, {}), self.now_s()
        partitions = {partition.partition: partition for partition in topic.partitions}
        for number, (epoch, told_at_s) in newest.items():
            answered = partitions.get(number)
            is_lower = answered is not None and answered.leader_epoch is not None and answered.leader_epoch < epoch
            if answered is None or (is_lower and now_s - told_at_s < _BELIEVED_AFTER_S):
                partitions[number] = known.get(number) or _outdated(number, answered, epoch)
        for partition in topic.partitions:
            if partition.leader_epoch is not None and partitions[partition.partition] is partition:
                newest[partition.partition] = partition.leader_epoch, now_s
        return replace(topic, partitions=tuple(partitions[number] for number in sorted(partitions)))

    async def describe_all(self, topics: Iterable[str], deadline: Deadline) -> TopicsMetadata:
        """Like :meth:`describe`, but retries topics with transient errors for up to half of the time left, because
        another round usually follows.

        :raises ClusterUnreachableError: when no broker answers by the deadline.
        """
        patience = deadline.within(deadline.remaining_s() / 2)
        metadata = await self.describe(topics, deadline)
        for attempt in count():
            open_ones = [topic.topic for topic in metadata if topic.error is not None and topic.error.may_pass]
            pause = backoff_s(attempt)
            if not open_ones or not patience.allows(pause):
                break
            await self._transport.sleep(pause)
            with suppress(ClusterUnreachableError):  # earlier answers stay valid
                metadata = metadata.updated(await self.describe(open_ones, patience))
        return metadata

    async def renew(self, topics: Iterable[str], oldest_s: float, deadline: Deadline) -> None:
        """Describe topics again whose metadata is older than so many seconds, to notice those that were re-created.

        :raises ClusterUnreachableError: when no broker answers by the deadline.
        """
        since_s = self.now_s() - oldest_s
        old = [topic for topic in topics if self._described_at_s.get(topic, since_s) < since_s]
        if old:
            await self.describe(old, deadline)

    async def locate(self, pieces: Collection[P], deadline: Deadline) -> Mapping[P, int | ResponseError]:
        """The leader of each piece's partition, or why there is none.

        :raises ClusterUnreachableError: when metadata is needed and no broker answers by the deadline.
        """
        # Read the cache before awaiting anything: another fan-out may drop entries in the meantime.
        leaders: dict[P, int | ResponseError] = {
            piece: leader for piece in pieces if (leader := self._leader(piece)) is not None
        }
        missing = [piece for piece in pieces if piece not in leaders]
        fresh = await self.describe({piece.topic for piece in missing}, deadline) if missing else TopicsMetadata()
        for piece in missing:
            leader = self._leader(piece)
            leaders[piece] = _why_not(piece, fresh.lookup(piece.topic)) if leader is None else leader
        return leaders

    def drop(self, pieces: Iterable[OnPartition]) -> None:
        """Drop these partitions from the cache, so that their topics' metadata is requested again."""
        for piece in pieces:
            self._leaders.get(piece.topic, {}).pop(piece.partition, None)

    def _leader(self, piece: OnPartition) -> int | None:
        known = self._leaders.get(piece.topic, {}).get(piece.partition)
        return None if known is None else known.leader

    def epoch(self, piece: TopicPartition) -> int | None:
        """The leader's epoch, to send with requests: a broker with another epoch answers with an error (E28)."""
        known = self._leaders.get(piece.topic, {}).get(piece.partition)
        return None if known is None else known.leader_epoch

    def incarnation(self, piece: TopicPartition) -> tuple[str | None, int | None]:
        """The topic's id and the leader's epoch, one of which changes when the log is replaced or truncated."""
        return self._topic_ids.get(piece.topic), self.epoch(piece)


def _outdated(number: int, answered: PartitionMetadata | None, newest: int) -> PartitionMetadata:
    has = "no such partition" if answered is None else f"leader epoch {answered.leader_epoch}"
    why = f"the broker's metadata is outdated: it has {has}, and epoch {newest} is known; this resolves itself"
    return PartitionMetadata(number, None, error=named_error(Code.LEADER_NOT_AVAILABLE, why))


def _why_not(piece: OnPartition, topic: TopicMetadata | None) -> ResponseError:
    if topic is None:
        return named_error(Code.UNKNOWN_TOPIC_OR_PARTITION, f"the metadata of topic {piece.topic} does not mention it")
    if topic.error is not None:
        return topic.error
    for partition in topic.partitions:
        if partition.partition == piece.partition and partition.error is not None:
            return partition.error
    return named_error(
        Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {piece.topic} has {len(topic.partitions)} partitions, counted from 0"
    )
