"""What is left of a window: its ranges without what Kafka had lost when an attempt began. The attempt reads that, and
read + lost = window. The manifest stays as it is: losses are facts of an attempt.

Kafka loses records at the start of a log alone (retention, DeleteRecords). So one range of each partition is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.manifest import Manifest


def left_of(manifest: Manifest, lost: Collection[LogRange] = ()) -> tuple[LogRange, ...]:
    """What an attempt reads, in order, without empty ranges.

    :param lost: what Kafka no longer had when the attempt began: all offsets of a partition up to one.
    """
    starts = {TopicPartition.of(each): each.end_offset for each in lost}
    ranges = (each.log_range for each in manifest.non_empty())
    rest = (
        each._replace(start_offset=max(each.start_offset, starts.get(TopicPartition.of(each), 0))) for each in ranges
    )
    return tuple(each for each in rest if each.span > 0)


def pieces(ranges: Iterable[LogRange]) -> dict[TopicPartition, list[LogRange]]:
    """Ranges by partition, in order."""
    found: dict[TopicPartition, list[LogRange]] = defaultdict(list)
    for each in sorted(ranges):
        found[TopicPartition.of(each)].append(each)
    return dict(found)


def span_of(ranges: Iterable[LogRange]) -> int:
    """Number of offsets in some ranges that don't overlap."""
    return sum(each.span for each in ranges)
