"""What is left of a window: its ranges without what Kafka had lost when an attempt began. The attempt reads that, and
read + lost = window. The manifest stays as it is: losses are facts of an attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, merged
from airflow_kafka_offsets.offsets.windows.manifest import Manifest


def left_of(manifest: Manifest, lost: Collection[LogRange] = ()) -> tuple[LogRange, ...]:
    """What an attempt reads, in order, without empty ranges. A partition has several if some of its middle is lost.

    :param lost: what Kafka no longer had when the attempt began.
    """
    return tuple(without((each.log_range for each in manifest.non_empty()), lost))


def without(ranges: Iterable[LogRange], gone: Iterable[LogRange]) -> Iterator[LogRange]:
    """What some ranges leave of others, in their order."""
    cuts = pieces(merged(gone))
    for each in ranges:
        yield from _without(each, cuts.get(TopicPartition.of(each), ()))


def pieces(ranges: Iterable[LogRange]) -> dict[TopicPartition, list[LogRange]]:
    """Ranges by partition, in order."""
    found: dict[TopicPartition, list[LogRange]] = defaultdict(list)
    for each in sorted(ranges):
        found[TopicPartition.of(each)].append(each)
    return dict(found)


def span_of(ranges: Iterable[LogRange]) -> int:
    """Number of offsets in some ranges that don't overlap."""
    return sum(each.span for each in ranges)


def _without(whole: LogRange, gone: Iterable[LogRange]) -> Iterator[LogRange]:
    """What some ranges of the same partition, in order, leave of a range."""
    start = whole.start_offset
    for each in gone:
        end = min(each.start_offset, whole.end_offset)
        if start < end:
            yield whole._replace(start_offset=start, end_offset=end)
        start = max(start, each.end_offset)
    if start < whole.end_offset:
        yield whole._replace(start_offset=start)
