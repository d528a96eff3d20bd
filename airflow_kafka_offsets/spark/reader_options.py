"""The options of Spark's Kafka reader: fast ones, those that the manifest decides, and the exact ranges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.spark.conf import KAFKA
from airflow_kafka_offsets.spark.files.hadoop import is_connect

FAST = {
    # Spark asks the leader for the log's start and end after every poll: two round trips for each 500 records by
    # default.
    "kafka.max.poll.records": "20000",
    # A task reads one partition, so what a fetch may bring is what one partition may bring: 1 MiB by default. More
    # costs memory, which executors are to give back soon: see idle_consumers.
    "kafka.max.partition.fetch.bytes": str(4 * 1024 * 1024),
    # Where a range reaches the log's end, the consumer asks for more than there is, and Spark's next question on that
    # connection waits until the broker gives up: half a second a task by default. From Kafka 3.8 on what lies in remote
    # storage has a limit of its own (KIP-1018).
    "kafka.fetch.max.wait.ms": "10",
    # Spark sets 64 KiB, which caps a connection at 64 KiB a round trip; -1 leaves the window to the operating system.
    "kafka.receive.buffer.bytes": "-1",
}
"""Reader options that differ from Spark's defaults. Together they read some four times as fast."""

_PINNED = frozenset(
    name.lower()
    for name in (
        *("assign", "subscribe", "subscribePattern", "startingOffsets", "endingOffsets", "failOnDataLoss"),
        *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
        *("startingOffsetsByTimestampStrategy", "kafka.isolation.level"),
    )
)
"""Options that would change which records are read (Spark ignores case): the manifest alone decides."""


def cores(spark: SparkSession) -> int | None:
    """How many tasks run at the same time: executors that the driver hasn't got yet don't count.

    Under Spark Connect, which has no driver at hand, the conf ``spark.default.parallelism`` says it; None without.
    """
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    told = spark.conf.get("spark.default.parallelism", None)
    return int(told) if told else None


def reader_options(manifest: Manifest, kafka: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """All options of the Kafka reader but the ranges: the fast settings, under the connection's, under the caller's,
    and the pinned ones.

    :raises ConfigurationError: when one would change which records are read, or no broker is named.
    """
    chosen = FAST | dict(kafka) | dict(options)
    refused = sorted(name for name in chosen if name.lower() in _PINNED)
    if refused:
        raise ConfigurationError(f"{', '.join(refused)} can't be set: the manifest says which records are read.")
    if manifest.non_empty() and "kafka.bootstrap.servers" not in chosen:
        raise ConfigurationError(f"No broker is named. Set the conf {KAFKA}bootstrap.servers.")
    return chosen | {"failOnDataLoss": "true", "kafka.isolation.level": str(manifest.isolation_level)}


def exactly(ranges: Sequence[OffsetRange]) -> dict[str, str]:
    """The options of the Kafka reader by which it reads these ranges, one of a partition and in order, and no more."""
    topics = {topic: list(each) for topic, each in groupby(ranges, attrgetter("topic"))}
    starts = {topic: {each.partition: each.start_offset for each in rows} for topic, rows in topics.items()}
    ends = {topic: {each.partition: each.end_offset for each in rows} for topic, rows in topics.items()}
    return {
        "assign": json.dumps({topic: list(partitions) for topic, partitions in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }
