"""Positions: one offset for each partition of some topics, as of one moment.

What a group has to reach, or what has been read before: the plain offsets of a snapshot, of a window's end, or of the
log ends when a task began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from airflow_kafka_offsets.errors import ConfigurationError, LogTruncatedError, TopicChangedError
from airflow_kafka_offsets.offsets.extents import LogExtents
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class TopicPositions(NamedTuple):
    """The positions on one topic.

    :param topic: topic name.
    :param topic_id: tells a re-created topic from this one (KIP-516); None when unknown.
    :param offsets: an offset for each partition, from number 0 on.
    """

    topic: str
    topic_id: str | None
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Positions:
    """Fixed offsets on some topics. A value: equal ones are one.

    :param source: where they come from, for people: ``snapshot 42 as of 2026-11-21T06:00:00.000Z``.
    :param topics: by name, in order.
    :param ledger: where they are stored; None when they aren't.
    """

    source: str
    topics: tuple[TopicPositions, ...] = ()
    ledger: str | None = None

    @classmethod
    def of(
        cls,
        source: str,
        offsets: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str | None] | None = None,
        ledger: str | None = None,
    ) -> Self:
        """From offsets by partition.

        :raises ConfigurationError: when a partition of a topic is left out.
        """
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(offsets):
            numbers = by_topic.setdefault(topic, [])
            if partition != len(numbers):
                raise ConfigurationError(f"{source}: {topic} has an offset for partition {partition}, none before it.")
            numbers.append(offsets[TopicPartition(topic, partition)])
        ids = topic_ids or {}
        topics = (TopicPositions(topic, ids.get(topic), tuple(numbers)) for topic, numbers in by_topic.items())
        return cls(source, tuple(topics), ledger)

    @classmethod
    def of_snapshot(cls, snapshot: OffsetSnapshot, ledger: str | None = None) -> Self:
        """A snapshot's offsets."""
        ids = {topic: each.topic_id for topic, each in snapshot.topics.items()}
        return cls.of(f"snapshot {snapshot.number} as of {snapshot.as_of}", snapshot.offsets(), ids, ledger)

    @classmethod
    def of_window_end(cls, manifest: Manifest, ledger: str | None = None) -> Self:
        """Where a window ends."""
        ids = {topic: each.topic_id for topic, each in manifest.topics.items()}
        ends = {TopicPartition(each.topic, each.partition): each.end_offset for each in manifest.ranges}
        return cls.of(f"end of window {manifest.window}", ends, ids, ledger)

    @classmethod
    def of_ends(
        cls, source: str, extents: LogExtents, isolation_level: IsolationLevel, topic_ids: Mapping[str, str | None]
    ) -> Self:
        """Where logs end at that isolation level.

        :raises OffsetsError: when an end is not known.
        """
        ends: dict[TopicPartition, int] = {}
        for each in extents.raise_for_errors():
            end = each.end_offset(isolation_level)
            assert end is not None, "an extent without error has the end that was asked for"
            ends[TopicPartition(each.topic, each.partition)] = end
        return cls.of(source, ends, topic_ids)

    def items(self) -> Iterator[tuple[TopicPartition, int]]:
        """Partition and offset, in order."""
        for each in self.topics:
            for number, offset in enumerate(each.offsets):
                yield TopicPartition(each.topic, number), offset

    def names(self) -> tuple[str, ...]:
        """The topics."""
        return tuple(each.topic for each in self.topics)

    def where(self) -> dict[str, str]:
        """The ledger, for the JSON of a result; nothing where there is none."""
        return {} if self.ledger is None else {"ledger": self.ledger}

    def refuse_other_topics(self, topic_ids: Mapping[str, str | None]) -> None:
        """Make sure that the topics are still the ones that the offsets belong to (E24).

        :param topic_ids: ids as the cluster tells them now.
        :raises TopicChangedError: naming a topic that was re-created.
        """
        for each in self.topics:
            now = topic_ids.get(each.topic)
            if each.topic_id is not None and now is not None and now != each.topic_id:
                raise TopicChangedError(
                    f"Topic {each.topic} was re-created: its id is {now}, and {self.source} is of {each.topic_id}. "
                    "What was pinned of the old topic is gone with it: clear the task that pinned it, and this one.",
                    topic=each.topic,
                )

    def refuse_truncated(self, ends: Mapping[TopicPartition, int]) -> None:
        """Make sure that no log ends before its offset.

        :param ends: high watermarks.
        :raises LogTruncatedError: naming a partition whose log does.
        """
        for partition, offset in self.items():
            end = ends.get(partition, offset)
            if end < offset:
                raise LogTruncatedError(
                    f"{partition} ends at {end} now, before offset {offset} of {self.source}: the log was truncated. "
                    "Clear the task that pinned it, and this one.",
                    topic=partition.topic,
                )

    def without(self, topic: str | None) -> Self:
        """The same without a topic."""
        return replace(self, topics=tuple(each for each in self.topics if each.topic != topic))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, columnar."""
        topics = {each.topic: {"id": each.topic_id, "offsets": list(each.offsets)} for each in self.topics}
        return {"source": self.source, "topics": topics, "ledger": self.ledger}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`."""
        topics = sorted(fields["topics"].items())
        read = (TopicPositions(name, each["id"], tuple(each["offsets"])) for name, each in topics)
        return cls(fields["source"], tuple(read), fields["ledger"])
