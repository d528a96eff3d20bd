"""Extents: where each partition's log starts and ends right now (ListOffsets earliest and latest, both isolations)."""

from __future__ import annotations

from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class LogExtent(NamedTuple):
    """The readable extent of one partition's log. Without an error, log start and the ends that were asked for are set.

    :param topic: topic name.
    :param partition: partition number.
    :param log_start_offset: first offset that still exists.
    :param high_watermark: one past the last replicated record.
    :param last_stable_offset: one past the last record with no open transaction before it.
    :param leader_epoch: epoch of the leader that answered; None from old brokers, and where it changed
        meanwhile.
    :param error: Kafka's error for this partition alone; there are no offsets then.
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

    @property
    def is_empty(self) -> bool:
        """Whether the log is known to hold nothing, neither visible nor undecided."""
        return self.log_start_offset is not None and self.log_start_offset == self.high_watermark


class LogExtents(PartitionMap[LogExtent]):
    """Log extents by partition."""

    asked = "Asking where the logs start and end"
    __slots__ = ()
