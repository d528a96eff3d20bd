"""The pinned window: exactly the records of a manifest, read by Spark's Kafka source in batch mode.

Spark gets numbers only, built from one set of rows: ``assign`` on the ranges that hold something, so that a partition
added later changes nothing (S17), and a start and an end for each, so that a task that runs twice reads the same (S24).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.spark.conf import KAFKA, RunConf
from airflow_kafka_offsets.spark.hadoop import HadoopFiles, hadoop_uri

FAST = {
    # Spark asks the leader for the log's start and end after every poll: two round trips for each 500 records by
    # default.
    "kafka.max.poll.records": "20000",
    # A task reads one partition, so what a fetch may bring is what one partition may bring: 1 MiB by default.
    "kafka.max.partition.fetch.bytes": str(16 * 1024 * 1024),
    # Spark sets 64 KiB, which caps a connection at 64 KiB a round trip; -1 leaves the window to the operating system.
    "kafka.receive.buffer.bytes": "-1",
}
"""Reader options that differ from Spark's defaults. Together they read about twice as fast."""

_PINNED = frozenset(
    name.lower()
    for name in (
        *("assign", "subscribe", "subscribePattern", "startingOffsets", "endingOffsets", "failOnDataLoss"),
        *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
        *("startingOffsetsByTimestampStrategy", "kafka.isolation.level"),
    )
)
"""Options that would change which records are read (Spark ignores case): the manifest alone decides."""
_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


@dataclass(frozen=True, slots=True)
class PinnedWindow:
    """A window that a Spark session may read.

    :param spark: the session.
    :param folder: the window's folder in the ledger, where the manifest is.
    :param manifest: the exact ranges.
    :param attempt: the run's name, used by no other.
    :param kafka: options of the Kafka reader, secrets included; kept out of ``repr``.
    :param allow_gaps: whether offsets without a record are expected.
    """

    spark: SparkSession
    folder: str
    manifest: Manifest
    attempt: str
    kafka: Mapping[str, str] = field(repr=False)
    allow_gaps: bool = False

    @classmethod
    def open(cls, spark: SparkSession, conf: RunConf) -> Self:
        """Read and check the manifest.

        :raises LedgerCorruptError: when it is missing, or isn't the one that was pinned. Nothing is read from Kafka.
        """
        content = HadoopFiles(spark).read(conf.manifest_uri)
        if content is None:
            raise LedgerCorruptError(f"There is no manifest at {conf.manifest_uri}.")
        manifest = Manifest.from_bytes(content, conf.sha256)
        folder = hadoop_uri(conf.manifest_uri).rpartition("/")[0]
        return cls(spark, folder, manifest, conf.attempt, conf.kafka, conf.allow_gaps)

    def read(self, **options: str) -> DataFrame:
        """The window's records, with the columns of Spark's Kafka source: key, value, topic, partition, offset,
        timestamp, timestampType, and headers where ``includeHeaders`` is true.

        Each action on the frame reads Kafka anew (S25). A window without offsets gives a frame without rows, and Kafka
        isn't asked (S6).

        :param options: more options of Spark's Kafka source, for example ``minPartitions``; they beat all others.
        :raises ConfigurationError: for an option that would change which records are read.
        """
        chosen = reader_options(self.manifest, self.kafka, options)
        if not self.manifest.non_empty():
            headers = chosen.get("includeHeaders", "false").lower() == "true"
            return self.spark.createDataFrame([], _COLUMNS + (_HEADERS if headers else ""))
        return self.spark.read.format("kafka").options(**chosen).load()


def pinned_window(spark: SparkSession) -> PinnedWindow:
    """The window that this Spark job was submitted for, from its confs (see :mod:`airflow_kafka_offsets.spark.conf`).

    :raises ConfigurationError: when a conf is missing or malformed.
    :raises LedgerCorruptError: when the manifest isn't the one that was pinned.
    """
    return PinnedWindow.open(spark, RunConf.read(spark.conf.getAll, os.environ))


def reader_options(manifest: Manifest, kafka: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """All options of the Kafka reader: the fast settings, under the connection's, under the caller's, and the pinned
    ones.

    :raises ConfigurationError: when one would change which records are read, or no broker is named.
    """
    chosen = FAST | dict(kafka) | dict(options)
    refused = sorted(name for name in chosen if name.lower() in _PINNED)
    if refused:
        raise ConfigurationError(f"{', '.join(refused)} can't be set: the manifest says which records are read.")
    ranges = manifest.non_empty()
    if ranges and "kafka.bootstrap.servers" not in chosen:
        raise ConfigurationError(f"No broker is named. Set the conf {KAFKA}bootstrap.servers.")
    topics = {topic: list(each) for topic, each in groupby(ranges, attrgetter("topic"))}
    starts = {topic: {each.partition: each.start_offset for each in rows} for topic, rows in topics.items()}
    ends = {topic: {each.partition: each.end_offset for each in rows} for topic, rows in topics.items()}
    return chosen | {
        "assign": json.dumps({topic: list(partitions) for topic, partitions in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "failOnDataLoss": "true",
        "kafka.isolation.level": str(manifest.isolation_level),
    }
