"""Extents: where each partition's log starts and ends right now (ListOffsets earliest and latest, both isolations)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap
from airflow_kafka_offsets.offsets.specs import IsolationLevel


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The readable extent of one partition's log.

    :param topic: topic name.
    :param partition: partition number.
    :param log_start_offset: first offset that still exists; None when in error.
    :param high_watermark: one past the last replicated record; None when in error.
    :param last_stable_offset: one past the last record with no open transaction before it; None when in error.
    :param leader_epoch: epoch of the leader that answered; None from old brokers.
    :param error: Kafka's error for this partition alone.
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


class LogExtents(PartitionMap[LogExtent]):
    """Log extents by partition."""

    asked = "Asking where the logs start and end"
    __slots__ = ()
