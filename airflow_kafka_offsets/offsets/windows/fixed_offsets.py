"""Fixed offsets: one for each partition of some topics, as of one moment.

What a group has to reach, or what has already been read: the offsets of a snapshot, of a window's end, or of the log
ends when a task began. Offsets are only numbers. The cluster id, topic ids and leader epochs kept with them reveal
another cluster, a re-created topic and a truncated log. Offsets that somebody wrote by hand have none of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import TopicChangedError, shorten
from airflow_kafka_offsets.offsets.answers.logs import EpochEnds, LogExtents
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import is_another
from airflow_kafka_offsets.offsets.windows.truncation import NewestEpoch, refuse_rewritten, refuse_shorter, seen_in

_PIN_AGAIN = "Clear the task that pinned the offset, and this one."


@dataclass(frozen=True, slots=True)
class FixedOffsets:
    """Fixed offsets on some topics; compared by value.

    :param source: where they come from, in words that fit into a sentence: ``the snapshot as of
        2026-11-21T06:00:00.000Z``, ``the end of window ...``.
    :param seen: the offsets, one for each partition, in order.
    :param topic_ids: topic ids by name, in order (KIP-516); None when unknown.
    :param ledger: the ledger that stores them; None when none does.
    :param cluster_id: the cluster that they belong to; None when somebody wrote them by hand.
    """

    source: str
    seen: tuple[SeenOffset, ...] = ()
    topic_ids: tuple[tuple[str, str | None], ...] = ()
    ledger: str | None = None
    cluster_id: str | None = None

    @classmethod
    def of(
        cls,
        source: str,
        seen: Iterable[SeenOffset],
        topic_ids: Mapping[str, str | None] | None = None,
        ledger: str | None = None,
        *,
        cluster_id: str | None = None,
    ) -> Self:
        """From offsets in any order."""
        ordered, ids = tuple(sorted(seen)), topic_ids or {}
        topics = dict.fromkeys(place.topic for place in ordered)
        return cls(source, ordered, tuple((topic, ids.get(topic)) for topic in topics), ledger, cluster_id)

    @classmethod
    def of_snapshot(cls, snapshot: OffsetSnapshot, ledger: str | None = None) -> Self:
        """A snapshot's offsets."""
        when = "" if snapshot.as_of.timestamp_ms is not None else f" at {iso_instant(snapshot.resolved_at_ms)}"
        source = f"{snapshot.title}{when}"
        topic_ids = {topic: facts.topic_id for topic, facts in snapshot.topics.items()}
        return cls.of(source, seen_in(snapshot), topic_ids, ledger, cluster_id=snapshot.cluster_id)

    @classmethod
    def of_window_end(cls, manifest: Manifest, ledger: str | None = None) -> Self:
        """The end offsets of a window."""
        ends = (
            SeenOffset(each.topic, each.partition, each.end_offset, each.end_leader_epoch) for each in manifest.ranges
        )
        topic_ids = {topic: facts.topic_id for topic, facts in manifest.topics.items()}
        return cls.of(f"the end of window {manifest.window}", ends, topic_ids, ledger, cluster_id=manifest.cluster_id)

    @classmethod
    def of_ends(
        cls,
        source: str,
        extents: LogExtents,
        isolation_level: IsolationLevel,
        cluster_id: str | None,
        topic_ids: Mapping[str, str | None],
    ) -> Self:
        """Where logs on a cluster end, at that isolation level.

        :raises OffsetsError: when an end is unknown.
        """
        ends = []
        for extent in extents.raise_for_errors():
            end = extent.end_offset(isolation_level)
            assert end is not None, "an extent without error has the end that was asked for"
            ends.append(SeenOffset(extent.topic, extent.partition, end, extent.leader_epoch))
        return cls.of(source, ends, topic_ids, cluster_id=cluster_id)

    def items(self) -> Iterator[tuple[TopicPartition, int]]:
        """Partition and offset, in order."""
        return ((TopicPartition.of(place), place.offset) for place in self.seen)

    def names(self) -> tuple[str, ...]:
        return tuple(topic for topic, _ in self.topic_ids)

    def where(self) -> dict[str, str]:
        """The ledger, for the JSON of a result; empty when there is none."""
        return {} if self.ledger is None else {"ledger": self.ledger}

    def refuse_other_source(self, cluster_id: str | None, topic_ids: Mapping[str, str | None]) -> None:
        """Check that the cluster and topics are still the ones that the offsets belong to (E24).

        :param cluster_id: id of the cluster that answers now; None when its brokers have none.
        :param topic_ids: the topic ids that it reports.
        :raises TopicChangedError: when it is another cluster, or naming a topic that was re-created.
        """
        for topic, known in self.topic_ids:
            if is_another(self.cluster_id, cluster_id):
                raise TopicChangedError(
                    f"The connection now reaches cluster {cluster_id}, but {self.source} belongs to cluster "
                    f"{self.cluster_id}: here, these offsets hold other records. Correct the connection's address; "
                    f"or, if {cluster_id} is the right cluster, clear the task that pinned the offsets, and this one.",
                    topic=topic,
                )
            now = topic_ids.get(topic)
            if is_another(known, now):
                raise TopicChangedError(
                    f"Topic {topic} was re-created: its id is now {now}, but {self.source} belongs to id {known}. "
                    "The records pinned in the old topic are gone: clear the task that pinned the offsets, "
                    "and this one.",
                    topic=topic,
                )

    def refuse_truncated(self, extents: LogExtents) -> None:
        """Check that no log ends before its offset: see :func:`.refuse_shorter`.

        :param extents: the logs as they are now, without errors.
        """
        ends = {TopicPartition.of(log): log.high_watermark or 0 for log in extents}
        refuse_shorter(self.source, self.seen, ends, extents.leader_epoch, _PIN_AGAIN)

    def unknowable(self, ends: EpochEnds, leader_epoch: NewestEpoch) -> list[str]:
        """What nobody can tell about whether the logs are still the ones that the offsets belong to, in words. Mostly
        empty with brokers of Kafka 2.8 or later; always empty for offsets that were written by hand.

        :param ends: where the leader epochs of the offsets end, as far as is known.
        :param leader_epoch: gives the newest epoch of a partition's log; None when unknown.
        :raises: as :func:`.refuse_rewritten`, if they are known not to be.
        """
        unknown = refuse_rewritten(self.source, self.seen, ends, leader_epoch, _PIN_AGAIN)
        if self.cluster_id is None:
            return []
        found = [f"the id of {topic}" for topic, topic_id in self.topic_ids if topic_id is None]
        return found + ([f"whether logs were truncated since: {shorten(unknown)}"] if unknown else [])

    def on(self, topics: Collection[str]) -> Self:
        """The offsets on some of the topics."""
        seen = tuple(place for place in self.seen if place.topic in topics)
        return replace(self, seen=seen, topic_ids=tuple(each for each in self.topic_ids if each[0] in topics))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with each topic's name once."""
        topics = groupby(self.seen, lambda place: place.topic)
        return {
            "source": self.source,
            "offsets": {topic: [list(place[1:]) for place in places] for topic, places in topics},
            "topic_ids": dict(self.topic_ids),
            "ledger": self.ledger,
            "cluster_id": self.cluster_id,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`."""
        seen = (SeenOffset(topic, *row) for topic, rows in fields["offsets"].items() for row in rows)
        ledger, cluster_id = fields["ledger"], fields["cluster_id"]
        return cls.of(fields["source"], seen, fields["topic_ids"], ledger, cluster_id=cluster_id)
