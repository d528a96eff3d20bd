"""Spark's Kafka reader, as used for a window: its options, its source interface, and the record that it can't read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.compat.spark_versions import release_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange, span_of
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.session.conf import KAFKA
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, held, java_classes, words

FAST = {
    # Spark asks the leader for the log's start and end after every poll: two round trips for each 500 records by
    # default.
    "kafka.max.poll.records": "20000",
    # A task reads one partition, so a fetch brings at most this much of it: 1 MiB by default. More costs memory, which
    # executors should release soon: Spark pools consumers, and without any bound each task's last fetch, for five
    # minutes, by a group id that each read has for itself. The submission's confs shorten that.
    "kafka.max.partition.fetch.bytes": str(4 * 1024 * 1024),
    # When a range reaches the log's end, the consumer asks for more than there is, and Spark's next request on that
    # connection waits until the broker gives up: half a second a task by default. From Kafka 3.8 on, remote storage has
    # a wait limit of its own (KIP-1018).
    "kafka.fetch.max.wait.ms": "10",
    # Spark sets 64 KiB, which caps a connection at 64 KiB a round trip; -1 leaves the TCP window to the operating
    # system.
    "kafka.receive.buffer.bytes": "-1",
}
"""Reader options that differ from Spark's defaults. Together they make reads about four times as fast."""

_PINNED = frozenset(
    name.lower()
    for name in (
        *("assign", "subscribe", "subscribePattern", "startingOffsets", "endingOffsets", "failOnDataLoss"),
        *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
        *("startingOffsetsByTimestampStrategy", "kafka.isolation.level"),
    )
)
"""Options that would change which records are read (Spark ignores case): only the manifest decides that."""
_LINKED_WRONG = frozenset(
    f"java.lang.{name}"
    for name in ("NoClassDefFoundError", "NoSuchMethodError", "AbstractMethodError", "IncompatibleClassChangeError")
) | {"java.util.ServiceConfigurationError"}
"""What Java throws when a class was compiled against another version of a class that it uses."""
_NO_SOURCE = "Failed to find data source: kafka"
COLUMNS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
"""The columns of Spark's Kafka source, as a Spark schema; and the one that it adds for ``includeHeaders``."""
OLDER_SOURCES = "spark.sql.sources.useV1SourceList"
"""Spark's conf with the comma-separated sources that it reads by the older interface."""


def reader_options(manifest: Manifest, kafka: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """All options of the Kafka reader except the ranges. The pinned options beat the caller's, those the connection's,
    and those the fast defaults.

    :raises ConfigurationError: when an option would change which records are read, or no broker is named.
    """
    chosen = FAST | dict(kafka) | dict(options)
    refused = sorted(name for name in chosen if name.lower() in _PINNED)
    if refused:
        raise ConfigurationError(f"{', '.join(refused)} can't be set: the manifest says which records are read.")
    if manifest.non_empty() and "kafka.bootstrap.servers" not in chosen:
        raise ConfigurationError(f"No broker is named. Set the conf {KAFKA}bootstrap.servers.")
    return chosen | {"failOnDataLoss": "true", "kafka.isolation.level": str(manifest.isolation_level)}


def exactly(ranges: Sequence[LogRange]) -> dict[str, str]:
    """The options with which the Kafka reader reads exactly these ranges: at most one per partition, in order."""
    topics = {topic: list(pinned) for topic, pinned in groupby(ranges, attrgetter("topic"))}
    starts = {topic: {one.partition: one.start_offset for one in pinned} for topic, pinned in topics.items()}
    ends = {topic: {one.partition: one.end_offset for one in pinned} for topic, pinned in topics.items()}
    return {
        "assign": json.dumps({topic: list(partitions) for topic, partitions in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }


@contextmanager
def kafka_source(spark: SparkSession) -> Iterator[None]:
    """Inside the block, read Kafka by Spark's newer source interface (version 2), unless the session says otherwise.
    The older interface, which is the default, makes an object of every record and takes it apart again.

    Spark chooses the interface each time it resolves a plan: when a frame is made, and again when it is written. So the
    conf is set around both, and no longer, because the session's other reads of Kafka are the user's. Threads of one
    session may overlap. A Spark Connect server resolves a plan, with this conf, each time it runs.

    :raises ConfigurationError: Spark has no such source, or that of another Spark: whoever submits by hand may omit
        ``--packages``. A Spark Connect client gets the error only when the rows are written.
    """

    def without_kafka(given: str | None) -> str | None:
        older = (spark.conf.get(OLDER_SOURCES) or "").split(",")
        return ",".join(source for source in older if source != "kafka") if given is None else None

    try:
        with held(spark, OLDER_SOURCES, without_kafka):
            yield
    except Py4JJavaError as error:
        if _LINKED_WRONG.isdisjoint(java_classes(error)):
            raise
        raise ConfigurationError(
            f"Spark's Kafka connector is that of another Spark or Scala ({words(error)}). Use the connector of this "
            f"Spark, {release_of(spark).package('kafka')}, and no other."
        ) from error
    except AnalysisException as error:
        if _NO_SOURCE not in str(error):
            raise
        raise ConfigurationError(
            f"Spark's Kafka connector is missing: give KafkaSparkSubmitOperator connector='auto', or add "
            f"{release_of(spark).package('kafka')} to packages= (--packages of spark-submit)."
        ) from error


def is_overflow(error: Exception) -> bool:
    """Whether Spark failed on a record's timestamp that, in microseconds, doesn't fit the 64 bits that it has for one;
    rather than on a number in the user's own query. By default, brokers accept any that lies in the past."""
    text = str(error)
    return "long overflow" in text and "KafkaRecordToRowConverter" in text


def first_unreadable(
    read: Callable[[Sequence[LogRange]], DataFrame], ranges: Sequence[LogRange]
) -> ReadPosition | None:
    """The first record with such a timestamp in ranges that Spark has failed to read; None if Spark reads them now.
    Spark doesn't say which it was: it reads half of what has failed, and half of that, down to one offset. All these
    reads together take as long as one more read of the window.

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
