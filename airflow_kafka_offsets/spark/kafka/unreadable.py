"""The record that Spark's Kafka source can't read: one whose timestamp, in microseconds, doesn't fit the 64 bits that
Spark has for it.

A producer may give a record any timestamp: by default brokers accept any that lies in the past. Spark fails on such a
record ("long overflow"), and doesn't say which one it was. Only then is it searched for: Spark reads half of what has
failed, and half of that, down to one offset. All these reads together take as long as one more read of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.left import span_of
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS


def is_overflow(error: Exception) -> bool:
    """Whether Spark failed on such a timestamp, rather than on a number in the user's own query."""
    text = str(error)
    return "long overflow" in text and "KafkaRecordToRowConverter" in text


def first_unreadable(
    read: Callable[[Sequence[LogRange]], DataFrame], ranges: Sequence[LogRange]
) -> ReadPosition | None:
    """The first unreadable record of some ranges that Spark has failed to read; None if Spark reads it now.

    :param read: reads ranges with Spark's Kafka source.
    """
    while span_of(ranges) > 1:
        first, rest = _halves(ranges)
        ranges = first if _fails(read(first)) else rest
    (last,) = ranges
    return ReadPosition(last.topic, last.partition, last.start_offset) if _fails(read(ranges)) else None


def _halves(ranges: Sequence[LogRange]) -> tuple[list[LogRange], list[LogRange]]:
    """Two parts of ranges with two offsets or more, each with half of the offsets."""
    left = span_of(ranges) // 2
    parts: tuple[list[LogRange], list[LogRange]] = [], []
    for each in ranges:
        cut = each.start_offset + min(left, each.span)
        left -= cut - each.start_offset
        halves = each._replace(end_offset=cut), each._replace(start_offset=cut)
        for part, half in zip(parts, halves, strict=True):
            part.extend([half] if half.span else [])
    return parts


def _fails(rows: DataFrame) -> bool:
    try:
        rows.write.format("noop").mode("overwrite").save()
    except JAVA_ERRORS as error:
        if not is_overflow(error):
            raise
        return True
    return False
