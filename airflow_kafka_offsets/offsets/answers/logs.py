"""Logs, as their leaders report them: where they start and end, how large they are, who writes to them; and the
settings of topics that windows depend on.

An element's ``error`` is Kafka's error for its partition alone; its offsets are then missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a cluster says about a topic, as far as windows depend on it.

    :param topic_id: distinguishes a re-created topic from the old one (KIP-516); None from brokers before 2.8.
    :param partition_count: number of partitions.
    :param cleanup_policy: ``delete``, ``compact`` or both, joined by a comma; None when it may not be described.
    :param retention_ms: milliseconds; -1 means forever, as in Kafka's own setting; None when unknown.
    :param retention_bytes: bytes per partition; -1 means no limit; None when unknown.
    :param timestamp_type: ``CreateTime`` or ``LogAppendTime``; None when unknown.
    """

    topic: str
    topic_id: str | None
    partition_count: int
    cleanup_policy: str | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    timestamp_type: str | None = None

    @property
    def compacted(self) -> bool:
        """Whether records may vanish from the middle of the log (E11)."""
        return "compact" in (self.cleanup_policy or "")


class LogExtent(NamedTuple):
    """Where one partition's log starts and ends right now (ListOffsets ``earliest`` and ``latest``).

    Without an error, the log start and the requested ends are set.

    :param log_start_offset: first offset that still exists.
    :param high_watermark: one past the last replicated record.
    :param last_stable_offset: one past the last record with no open transaction before it.
    :param leader_epoch: epoch of the leader that answered; None from old brokers, or if it changed between answers.
    """

    topic: str
    partition: int
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    leader_epoch: int | None = None
    error: ResponseError | None = None

    def end_offset(self, isolation_level: IsolationLevel) -> int | None:
        """One past the last visible record at that isolation level."""
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def ends_before(self, offset: int) -> bool:
        """Whether the log is known to end before an offset. A commit there belongs to another log: the topic was
        re-created, the log was truncated, or the commit was copied (E17)."""
        return self.high_watermark is not None and self.high_watermark < offset

    @property
    def is_empty(self) -> bool:
        """Whether the log is known to be empty, even of records that aren't visible yet."""
        return self.log_start_offset is not None and self.log_start_offset == self.high_watermark


class LogExtents(PartitionMap[LogExtent]):
    """Log extents by partition."""

    asked = "Asking where the logs start and end"

    def leader_epoch(self, topic: str, partition: int) -> int | None:
        """Epoch of the leader that answered; None when unknown."""
        extent = self.lookup(topic, partition)
        return None if extent is None else extent.leader_epoch


class SegmentOffsets(NamedTuple):
    """Where the segments of one partition's log start. Only ListOffsets v0 (Kafka before 4.0) reports this.

    :param offsets: start offset of each segment, newest first; the log end comes first if the latest were requested.
        Empty when no segment is that old, or when in error.
    """

    topic: str
    partition: int
    offsets: tuple[int, ...] = ()
    error: ResponseError | None = None


class SegmentsOffsets(PartitionMap[SegmentOffsets]):
    """Segment starts by partition."""

    asked = "Listing segment offsets"


UNTOLD = {
    "UNSUPPORTED_VERSION": "brokers before Kafka 2.1 don't say",
    "CLUSTER_AUTHORIZATION_FAILED": "brokers of Kafka 2.1 and 2.2 say it only to users with the ACL ClusterAction",
}
"""Errors of brokers that never report where an epoch ends (to this user): a retry doesn't help."""


class LogEpoch(NamedTuple):
    """One leader epoch of one partition's log (KIP-101, KIP-320): each new leader writes under a higher one.

    :param leader_epoch: 0 or more.
    """

    topic: str
    partition: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """Where one leader epoch ends in one partition's log (OffsetForLeaderEpoch).

    When an unclean leader election truncates a log and the log grows again, the log may end where it did before, but
    the old epoch ends where the log was truncated.

    :param leader_epoch: the epoch that the answer is about: the newest one in the log that isn't above the requested
        one.
    :param end_offset: offset of the first record of a later epoch; for the newest epoch, the end of the leader's log,
        which may be past the high watermark. For an epoch older than all that the leader remembers, where the oldest
        remembered epoch starts: truncation then can't be told from retention. Both fields are None when the leader
        doesn't know the epoch, because it is above the log's newest, or because the log remembers none.
    """

    topic: str
    partition: int
    leader_epoch: int | None = None
    end_offset: int | None = None
    error: ResponseError | None = None


class EpochEnds(PartitionMap[EpochEnd]):
    """Ends of leader epochs by partition."""

    asked = "Asking where leader epochs end"


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """An idempotent or transactional producer that the partition's leader remembers.

    :param producer_id: the id that the cluster assigned.
    :param producer_epoch: epoch of that id.
    :param last_timestamp_ms: timestamp of its last write, Unix milliseconds; None when it wrote nothing.
    :param transaction_start_offset: first offset of its open transaction; None when it has none open here.
    """

    producer_id: int
    producer_epoch: int
    last_timestamp_ms: int | None = None
    transaction_start_offset: int | None = None


class PartitionProducers(NamedTuple):
    """The producers of one partition (DescribeProducers).

    An open transaction holds back the last stable offset. If its producer is gone, it does so until the transaction
    times out, or forever.

    :param producers: in order of their ids.
    """

    topic: str
    partition: int
    producers: tuple[ActiveProducer, ...] = ()
    error: ResponseError | None = None

    @property
    def open_transactions(self) -> list[ActiveProducer]:
        """The producers with an open transaction, oldest first: the first one holds back the last stable offset."""
        holding = [producer for producer in self.producers if producer.transaction_start_offset is not None]
        return sorted(holding, key=lambda producer: producer.transaction_start_offset or 0)


class Producers(PartitionMap[PartitionProducers]):
    """Producers by partition."""

    asked = "Describing producers"


def holder_text(partition: TopicPartition, producers: Producers) -> str:
    """A partition, and whose open transaction holds back its last stable offset, in words."""
    found = producers.lookup(*partition)
    if found is None or not found.open_transactions:
        return str(partition)
    holder = found.open_transactions[0]
    return (
        f"{partition} from offset {holder.transaction_start_offset} on, by the open transaction of producer "
        f"{holder.producer_id} (epoch {holder.producer_epoch})"
    )
