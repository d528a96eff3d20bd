"""Segments: where a partition's log segments start, as only ListOffsets v0 (Kafka before 4.0) tells."""

from __future__ import annotations

from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap


class SegmentOffsets(NamedTuple):
    """Segment starts of one partition.

    :param topic: topic name.
    :param partition: partition number.
    :param offsets: start offset of each segment, newest first; before them the log's end, when the latest were asked.
        Empty when no segment is that old.
    :param error: Kafka's error for this partition alone; its offsets are then empty.
    """

    topic: str
    partition: int
    offsets: tuple[int, ...] = ()
    error: ResponseError | None = None


class SegmentsOffsets(PartitionMap[SegmentOffsets]):
    """Segment starts by partition."""

    asked = "Listing segment offsets"
    __slots__ = ()
