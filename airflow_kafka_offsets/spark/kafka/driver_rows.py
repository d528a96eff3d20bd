"""Rows that the driver reads itself, by Kafka's own consumer: stretches of a window with records that Spark's Kafka
source fails on.

Any number of them: what the driver holds at a time is bounded. The rest lies on the executors' disks, by Spark's local
checkpoints, and goes with the rows; where an executor is lost with it, the attempt fails, and the next one reads anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from py4j.java_gateway import get_field  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.spark_versions import kept_on_disk
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients
from airflow_kafka_offsets.spark.kafka.stretches import records_of

_HELD_BYTES = 16 * 1024 * 1024
"""How much of all stretches together the driver holds as long as its frames are there."""
_CHUNK_BYTES = 4 * 1024 * 1024
"""How much of one stretch it reads before it puts that away."""
_ROW_BYTES = 256
"""What a row takes beside key, value and headers, about."""
_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp_us BIGINT, timestampType INT"
)
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_FITTING_MS = range(-(2**63 // 1000), 2**63 // 1000 + 1)
"""Spark counts microseconds in 64 bits."""

Row = tuple[object, ...]
Chunk = tuple[list[Row], int]
"""Rows, and how many bytes they are."""


def fits(timestamp_ms: int) -> bool:
    """Whether Spark has such a timestamp."""
    return timestamp_ms in _FITTING_MS


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
        columns = f"{_COLUMNS}, {_HEADERS}" if self.headers else _COLUMNS
        return self.spark.createDataFrame(rows, columns).coalesce(1)

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
