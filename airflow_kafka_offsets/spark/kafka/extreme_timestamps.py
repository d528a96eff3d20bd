"""Extreme timestamps: records whose timestamp, in microseconds, doesn't fit the 64 bits of Spark's own.

A producer may give a record any number: brokers take what lies in the past by default. Spark's Kafka source fails on
it ("long overflow"), and the window with it. Stretches with such records are found once that has happened
(:mod:`~airflow_kafka_offsets.spark.kafka.extreme_search`), and named. What is named the driver reads itself
(:mod:`~airflow_kafka_offsets.spark.kafka.driver_rows`), with the timestamp null where Spark has none. Nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.spark.conf import EXTREME_TIMESTAMPS

_NAMED = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+):(?P<first>\d+)(-(?P<last>\d+))?")


def named(text: str) -> tuple[LogRange, ...]:
    """Read ``flights-0:17, flights-2:40-49``: topic, partition, and the first and last offset.

    :raises ConfigurationError: when it is something else.
    """
    found = [_NAMED.fullmatch(each.strip()) for each in text.split(",") if each.strip()]
    if None in found:
        raise ConfigurationError(
            f"The conf {EXTREME_TIMESTAMPS} names records as topic-partition:offset or topic-partition:first-last, "
            f"with commas between them, not as {text!r}."
        )
    parts = [each.groupdict() for each in found if each is not None]
    return tuple(
        LogRange(each["topic"], int(each["partition"]), int(each["first"]), int(each["last"] or each["first"]) + 1)
        for each in parts
    )


def text_of(stretches: Iterable[LogRange]) -> str:
    """The inverse of :func:`named`, in order; stretches that touch are one."""
    merged: list[LogRange] = []
    for each in sorted(stretches):
        last = merged[-1] if merged else None
        if (
            last
            and (last.topic, last.partition) == (each.topic, each.partition)
            and each.start_offset <= last.end_offset
        ):
            merged[-1] = last._replace(end_offset=max(last.end_offset, each.end_offset))
        else:
            merged.append(each)
    return ",".join(f"{each.topic}-{each.partition}:{_extent(each)}" for each in merged)


def _extent(stretch: LogRange) -> str:
    first, last = stretch.start_offset, stretch.end_offset - 1
    return str(first) if first == last else f"{first}-{last}"


def within(apart: Iterable[LogRange], ranges: Iterable[OffsetRange]) -> list[LogRange]:
    """What of the named records belongs to a window, in order and each once."""
    found: list[LogRange] = []
    for pinned in ranges:
        position = pinned.start_offset
        for each in sorted(apart, key=lambda one: one.start_offset):
            first, end = max(each.start_offset, position), min(each.end_offset, pinned.end_offset)
            if (each.topic, each.partition) == (pinned.topic, pinned.partition) and first < end:
                found.append(each._replace(start_offset=first, end_offset=end))
                position = end
    return found


def layers(ranges: Sequence[OffsetRange], apart: Iterable[LogRange]) -> list[tuple[OffsetRange, ...]]:
    """The ranges without the records that are read apart: what Spark reads in one go has a partition once."""
    made: list[list[OffsetRange]] = []
    for pinned in ranges:
        cuts = [each for each in apart if (each.topic, each.partition) == (pinned.topic, pinned.partition)]
        starts = [pinned.start_offset, *(each.end_offset for each in cuts)]
        ends = [*(each.start_offset for each in cuts), pinned.end_offset]
        pieces = [replace(pinned, start_offset=start, end_offset=end) for start, end in zip(starts, ends, strict=True)]
        for number, piece in enumerate(each for each in pieces if each.start_offset < each.end_offset):
            if number == len(made):
                made.append([])
            made[number].append(piece)
    return [tuple(each) for each in made]


def is_overflow(error: Exception) -> bool:
    """Whether Spark failed on such a timestamp, and not on a number of the user's own."""
    text = str(error)
    return "long overflow" in text and "KafkaRecordToRowConverter" in text
