"""Log sizes: how many bytes each partition's log takes on the disk of its leader (DescribeLogDirs, KIP-113)."""

from __future__ import annotations

from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap


class LogSize(NamedTuple):
    """The size of one partition's log.

    :param topic: topic name.
    :param partition: partition number.
    :param size_bytes: bytes of all its segments on the leader's own disk; what lies in remote storage isn't among them.
        None when in error.
    :param error: Kafka's error for this partition alone.
    """

    topic: str
    partition: int
    size_bytes: int | None = None
    error: ResponseError | None = None


class LogSizes(PartitionMap[LogSize]):
    """Log sizes by partition."""

    asked = "Asking how large the logs are"
    __slots__ = ()
