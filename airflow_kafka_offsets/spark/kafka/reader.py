"""Spark's Kafka reader as a window is read by it: its options, the interface to it, and what it keeps afterwards."""

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

from airflow_kafka_offsets.compat.spark_versions import connector
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.spark.session.conf import GIVEN_BACK, KAFKA
from airflow_kafka_offsets.spark.session.session import held, is_connect, java_classes, words

log = logging.getLogger(__name__)

FAST = {
    # Spark asks the leader for the log's start and end after every poll: two round trips for each 500 records by
    # default.
    "kafka.max.poll.records": "20000",
    # A task reads one partition, so what a fetch may bring is what one partition may bring: 1 MiB by default. More
    # costs memory, which executors are to give back soon: see give_back_soon.
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
_LINKED_WRONG = frozenset(
    f"java.lang.{name}"
    for name in ("NoClassDefFoundError", "NoSuchMethodError", "AbstractMethodError", "IncompatibleClassChangeError")
) | {"java.util.ServiceConfigurationError"}
"""What Java throws of a class that was compiled against another version of what it uses."""
_NO_SOURCE = "Failed to find data source: kafka"
OLDER_SOURCES = "spark.sql.sources.useV1SourceList"
"""Spark's conf with the sources that it reads by the older interface, with commas between."""
_EVICTOR = "kafka-fetched-data-cache-evictor"
"""The thread by which a Java process shows that it has made the pools."""
_told: set[str] = set()
"""Applications whose user was told."""


def cores(spark: SparkSession) -> int | None:
    """How many tasks run at the same time: executors that the driver hasn't got yet don't count. Under Spark Connect,
    which has no driver at hand, the conf ``spark.default.parallelism`` says it; None without."""
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
    """Say which package is missing, where Spark says that it has no source of that name: who submits by hand may leave
    out ``--packages``, or name that of another Spark. A client of Spark Connect hears it when the rows are written.

    :raises ConfigurationError: naming it.
    """
    try:
        yield
    except Py4JJavaError as error:
        if _LINKED_WRONG.isdisjoint(java_classes(error)):
            raise
        raise ConfigurationError(
            f"Spark's Kafka connector is that of another Spark or Scala ({words(error)}). Give the one of this Spark, "
            f"{connector(spark)}, and no other."
        ) from error
    except AnalysisException as error:
        if _NO_SOURCE not in str(error):
            raise
        raise ConfigurationError(
            f"Spark's Kafka connector is missing: add {connector(spark)} to packages= (--packages of spark-submit)."
        ) from error


@contextmanager
def newer_source(spark: SparkSession) -> Iterator[None]:
    """Have what is resolved meanwhile read Kafka by Spark's newer interface to its sources (version 2), where the
    session doesn't say otherwise. The older one, which is the default, makes an object of every record and takes it
    apart again.

    Which one it is gets decided each time Spark resolves a plan: when a frame is made, and again when it is written. So
    the conf is set around both, and no longer, as a session's other reads of Kafka are the user's. Threads of one
    session may overlap. Under Spark Connect the server resolves a plan each time that it runs, with that conf.
    """

    def without_kafka(given: str | None) -> str | None:
        older = (spark.conf.get(OLDER_SOURCES) or "").split(",")
        return ",".join(source for source in older if source != "kafka") if given is None else None

    with held(spark, OLDER_SOURCES, without_kafka):
        yield


def give_back_soon(spark: SparkSession) -> None:
    """Have the executors give back memory as soon as it is idle, where that can still be said: in local mode, before
    Kafka is read for the first time. Elsewhere tell the user once which confs to start the session with.

    Spark's Kafka source pools the consumers (64 an executor) and, without any bound, the records that each task's last
    poll brought, for five minutes. Each read has a group id of its own, by which both pools go, so that nobody ever
    asks for them again but another part of the same partition, moments later. With the fast settings they are some
    8 MiB a task: two hundred tasks within five minutes fill Spark's default heap of 1 GiB. The pools are made when an
    executor first reads Kafka, from the confs that it was started with. The server of Spark Connect has its own, which
    no client sees.
    """
    if is_connect(spark):
        return
    confs = spark.sparkContext.getConf()
    missing = {name: value for name, value in GIVEN_BACK.items() if not confs.contains(name)}
    if missing and not _said_in_time(spark) and spark.sparkContext.applicationId not in _told:
        _told.add(spark.sparkContext.applicationId)
        log.warning(
            "Spark's executors keep what each task fetched last, some 8 MiB, for five minutes: many tasks or windows "
            "in one session can fill them. Start the session with %s.",
            " ".join(f"--conf {name}={value}" for name, value in missing.items()),
        )


def _said_in_time(spark: SparkSession) -> bool:
    """Whether driver and executor are one process, whose pools have these confs or will have them."""
    master = str(spark.sparkContext.master)
    if not master.startswith("local") or master.startswith("local-cluster"):
        return False
    jvm = spark._jvm
    assert jvm is not None, "the session is not one of Spark Connect"
    system, environment = jvm.java.lang.System, jvm.org.apache.spark.SparkEnv.get().conf()
    # A later session of this process finds them among Java's properties, as the pools outlive a session.
    said = all(system.getProperty(name) for name in GIVEN_BACK)
    if not said and _EVICTOR in str(jvm.java.lang.Thread.getAllStackTraces().keySet()):
        return False
    for name, value in GIVEN_BACK.items():
        environment.setIfMissing(name, value)
        system.setProperty(name, environment.get(name))
    return True
