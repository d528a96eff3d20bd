"""Spark on two cores of this machine with the Kafka connector, and pinned windows over whole topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import GIVEN_BACK, RunConf
from dev import raw_client
from dev.spark_packages import jars_of
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, Clusters, Topic, create, wait_for_leaders
from tests.benchmarks.records import RECORD_BYTES, Content, write_records
from tests.unit.spark.manifests import manifest_of

CORES = 2
EVEN = "even"


@cache
def session() -> SparkSession:
    """The session that all benchmarks of this process share. PySpark ends it with the process."""
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    builder = builder.config("spark.jars", f"{jars_of('connector')},{jars_of('avro')}")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR")
    return builder.config(map=dict(GIVEN_BACK)).config("spark.driver.memory", "2g").getOrCreate()


@cache
def even(clusters: Clusters) -> Manifest:
    """The window over a topic of 8 partitions with the same number of records each. Several benchmarks read it."""
    return written(clusters, EVEN, dict.fromkeys(range(8), clusters.sizes.records // 8))


def written(clusters: Clusters, name: str, counts: Mapping[int, int], content_of: Content | None = None) -> Manifest:
    """Write records into a new topic. Returns the window over all of them.

    :param counts: how many, by partition.
    :param content_of: makes the values; None for JSON.
    """
    address = clusters.records.bootstrap_servers
    topic = Topic(name, len(counts))
    create(address, topic)
    wait_for_leaders(address, [topic])
    clusters.say(f"writing {sum(counts.values()):,} records of {RECORD_BYTES} bytes to {name}")
    write_records(address, name, counts, content_of=content_of)
    made = manifest_of(
        [(name, partition, 0, count) for partition, count in counts.items()],
        start_ms=INSTANT_MS,
        end_ms=INSTANT_MS + HOUR_MS,
    )
    return replace(made, cluster_id=raw_client.metadata(address).cluster_id)


def opened(clusters: Clusters, manifest: Manifest, *, allow_gaps: bool = False) -> PinnedWindow:
    """A window that is only read, so it needn't be in a ledger.

    :param allow_gaps: if true, the read is counted, because the proof of the output needs it.
    """
    kafka = {"kafka.bootstrap.servers": clusters.records.bootstrap_servers}
    conf = RunConf("", "", None, kafka, allow_gaps=allow_gaps, bytes_per_record=RECORD_BYTES)
    return PinnedWindow(session(), manifest, conf)


def stock(address: str, topic: str, **options: str) -> DataFrame:
    """Spark's connector with its defaults, on the whole topic."""
    named = {"kafka.bootstrap.servers": address, "subscribe": topic, **options}
    return session().read.format("kafka").options(**named).load()


def consume(rows: DataFrame) -> None:
    """Read all rows and discard them."""
    rows.write.format("noop").mode("overwrite").save()
