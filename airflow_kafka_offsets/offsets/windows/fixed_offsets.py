"""Fixed offsets: one for each partition of some topics, as of one moment.

What a group has to reach, or what has been read before: the offsets of a snapshot, of a window's end, or of the log
ends when a task began. Offsets are only numbers: cluster, topic ids and leader epochs go with them, by which another
cluster, a topic that was made again and a log that was cut are told from what they were of. Offsets that somebody wrote
by hand have none of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError, LogTruncatedError, TopicChangedError, shorten
from airflow_kafka_offsets.offsets.answers.logs import EpochEnds, LogExtents
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_partition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import is_another
from airflow_kafka_offsets.offsets.windows.truncation import SeenOffset, cut_below, refuse_later_epochs, untold


class TopicOffsets(NamedTuple):
    """The positions on one topic.

    :param topic_id: tells a re-created topic from this one (KIP-516); None when unknown.
    :param offsets: an offset for each partition, from number 0 on.
    :param leader_epochs: the leader epoch that each offset was seen under (KIP-320); None where it isn't known.
    """

    topic: str
    topic_id: str | None
    offsets: tuple[int, ...]
    leader_epochs: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class FixedOffsets:
    """Fixed offsets on some topics. A value: equal ones are one.

    :param source: where they come from, for people: ``snapshot 42 as of 2026-11-21T06:00:00.000Z``.
    :param topics: by name, in order.
    :param ledger: where they are stored; None when they aren't.
    :param cluster_id: the cluster that they are of; None where somebody wrote them by hand.
    """

    source: str
    topics: tuple[TopicOffsets, ...] = ()
    ledger: str | None = None
    cluster_id: str | None = None

    @classmethod
    def of(
        cls,
        source: str,
        offsets: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str | None] | None = None,
        ledger: str | None = None,
        *,
        cluster_id: str | None = None,
        leader_epochs: Mapping[TopicPartition, int | None] | None = None,
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
        ids, epochs = topic_ids or {}, leader_epochs or {}

        def positions(topic: str, numbers: list[int]) -> TopicOffsets:
            seen_under = (epochs.get(TopicPartition(topic, number)) for number in range(len(numbers)))
            return TopicOffsets(topic, ids.get(topic), tuple(numbers), tuple(seen_under))

        topics = (positions(topic, numbers) for topic, numbers in by_topic.items())
        return cls(source, tuple(topics), ledger, cluster_id)

    @classmethod
    def of_snapshot(cls, snapshot: OffsetSnapshot, ledger: str | None = None) -> Self:
        """A snapshot's offsets."""
        return cls.of(
            f"snapshot {snapshot.number} as of {snapshot.as_of}",
            snapshot.offsets(),
            {topic: facts.topic_id for topic, facts in snapshot.topics.items()},
            ledger,
            cluster_id=snapshot.cluster_id,
            leader_epochs={key: boundary.leader_epoch for key, boundary in snapshot.boundaries.items()},
        )

    @classmethod
    def of_window_end(cls, manifest: Manifest, ledger: str | None = None) -> Self:
        """Where a window ends."""
        ranges = by_partition(manifest.ranges)
        return cls.of(
            f"end of window {manifest.window}",
            {key: pinned.end_offset for key, pinned in ranges.items()},
            {topic: facts.topic_id for topic, facts in manifest.topics.items()},
            ledger,
            cluster_id=manifest.cluster_id,
            leader_epochs={key: pinned.end_leader_epoch for key, pinned in ranges.items()},
        )

    @classmethod
    def of_ends(
        cls,
        source: str,
        extents: LogExtents,
        isolation_level: IsolationLevel,
        cluster_id: str | None,
        topic_ids: Mapping[str, str | None],
    ) -> Self:
        """Where logs end at that isolation level, on that cluster.

        :raises OffsetsError: when an end is not known.
        """
        ends: dict[TopicPartition, int] = {}
        for extent in extents.raise_for_errors():
            end = extent.end_offset(isolation_level)
            assert end is not None, "an extent without error has the end that was asked for"
            ends[TopicPartition.of(extent)] = end
        epochs = {TopicPartition.of(extent): extent.leader_epoch for extent in extents}
        return cls.of(source, ends, topic_ids, cluster_id=cluster_id, leader_epochs=epochs)

    def items(self) -> Iterator[tuple[TopicPartition, int]]:
        """Partition and offset, in order."""
        for fixed in self.topics:
            for number, offset in enumerate(fixed.offsets):
                yield TopicPartition(fixed.topic, number), offset

    def seen(self) -> Iterator[SeenOffset]:
        """Each position with its leader epoch, in order."""
        for fixed in self.topics:
            for number, (offset, leader_epoch) in enumerate(zip(fixed.offsets, fixed.leader_epochs, strict=True)):
                yield SeenOffset(fixed.topic, number, offset, leader_epoch)

    def names(self) -> tuple[str, ...]:
        return tuple(fixed.topic for fixed in self.topics)

    def where(self) -> dict[str, str]:
        """The ledger, for the JSON of a result; nothing where there is none."""
        return {} if self.ledger is None else {"ledger": self.ledger}

    def refuse_other_source(self, cluster_id: str | None, topic_ids: Mapping[str, str | None]) -> None:
        """Make sure that cluster and topics are still the ones that the offsets belong to (E24).

        :param cluster_id: of the cluster that answers now; None from brokers that have none.
        :param topic_ids: ids as it tells them.
        :raises TopicChangedError: another cluster, or naming a topic that was re-created.
        """
        for fixed in self.topics:
            if is_another(self.cluster_id, cluster_id):
                raise TopicChangedError(
                    f"{self.source} is of cluster {self.cluster_id}, and this is {cluster_id}: the "
                    "connection now leads to another cluster, where these offsets hold other records. "
                    "Correct its address; or, if this cluster is meant, clear the task that pinned them, "
                    "and this one.",
                    topic=fixed.topic,
                )
            now = topic_ids.get(fixed.topic)
            if is_another(fixed.topic_id, now):
                raise TopicChangedError(
                    f"Topic {fixed.topic} was re-created: its id is {now}, and {self.source} is of {fixed.topic_id}. "
                    "The records pinned in the old topic are gone with it: clear the task that pinned it, "
                    "and this one.",
                    topic=fixed.topic,
                )

    def refuse_truncated(self, extents: LogExtents) -> None:
        """Make sure that no log ends before its offset.

        :param extents: the logs as they are now, without errors.
        :raises OffsetsError: when one does by the word of an earlier leader than that of the offset. It passes.
        :raises LogTruncatedError: naming a partition whose log does.
        """
        ends = {TopicPartition.of(log): log.high_watermark or 0 for log in extents}
        short = [place for place in self.seen() if ends.get(TopicPartition.of(place), place.offset) < place.offset]
        refuse_later_epochs(short, extents.leader_epoch)
        if short:
            place = short[0]
            partition = TopicPartition.of(place)
            raise LogTruncatedError(
                f"{partition} ends at {ends[partition]} now, before offset {place.offset} of {self.source}: the log "
                "was truncated. Clear the task that pinned it, and this one.",
                topic=place.topic,
            )

    def refuse_cut(self, ends: EpochEnds) -> None:
        """Make sure that no log was cut below its offset, and has grown past it again (S15).

        :param ends: where the leader epochs of the offsets end, as far as they are known.
        :raises LogTruncatedError: naming partitions whose logs were, and where.
        """
        cut = cut_below(self.seen(), ends)
        if cut:
            raise LogTruncatedError(
                f"Logs were truncated after {self.source}, and have grown past it again: "
                f"{shorten(cut.values())}. A replica that was behind leads now (unclean leader election): "
                "up to there they hold other records. Clear the task that pinned it, and this one.",
                topic=min(cut).topic,
            )

    def unknowable(self, ends: EpochEnds) -> list[str]:
        """What nobody can tell of whether the logs are still the ones that the offsets belong to, in words; mostly
        empty where the brokers are of Kafka 2.8 or later. Nothing is claimed of offsets that were written by hand.

        :param ends: as in :meth:`refuse_cut`.
        """
        if self.cluster_id is None:
            return []
        found = [f"the id of {fixed.topic}" for fixed in self.topics if fixed.topic_id is None]
        unknown = list(untold(self.seen(), ends))
        return found + ([f"whether logs were truncated since: {shorten(unknown)}"] if unknown else [])

    def on(self, topics: Collection[str]) -> Self:
        """The same on some topics alone."""
        return replace(self, topics=tuple(fixed for fixed in self.topics if fixed.topic in topics))

    def without(self, topic: str | None) -> Self:
        """The same without a topic."""
        return replace(self, topics=tuple(fixed for fixed in self.topics if fixed.topic != topic))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, columnar."""
        topics = {
            fixed.topic: {
                "id": fixed.topic_id,
                "offsets": list(fixed.offsets),
                "leader_epochs": list(fixed.leader_epochs),
            }
            for fixed in self.topics
        }
        return {"source": self.source, "topics": topics, "ledger": self.ledger, "cluster_id": self.cluster_id}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`."""
        topics = sorted(fields["topics"].items())
        read = (
            TopicOffsets(name, columns["id"], tuple(columns["offsets"]), tuple(columns["leader_epochs"]))
            for name, columns in topics
        )
        return cls(fields["source"], tuple(read), fields["ledger"], fields["cluster_id"])
