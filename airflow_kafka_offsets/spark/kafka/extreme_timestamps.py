"""Extreme timestamps: records whose timestamp, in microseconds, doesn't fit the 64 bits that Spark has for it.

A producer may give a record any timestamp: by default brokers accept any that lies in the past. Spark's Kafka source
fails on such a record ("long overflow"), and the window with it. Only then are the stretches with such records searched
for and named: Spark reads halves of the range that failed, down to a few offsets; from there Kafka's own consumer looks
at the records one by one.

The driver reads the named stretches itself, with a null timestamp where Spark can't hold the value, so nothing is lost.
A stretch may have any number of records, so the driver holds a bounded amount in memory. The rest lies on the
executors' disks as Spark's local checkpoints, and is freed with the frames. If an executor is lost, its checkpoints are
lost too: the attempt fails, and the next one reads again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, islice, zip_longest
from typing import Any

from py4j.java_gateway import get_field  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.spark_versions import kept_on_disk
from airflow_kafka_offsets.errors import ConfigurationError, ExtremeTimestampError, shorten
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, merged
from airflow_kafka_offsets.offsets.proof.left import pieces, without
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients
from airflow_kafka_offsets.spark.kafka.stretches import records_of
from airflow_kafka_offsets.spark.session.conf import EXTREME_TIMESTAMPS
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS

_NAMED = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+):(?P<first>\d+)(-(?P<last>\d+))?")
_FEW = 1_000
"""Up to this many offsets are searched without Spark, whose shortest job takes as long. A stretch ends after as many
records in a row that Spark can read."""
_MANY = 20_000
"""A stretch with this many extreme records is assumed to reach the range's end: Python looks at only a few thousand
records a second, and the driver can also read the records that Spark could."""
_FOUND = 20
"""How many stretches are searched for: each costs a few short Spark jobs."""
_LONGEST = 1_500
"""Maximum characters of the conf's value, because the note that carries the error to Airflow is limited in size."""
_HELD_BYTES = 16 * 1024 * 1024
"""How much of all stretches together the driver holds in memory while their frames exist."""
_CHUNK_BYTES = 4 * 1024 * 1024
"""How much of one stretch is read before it becomes a frame."""
_ROW_BYTES = 256
"""Approximate size of a row without its key, value and headers."""
_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_FITTING_MS = range(-(2**63 // 1000), 2**63 // 1000 + 1)
"""Spark counts microseconds in 64 bits."""

Row = tuple[object, ...]
Chunk = tuple[list[Row], int]
"""Rows, and their size in bytes."""
Read = Callable[[Sequence[LogRange]], DataFrame]
"""Reads ranges with Spark's Kafka source."""


def named(text: str) -> tuple[LogRange, ...]:
    """Parse ``flights-0:17, flights-2:40-49``: topic, partition, first and last offset. Refuse anything else."""
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
    """The inverse of :func:`named`, in order; adjacent stretches are merged."""
    return ",".join(f"{TopicPartition.of(stretch)}:{_offsets(stretch)}" for stretch in merged(stretches))


def _offsets(stretch: LogRange) -> str:
    first, last = stretch.start_offset, stretch.end_offset - 1
    return str(first) if first == last else f"{first}-{last}"


def within(stretches: Iterable[LogRange], ranges: Iterable[LogRange]) -> list[LogRange]:
    """The parts of the named stretches that belong to a window, in order, each offset once."""
    found: list[LogRange] = []
    for each in ranges:
        position = each.start_offset
        for stretch in sorted(stretches):
            first, end = max(stretch.start_offset, position), min(stretch.end_offset, each.end_offset)
            if TopicPartition.of(stretch) == TopicPartition.of(each) and first < end:
                found.append(stretch._replace(start_offset=first, end_offset=end))
                position = end
    return found


def layers(ranges: Sequence[LogRange], stretches: Iterable[LogRange]) -> list[tuple[LogRange, ...]]:
    """The ranges without the stretches that the driver reads, in layers: one read by Spark takes only one range per
    partition."""
    parts = pieces(without(ranges, stretches)).values()
    return [tuple(piece for piece in layer if piece is not None) for layer in zip_longest(*parts)]


def is_overflow(error: Exception) -> bool:
    """Whether Spark failed on such a timestamp, rather than on a number in the user's own query."""
    text = str(error)
    return "long overflow" in text and "KafkaRecordToRowConverter" in text


def extreme_timestamp_error(
    read: Read, clients: KafkaClients, window: str, ranges: Iterable[LogRange], *, more: bool
) -> ExtremeTimestampError | None:
    """The error that names the unreadable records in the ranges that Spark has read, and what to do. None if Spark can
    read all of them now. With ``more``, the conf already names other records."""
    searched = chain.from_iterable(_Search(read, clients, each).within(each) for each in ranges)
    found = list(islice(searched, _FOUND + 1))
    if not found:
        return None
    told = found[:_FOUND]
    while len(told) > 1 and len(text_of(extreme.stretch for extreme in told)) > _LONGEST:
        told.pop()
    give = "add these to the Spark application's conf:" if more else "give the Spark application the conf"
    rest = " There are more: run again to name them, or name longer stretches." if len(found) > len(told) else ""
    return ExtremeTimestampError(
        f"Window {window} has records whose timestamps Spark's Kafka source can't read, because they lie more than "
        f"292,000 years from 1970: {shorten(map(str, told))}. Nothing is published. Does a producer write nanoseconds? "
        f"To load them with the timestamp null, {give} "
        f"{EXTREME_TIMESTAMPS}={text_of(extreme.stretch for extreme in told)}.{rest}"
    )


@dataclass(frozen=True, slots=True)
class _Extremes:
    """A stretch from the first extreme record to the last, which may include others: so a few stretches can name many
    records, wherever they lie. ``timestamp_ms`` is the first extreme record's, as its producer gave it."""

    stretch: LogRange
    records: int
    timestamp_ms: int

    def __str__(self) -> str:
        partition, first, last = TopicPartition.of(self.stretch), self.stretch.start_offset, self.stretch.end_offset - 1
        if self.records == 1:
            return f"{partition} at {last}, {self.timestamp_ms} ms"
        return f"{partition} from {first} to {last}, {self.records} records, the first of {self.timestamp_ms} ms"


class _Search:
    """Searches one range from its start."""

    def __init__(self, read: Read, clients: KafkaClients, offset_range: LogRange) -> None:
        self._read, self._clients, self._range = read, clients, offset_range
        self._reached = offset_range.start_offset

    def within(self, piece: LogRange) -> Iterator[_Extremes]:
        start, end = max(piece.start_offset, self._reached), piece.end_offset
        if start >= end or _reads(self._read([piece._replace(start_offset=start)])):
            return
        if end - start <= _FEW:
            yield from self._looked_at(start)
            return
        middle = (start + end) // 2
        yield from self.within(piece._replace(start_offset=start, end_offset=middle))
        yield from self.within(piece._replace(start_offset=middle))

    def _looked_at(self, start: int) -> Iterator[_Extremes]:
        """The stretch that begins within the next few offsets, however far it extends."""
        topic, partition, range_end = self._range.topic, self._range.partition, self._range.end_offset
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
    """Whether Spark can hold such a timestamp."""
    return timestamp_ms in _FITTING_MS


def columns(headers: bool) -> str:
    """The columns of Spark's Kafka source, as a Spark schema."""
    return _COLUMNS + (_HEADERS if headers else "")


@dataclass(slots=True)
class DriverRows:
    """Reads stretches of a window on the driver. The session must have its own driver; the clients have the reader's
    options.

    :param headers: whether the rows have the column ``headers``.
    """

    spark: SparkSession
    clients: KafkaClients
    headers: bool
    _held_bytes: int = field(default=0, init=False)

    def frame(self, stretch: LogRange) -> DataFrame:
        """The records of a stretch, in one task, with the columns of Spark's Kafka source. ``timestamp`` is null if
        Spark can't hold it. Errors as in :func:`~.stretches.records_of`.
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
        """The same value as Spark's Kafka source, which makes a ``java.sql.Timestamp`` first: Spark converts old ones
        from that class's calendar, which is Julian before 1582, to its own."""
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
