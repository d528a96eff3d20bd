"""Extreme timestamps: records whose timestamp, in microseconds, doesn't fit the 64 bits of Spark's own.

A producer may give a record any number: brokers take what lies in the past by default. Spark's Kafka source fails on
it ("long overflow"), and the window with it. Such records are found once that has happened, and named; what names them
lets the driver read them itself, with Kafka's own consumer, as rows whose ``timestamp`` is null. Nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from py4j.java_gateway import get_field  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import ConfigurationError, ExtremeTimestampError, shorten
from airflow_kafka_offsets.offsets.split_plan import ReadTask
from airflow_kafka_offsets.offsets.windows import OffsetRange
from airflow_kafka_offsets.spark.conf import EXTREME_TIMESTAMPS
from airflow_kafka_offsets.spark.hadoop import JAVA_ERRORS
from airflow_kafka_offsets.spark.kafka_clients import KafkaClients
from airflow_kafka_offsets.spark.stretches import records_of

MOST = 10_000
"""How many records the driver reads itself: it holds them all."""
_FITTING_MS = range(-(2**63 // 1000), 2**63 // 1000 + 1)
_FOUND = 20
"""How many are looked for: each costs some short Spark jobs."""
_NAMED = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+):(?P<first>\d+)(-(?P<last>\d+))?")

Row = tuple[object, ...]
"""In the order of the columns of Spark's Kafka source; headers last, where they are asked for."""

Read = Callable[[Sequence[OffsetRange]], DataFrame]


def named(text: str) -> tuple[ReadTask, ...]:
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
        ReadTask(each["topic"], int(each["partition"]), int(each["first"]), int(each["last"] or each["first"]) + 1)
        for each in parts
    )


def within(apart: Iterable[ReadTask], ranges: Iterable[OffsetRange]) -> list[ReadTask]:
    """What of the named records belongs to a window, in order and each once."""
    found: list[ReadTask] = []
    for pinned in ranges:
        position = pinned.start_offset
        for each in sorted(apart, key=lambda one: one.start_offset):
            first, end = max(each.start_offset, position), min(each.end_offset, pinned.end_offset)
            if (each.topic, each.partition) == (pinned.topic, pinned.partition) and first < end:
                found.append(ReadTask(each.topic, each.partition, first, end))
                position = end
    return found


def layers(ranges: Sequence[OffsetRange], apart: Iterable[ReadTask]) -> list[tuple[OffsetRange, ...]]:
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


def rows_of(clients: KafkaClients, apart: Sequence[ReadTask], *, headers: bool) -> list[list[Row]]:
    """The named records, in the columns of Spark's Kafka source; range by range.

    :raises ConfigurationError: when they are very many, or one has a timestamp that Spark can read.
    :raises DataLossError: the log no longer has one.
    :raises UncheckedSourceError: when Kafka can't be asked.
    :raises AuthenticationError: when the brokers refuse the credentials.
    """
    total = sum(each.span for each in apart)
    if total > MOST:
        raise ConfigurationError(
            f"The conf {EXTREME_TIMESTAMPS} names {total} records of the window. The driver, which reads them, takes "
            f"{MOST} at most: load the window in smaller ones."
        )
    rows: dict[ReadTask, list[Row]] = {each: [] for each in apart}
    for each, record in records_of(clients, apart):
        rows[each].append(_row(record, headers))
    return list(rows.values())


def _row(record: Any, headers: bool) -> Row:
    if record.timestamp() in _FITTING_MS:
        raise ConfigurationError(
            f"{record.topic()}-{record.partition()}:{record.offset()} has the timestamp {record.timestamp()}, which "
            f"Spark can read: leave it out of the conf {EXTREME_TIMESTAMPS}."
        )
    plain = (record.key(), record.value(), record.topic(), record.partition(), record.offset(), None)
    row = (*plain, get_field(record.timestampType(), "id"))
    given = [(each.key(), each.value()) for each in record.headers().toArray()] if headers else []
    return (*row, given or None) if headers else row


def is_overflow(error: Exception) -> bool:
    """Whether Spark failed on such a timestamp, and not on a number of the user's own."""
    text = str(error)
    return "long overflow" in text and "KafkaRecordToRowConverter" in text


def extreme_timestamp_error(
    read: Read, clients: KafkaClients, window: str, ranges: Iterable[OffsetRange]
) -> ExtremeTimestampError | None:
    """The error that names the records, and what to do; None where Spark reads all of them now. They are searched for
    by reading halves: all of what is pinned once more, and a partition with such records about three times.

    :param read: makes a frame of ranges by Spark's Kafka source.
    """
    found = list(islice((each for pinned in ranges for each in _search(read, pinned)), _FOUND + 1))
    if not found:
        return None
    said = [f"{each.topic}-{each.partition}:{each.start_offset}" for each in found[:_FOUND]]
    more = " There are more: name ranges as topic-partition:first-last." if len(found) > _FOUND else ""
    return ExtremeTimestampError(
        f"Window {window} has records whose timestamps Spark's Kafka source can't read, as they lie more than 292,000 "
        f"years from 1970: {shorten(_told(clients, found))}. Nothing is published. Does a producer write nanoseconds? "
        "To load them with the timestamp null, give the Spark application the conf "
        f"{EXTREME_TIMESTAMPS}={','.join(said)}.{more}"
    )


def _search(read: Read, pinned: OffsetRange) -> Iterator[OffsetRange]:
    if pinned.start_offset == pinned.end_offset or _fits(read([pinned])):
        return
    middle = (pinned.start_offset + pinned.end_offset) // 2
    if middle == pinned.start_offset:
        yield pinned
        return
    yield from _search(read, replace(pinned, end_offset=middle))
    yield from _search(read, replace(pinned, start_offset=middle))


def _fits(rows: DataFrame) -> bool:
    try:
        rows.write.format("noop").mode("overwrite").save()
    except JAVA_ERRORS as error:
        if not is_overflow(error):
            raise
        return False
    return True


def _told(clients: KafkaClients, found: Iterable[OffsetRange]) -> Iterator[str]:
    wanted = [ReadTask(each.topic, each.partition, each.start_offset, each.end_offset) for each in found]
    for each, record in records_of(clients, wanted):
        yield f"{each.topic}-{each.partition} at {record.offset()}, {record.timestamp()} ms"
