"""Memory of Spark: many windows, loaded one after another by one session with its default heap.

Each side has its own Java process, which is both driver and executor. A window ends inside its log, as past windows do,
so that each task's last fetch returns as much as it may. Run as a module, it loads and prints MiB:

    python -m tests.benchmarks.spark_memory ours 127.0.0.1:9092 topic 12 5000 25 512m
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, left_of
from airflow_kafka_offsets.spark.kafka.reader import FAST, exactly, reader_options
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import GIVEN_BACK, RunConf
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from dev import ROOT
from dev.spark_packages import jars_of
from tests.benchmarks.clusters import Clusters, Topic, create, wait_for_leaders
from tests.benchmarks.records import write_records
from tests.benchmarks.report import Row
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import manifest_of

_PARTITIONS = 12
_RECORD_BYTES = 1_200
_RECORDS = 4_000
"""Records of each partition and window: half of its log."""
_LOADS = 200
_HEAP = "1g"
_HELD_MIB = 256.0


def spark_memory(clusters: Clusters) -> Iterator[Row]:
    """Ours, and Spark's connector for comparison."""
    address = clusters.records.bootstrap_servers
    write_large(address, "large")
    held = {}
    loads = clusters.sizes.part(_LOADS)
    for who in ("ours", "stock"):
        clusters.say(f"loading {loads} windows, {who}")
        held[who] = held_mib(who, address, "large", _PARTITIONS, _RECORDS, loads, _HEAP)
    if held["ours"] is None:
        raise AssertionError(f"{loads} loads don't fit into {_HEAP}")
    work = f"heap held after {loads} windows of {_PARTITIONS} partitions, {_HEAP}"
    yield Row.absolute(work, held["ours"], "MiB", limit=_HELD_MIB)
    yield Row.noted("… Spark's connector's", "out of memory" if held["stock"] is None else f"{held['stock']:.0f} MiB")


def write_large(address: str, topic: str) -> None:
    """Write a topic with records of 1.2 KB. A window reads its first half."""
    made = Topic(topic, _PARTITIONS)
    create(address, made)
    wait_for_leaders(address, [made])
    write_records(address, topic, dict.fromkeys(range(_PARTITIONS), 2 * _RECORDS), record_bytes=_RECORD_BYTES)


def held_mib(who: str, address: str, topic: str, partitions: int, records: int, loads: int, heap: str) -> float | None:
    """MiB of heap that the session still held after its last load; None if it ran out of memory.

    :param who: ``ours``, or ``stock`` for Spark's connector with its defaults.
    :param records: how many records of each partition are read, from the first one.
    :param heap: in Spark's notation.
    """
    command = [sys.executable, "-m", "tests.benchmarks.spark_memory", who, address, topic]
    command += [str(partitions), str(records), str(loads), heap]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if run.returncode and "OutOfMemoryError" in run.stderr:
        return None
    if run.returncode:
        raise RuntimeError(run.stderr[-3000:])
    return float(run.stdout.splitlines()[-1])


def measure(who: str, address: str, topic: str, partitions: int, records: int, loads: int, heap: str) -> float:
    """Load in this process, whose Java starts now. Each window has its own files, which the next one removes."""
    builder = SparkSession.builder.master("local[2]").appName("memory").config("spark.jars", jars_of("connector"))
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR")
    given_back = GIVEN_BACK if who == "ours" else {}
    spark = builder.config(map=dict(given_back)).config("spark.driver.memory", heap).getOrCreate()
    kafka = {"kafka.bootstrap.servers": address}
    with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": address}), timeout_s=30) as client:
        cluster_id = client.cluster_id()
    manifest = replace(
        manifest_of([(topic, partition, 0, records) for partition in range(partitions)]), cluster_id=cluster_id
    )
    stock = {name: each for name, each in reader_options(manifest, kafka, {}).items() if name not in FAST}
    stock |= exactly(left_of(manifest))
    for _ in range(loads):
        with tempfile.TemporaryDirectory() as folder:
            if who == "ours":
                _load(spark, manifest, kafka, Path(folder))
            else:
                spark.read.format("kafka").options(**stock).load().write.parquet(f"file://{folder}/table")
    jvm = spark._jvm
    assert jvm is not None, "the session is not one of Spark Connect"
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


def _load(spark: SparkSession, manifest: Manifest, kafka: dict[str, str], folder: Path) -> None:
    ledger = ledgers.ledger_in(folder / "flights")
    pinned = ledgers.pin(ledger, manifest)
    found, attempt = ledger.pinned(pinned), ledgers.begin(ledger, pinned)
    window = PinnedWindow.open(spark, RunConf(found.uri, found.sha256, attempt, kafka))
    result = window.write(window.read(), FileSink((folder / "table").as_uri()))
    assert result.rows_written == manifest.span


if __name__ == "__main__":
    side, servers, name, *counts, memory = sys.argv[1:]
    print(measure(side, servers, name, *(int(each) for each in counts), heap=memory))
