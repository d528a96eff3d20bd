"""Extreme timestamps: records whose timestamp, in microseconds, doesn't fit the 64 bits of Spark's own.

A producer may give a record any number: brokers take what lies in the past by default. Spark's Kafka source fails on
it ("long overflow"), and the window with it. Stretches with such records are looked for once that has happened, and
named: by Spark itself, which reads halves of what failed, down to a few offsets; from there on Kafka's own consumer
looks at the records one by one.

What is named the driver reads itself, with the timestamp null where Spark has none, so that nothing is lost. It may be
any number of records: what the driver holds at a time is bounded. The rest lies on the executors' disks, by Spark's
local checkpoints, and goes with the rows; where an executor is lost with it, the attempt fails, and the next one reads
anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, islice
from typing import Any

from py4j.java_gateway import get_field  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.spark_versions import kept_on_disk
from airflow_kafka_offsets.errors import ConfigurationError, ExtremeTimestampError, shorten
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, merged
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients
from airflow_kafka_offsets.spark.kafka.stretches import records_of
from airflow_kafka_offsets.spark.session.conf import EXTREME_TIMESTAMPS
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS

_NAMED = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+):(?P<first>\d+)(-(?P<last>\d+))?")
_FEW = 1_000
"""So many offsets are looked at without Spark, whose shortest job takes as long; and so many records in a row that
Spark can read end a stretch."""
_MANY = 20_000
"""So many of these records in one stretch, and it is taken to go on up to the range's end: Python looks at some
thousands a second, and what Spark can read the driver reads as well."""
_FOUND = 20
"""How many stretches are looked for: each costs some short Spark jobs."""
_LONGEST = 1_500
"""Characters of the conf: the note that brings the error to Airflow has an end."""
_HELD_BYTES = 16 * 1024 * 1024
"""How much of all stretches together the driver holds as long as its frames are there."""
_CHUNK_BYTES = 4 * 1024 * 1024
"""How much of one stretch it reads before it puts that away."""
_ROW_BYTES = 256
"""What a row takes beside key, value and headers, about."""
_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_FITTING_MS = range(-(2**63 // 1000), 2**63 // 1000 + 1)
"""Spark counts microseconds in 64 bits."""

Row = tuple[object, ...]
Chunk = tuple[list[Row], int]
"""Rows, and how many bytes they are."""
Read = Callable[[Sequence[OffsetRange]], DataFrame]
"""Makes a frame of ranges by Spark's Kafka source."""


def named(text: str) -> tuple[LogRange, ...]:
    """Read ``flights-0:17, flights-2:40-49``: topic, partition, and the first and last offset. Refuse anything else."""
    stretches = []
    for name in filter(None, map(str.strip, text.split(","))):
        found = _NAMED.fullmatch(name)
        if found is None:
            raise ConfigurationError(
                f"The conf {EXTREME_TIMESTAMPS} names records as topic-partition:offset or topic-partition:first-last, "
                f"with commas between them, not as {text!r}."
            )
        first, last = int(found["first"]), int(found["last"] or found["first"])
        stretches.append(LogRange(found["topic"], int(found["partition"]), first, last + 1))
    return tuple(stretches)


def text_of(stretches: Iterable[LogRange]) -> str:
    """The inverse of :func:`named`, in order; stretches that touch are one."""
    return ",".join(f"{TopicPartition.of(stretch)}:{_offsets(stretch)}" for stretch in merged(stretches))


def _offsets(stretch: LogRange) -> str:
    first, last = stretch.start_offset, stretch.end_offset - 1
    return str(first) if first == last else f"{first}-{last}"


def within(apart: Iterable[LogRange], ranges: Iterable[OffsetRange]) -> list[LogRange]:
    """What of the named records belongs to a window, in order and each once."""
    found: list[LogRange] = []
    for pinned in ranges:
        position = pinned.start_offset
        for stretch in sorted(apart):
            first, end = max(stretch.start_offset, position), min(stretch.end_offset, pinned.end_offset)
            if TopicPartition.of(stretch) == TopicPartition.of(pinned) and first < end:
                found.append(stretch._replace(start_offset=first, end_offset=end))
                position = end
    return found


def layers(ranges: Sequence[OffsetRange], apart: Iterable[LogRange]) -> list[tuple[OffsetRange, ...]]:
    """The ranges without the records that are read apart: what Spark reads in one go has a partition once."""
    made: list[list[OffsetRange]] = []
    for pinned in ranges:
        cuts = [stretch for stretch in apart if TopicPartition.of(stretch) == TopicPartition.of(pinned)]
        starts = [pinned.start_offset, *(cut.end_offset for cut in cuts)]
        ends = [*(cut.start_offset for cut in cuts), pinned.end_offset]
        pieces = [replace(pinned, start_offset=start, end_offset=end) for start, end in zip(starts, ends, strict=True)]
        for number, piece in enumerate(piece for piece in pieces if piece.span > 0):
            if number == len(made):
                made.append([])
            made[number].append(piece)
    return [tuple(layer) for layer in made]


def is_overflow(error: Exception) -> bool:
    """Whether Spark failed on such a timestamp, and not on a number of the user's own."""
    text = str(error)
    return "long overflow" in text and "KafkaRecordToRowConverter" in text


def extreme_timestamp_error(
    read: Read, clients: KafkaClients, window: str, ranges: Iterable[OffsetRange], *, more: bool
) -> ExtremeTimestampError | None:
    """The error that names the records in the ranges that Spark has read, and what to do; None where Spark reads all of
    them now. With ``more`` the conf names others."""
    searched = chain.from_iterable(_Search(read, clients, pinned).within(pinned) for pinned in ranges)
    found = list(islice(searched, _FOUND + 1))
    if not found:
        return None
    told = found[:_FOUND]
    while len(told) > 1 and len(text_of(extreme.stretch for extreme in told)) > _LONGEST:
        told.pop()
    give = "add to what the Spark application's conf names:" if more else "give the Spark application the conf"
    rest = " There are more: the next try names them, or name longer stretches." if len(found) > len(told) else ""
    return ExtremeTimestampError(
        f"Window {window} has records whose timestamps Spark's Kafka source can't read, as they lie more than 292,000 "
        f"years from 1970: {shorten(map(str, told))}. Nothing is published. Does a producer write nanoseconds? "
        f"To load them with the timestamp null, {give} "
        f"{EXTREME_TIMESTAMPS}={text_of(extreme.stretch for extreme in told)}.{rest}"
    )


@dataclass(frozen=True, slots=True)
class _Extremes:
    """A stretch from the first of some such records to the last, and perhaps with others between them: however they
    lie, few stretches name many of them. The timestamp is the first one's, as the producer gave it."""

    stretch: LogRange
    records: int
    timestamp_ms: int

    def __str__(self) -> str:
        partition, first, last = TopicPartition.of(self.stretch), self.stretch.start_offset, self.stretch.end_offset - 1
        if self.records == 1:
            return f"{partition} at {last}, {self.timestamp_ms} ms"
        return f"{partition} from {first} to {last}, {self.records} records, the first of {self.timestamp_ms} ms"


class _Search:
    """The search of one range, from its start on."""

    def __init__(self, read: Read, clients: KafkaClients, pinned: OffsetRange) -> None:
        self._read, self._clients, self._pinned = read, clients, pinned
        self._reached = pinned.start_offset

    def within(self, piece: OffsetRange) -> Iterator[_Extremes]:
        start, end = max(piece.start_offset, self._reached), piece.end_offset
        if start >= end or _reads(self._read([replace(piece, start_offset=start)])):
            return
        if end - start <= _FEW:
            yield from self._looked_at(start)
            return
        middle = (start + end) // 2
        yield from self.within(replace(piece, start_offset=start, end_offset=middle))
        yield from self.within(replace(piece, start_offset=middle))

    def _looked_at(self, start: int) -> Iterator[_Extremes]:
        """The stretch that begins in the few offsets from there on, and goes on as far as it does."""
        topic, partition, range_end = self._pinned.topic, self._pinned.partition, self._pinned.end_offset
        first: tuple[int, int] | None = None
        last = count = calm = 0
        self._reached = range_end
        for _, record in records_of(self._clients, [LogRange(topic, partition, start, range_end)]):
            offset, timestamp_ms = int(record.offset()), int(record.timestamp())
            if fits(timestamp_ms):
                calm += 1
            else:
                first = first or (offset, timestamp_ms)
                last, count, calm = offset, count + 1, 0
            if calm > _FEW:
                self._reached = offset + 1
                break
            if count == _MANY:
                last = range_end - 1
                break
        if first is not None:
            yield _Extremes(LogRange(topic, partition, first[0], last + 1), count, first[1])


def _reads(rows: DataFrame) -> bool:
    try:
        rows.write.format("noop").mode("overwrite").save()
    except JAVA_ERRORS as error:
        if not is_overflow(error):
            raise
        return False
    return True


def fits(timestamp_ms: int) -> bool:
    """Whether Spark has such a timestamp."""
    return timestamp_ms in _FITTING_MS


def columns(headers: bool) -> str:
    """The columns of Spark's Kafka source, as Spark reads a schema."""
    return _COLUMNS + (_HEADERS if headers else "")


@dataclass(slots=True)
class DriverRows:
    """Reads stretches of a window, by a session with a driver of its own and clients with the reader's options.

    :param headers: whether the rows have the column ``headers``.
    """

    spark: SparkSession
    clients: KafkaClients
    headers: bool
    _held_bytes: int = field(default=0, init=False)

    def frame(self, stretch: LogRange) -> DataFrame:
        """The records of a stretch in one task, in the columns of Spark's Kafka source. ``timestamp`` is null where
        Spark has none for it. Errors as in :func:`~.stretches.records_of`.
        """
        parts = [self._put(*chunk) for chunk in _chunks(self._rows(stretch))]
        rows = reduce(DataFrame.unionAll, parts or [self._made([])]).coalesce(1)
        return rows.select(
            *("key", "value", "topic", "partition", "offset"),
            F.timestamp_micros("timestamp_us").alias("timestamp"),
            "timestampType",
            *(["headers"] if self.headers else []),
        )

    def _put(self, rows: list[Row], size: int) -> DataFrame:
        if self._held_bytes + size > _HELD_BYTES:
            return kept_on_disk(self._made(rows))
        self._held_bytes += size
        return self._made(rows)

    def _made(self, rows: list[Row]) -> DataFrame:
        schema = columns(self.headers).replace("timestamp TIMESTAMP", "timestamp_us BIGINT")
        return self.spark.createDataFrame(rows, schema).coalesce(1)

    def _rows(self, stretch: LogRange) -> Iterator[tuple[Row, int]]:
        for _, record in records_of(self.clients, [stretch]):
            row = self._row(stretch, record)
            size = _ROW_BYTES + _size(row[0]) + _size(row[1])
            if self.headers:
                found = [(header.key(), header.value()) for header in record.headers().toArray()]
                row, size = (*row, found or None), size + sum(len(key) + _size(value) for key, value in found)
            yield row, size

    def _row(self, stretch: LogRange, record: Any) -> Row:
        return (
            *(record.key(), record.value(), stretch.topic, stretch.partition, int(record.offset())),
            self._microseconds(int(record.timestamp())),
            get_field(record.timestampType(), "id"),
        )

    def _microseconds(self, timestamp_ms: int) -> int | None:
        """As Spark's Kafka source has it, which makes a ``java.sql.Timestamp`` of it: one of long ago is moved from
        that class's calendar, the Julian one before 1582, to Spark's."""
        if not fits(timestamp_ms):
            return None
        if timestamp_ms >= 0:
            return timestamp_ms * 1000
        java: Any = self.spark._jvm
        converted = java.org.apache.spark.sql.catalyst.util.DateTimeUtils.fromJavaTimestamp
        return int(converted(java.java.sql.Timestamp(timestamp_ms)))


def _size(value: Any) -> int:
    return 0 if value is None else len(value)


def _chunks(rows: Iterable[tuple[Row, int]]) -> Iterator[Chunk]:
    chunk: list[Row] = []
    size = 0
    for row, row_bytes in rows:
        chunk.append(row)
        size += row_bytes
        if size >= _CHUNK_BYTES:
            yield chunk, size
            chunk, size = [], 0
    if chunk:
        yield chunk, size
