"""Spark's Kafka reader, as used for a window: its options, its source interface, and what it caches afterwards."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_kafka_offsets.compat.spark_versions import release_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.session.conf import GIVEN_BACK, KAFKA
from airflow_kafka_offsets.spark.session.connect import is_connect
from airflow_kafka_offsets.spark.session.session import held, java_classes, words

log = logging.getLogger(__name__)

FAST = {
    # Spark asks the leader for the log's start and end after every poll: two round trips for each 500 records by
    # default.
    "kafka.max.poll.records": "20000",
    # A task reads one partition, so a fetch brings at most this much of it: 1 MiB by default. More costs memory, which
    # executors should release soon: see tell_to_give_back.
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
_told: set[str] = set()
"""Ids of the applications whose user has been warned."""


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
def connector_required(spark: SparkSession) -> Iterator[None]:
    """Name the missing package when Spark says that it has no such source: whoever submits by hand may omit
    ``--packages``, or name the package of another Spark. A Spark Connect client gets the error only when the rows are
    written.

    :raises ConfigurationError: naming the package.
    """
    try:
        yield
    except Py4JJavaError as error:
        if _LINKED_WRONG.isdisjoint(java_classes(error)):
            raise
        raise ConfigurationError(
            f"Spark's Kafka connector is that of another Spark or Scala ({words(error)}). Use the connector of this "
            f"Spark, {release_of(spark).connector}, and no other."
        ) from error
    except AnalysisException as error:
        if _NO_SOURCE not in str(error):
            raise
        raise ConfigurationError(
            f"Spark's Kafka connector is missing: give KafkaSparkSubmitOperator connector='auto', or add "
            f"{release_of(spark).connector} to packages= (--packages of spark-submit)."
        ) from error


@contextmanager
def newer_source(spark: SparkSession) -> Iterator[None]:
    """Inside the block, read Kafka by Spark's newer source interface (version 2), unless the session says otherwise.
    The older interface, which is the default, makes an object of every record and takes it apart again.

    Spark chooses the interface each time it resolves a plan: when a frame is made, and again when it is written. So the
    conf is set around both, and no longer, because the session's other reads of Kafka are the user's. Threads of one
    session may overlap. A Spark Connect server resolves a plan, with this conf, each time it runs.
    """

    def without_kafka(given: str | None) -> str | None:
        older = (spark.conf.get(OLDER_SOURCES) or "").split(",")
        return ",".join(source for source in older if source != "kafka") if given is None else None

    with held(spark, OLDER_SOURCES, without_kafka):
        yield


def tell_to_give_back(spark: SparkSession) -> None:
    """Tell the user once which confs to start the session with, so that executors release memory as soon as it is idle.
    An executor reads them when it first reads Kafka; a Spark Connect server has its own, which no client sees.

    Spark's Kafka source pools its consumers (64 per executor) and, without any bound, the records of each task's last
    poll, for five minutes. Both pools are keyed by group id, and each read has its own group id. So only another part
    of the same partition can use an entry again, and only moments later. With the fast settings an entry is about 8 MiB
    per task: two hundred tasks within five minutes fill Spark's default heap of 1 GiB.
    """
    if is_connect(spark) or spark.sparkContext.applicationId in _told:
        return
    confs = spark.sparkContext.getConf()
    missing = {name: value for name, value in GIVEN_BACK.items() if not confs.contains(name)}
    if missing:
        _told.add(spark.sparkContext.applicationId)
        log.warning(
            "Spark's executors keep the last fetch of each task, some 8 MiB, for five minutes: many tasks or windows "
            "in one session can fill their memory. Start the session with %s.",
            " ".join(f"--conf {name}={value}" for name, value in missing.items()),
        )
