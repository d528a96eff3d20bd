"""Leaders: which broker leads a partition, as the last metadata said; the fan-out's places of partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import count

from airflow_kafka_offsets.client.connection.deadline import Deadline, backoff_s
from airflow_kafka_offsets.client.connection.response_errors import (
    UNKNOWN_TOPIC_OR_PARTITION,
    may_be_told_yet,
    named_error,
)
from airflow_kafka_offsets.client.connection.transport import Transport
from airflow_kafka_offsets.client.routing.metadata import (
    PartitionMetadata,
    TopicMetadata,
    TopicsMetadata,
    fetch_metadata,
)
from airflow_kafka_offsets.errors import ClusterUnreachableError, ResponseError
from airflow_kafka_offsets.offsets.partitions import TopicPartition

Epochs = Callable[[TopicPartition], int | None]
"""The current leader epoch of a partition; None when it isn't known, which skips the broker's check."""


class Leaders:
    """Leaders of partitions, remembered between calls: a stale one is told by its broker, and forgotten then."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._leaders: dict[str, dict[int, PartitionMetadata]] = {}
        self._topic_ids: dict[str, str | None] = {}

    async def describe(self, topics: Iterable[str] | None, deadline: Deadline) -> TopicsMetadata:
        """Fresh metadata of some topics or of all, and their leaders kept.

        :raises ClusterUnreachableError: when no broker answers by the deadline.
        """
        metadata = await fetch_metadata(self._transport, topics, deadline)
        for topic in metadata:
            self._leaders[topic.topic] = {partition.partition: partition for partition in topic.partitions}
            self._topic_ids[topic.topic] = topic.topic_id
        return metadata

    async def describe_all(self, topics: Iterable[str], deadline: Deadline) -> TopicsMetadata:
        """As :meth:`describe`; topics whose error may pass are asked for again, alone, for half of the time: mostly
        another round follows.

        :raises ClusterUnreachableError: when no broker answers by the deadline.
        """
        patience = deadline.within(deadline.remaining_s() / 2)
        metadata = await self.describe(topics, deadline)
        for attempt in count():
            open_ones = [topic.topic for topic in metadata if topic.error is not None and may_be_told_yet(topic.error)]
            pause = backoff_s(attempt)
            if not open_ones or not patience.allows(pause):
                break
            await self._transport.sleep(pause)
            with suppress(ClusterUnreachableError):  # what was told stays told
                metadata = metadata.updated(await self.describe(open_ones, patience))
        return metadata

    async def locate(
        self, pieces: Collection[TopicPartition], deadline: Deadline
    ) -> Mapping[TopicPartition, int | ResponseError]:
        """The leader of each partition, or why there is none.

        :raises ClusterUnreachableError: when metadata is needed and no broker answers by the deadline.
        """
        # What is known is noted before anything is awaited: another fan-out may forget it meanwhile.
        places: dict[TopicPartition, int | ResponseError] = {
            piece: leader for piece in pieces if (leader := self._leader(piece)) is not None
        }
        missing = [piece for piece in pieces if piece not in places]
        fresh = await self.describe({piece.topic for piece in missing}, deadline) if missing else TopicsMetadata()
        for piece in missing:
            leader = self._leader(piece)
            places[piece] = _why_not(piece, fresh.lookup(piece.topic)) if leader is None else leader
        return places

    def forget(self, pieces: Iterable[TopicPartition]) -> None:
        """Ask for their topics' metadata anew the next time."""
        for piece in pieces:
            self._leaders.get(piece.topic, {}).pop(piece.partition, None)

    def _leader(self, piece: TopicPartition) -> int | None:
        known = self._leaders.get(piece.topic, {}).get(piece.partition)
        return None if known is None else known.leader

    def epoch(self, piece: TopicPartition) -> int | None:
        """The leader's epoch, to be sent along: a broker that knows better says so instead of answering (E28)."""
        known = self._leaders.get(piece.topic, {}).get(piece.partition)
        return None if known is None else known.leader_epoch

    def incarnation(self, piece: TopicPartition) -> tuple[str | None, int | None]:
        """What changes when a log isn't the one any more that it was: its topic's id, and its leader's epoch."""
        return self._topic_ids.get(piece.topic), self.epoch(piece)


def _why_not(piece: TopicPartition, topic: TopicMetadata | None) -> ResponseError:
    if topic is None:
        return named_error(UNKNOWN_TOPIC_OR_PARTITION, f"the metadata of topic {piece.topic} does not mention it")
    if topic.error is not None:
        return topic.error
    for partition in topic.partitions:
        if partition.partition == piece.partition and partition.error is not None:
            return partition.error
    return named_error(
        UNKNOWN_TOPIC_OR_PARTITION, f"topic {piece.topic} has {len(topic.partitions)} partitions, counted from 0"
    )
