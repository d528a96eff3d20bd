"""Auditing a table with Spark: of a plain topic by its own sums, and of a topic with transactions beside the log; with
one row removed, one doubled, and one of an aborted record. Peer: reading the same window from Kafka."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from confluent_kafka import Producer
from pyspark.sql import DataFrame, functions as F

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.loads import returned
from airflow_kafka_offsets.spark.audit_table import audit_table
from airflow_kafka_offsets.spark.audits.table_rows import AuditedWindow, AuditRequest
from airflow_kafka_offsets.spark.session.conf import RunConf
from dev import raw_client
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, Clusters, Topic, create, wait_for_leaders
from tests.benchmarks.records import RECORD_BYTES, value
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import consume, even, opened, session
from tests.benchmarks.timing import medians
from tests.unit.spark.manifests import manifest_of

NAME = "transactions"
PARTITIONS = 8
A_TRANSACTION = 10_000
"""Records of a transaction in each partition. Each tenth one is aborted."""
_NOBODY = "127.0.0.1:1"
_COLUMNS = ("topic", "partition", "offset", "timestamp", "value")


def spark_audit(clusters: Clusters) -> Iterator[Row]:
    """A plain topic without a broker, then a topic with transactions."""
    with tempfile.TemporaryDirectory(prefix="bench_") as folder:
        yield from _plain(clusters, f"file://{folder}/plain")
        yield from _transactional(clusters, folder)


def _plain(clusters: Clusters, table: str) -> Iterator[Row]:
    manifest = even(clusters)
    window = opened(clusters, manifest)
    clusters.say("writing and auditing its table")
    window.read().select(*_COLUMNS).write.parquet(table)
    taken = medians(
        {
            "audit": lambda: _expect({}, _audit(clusters, manifest, table, servers=_NOBODY)),
            "read": lambda: consume(window.read()),
        },
        clusters.sizes.rounds,
    )
    work = f"audit of a table, {manifest.span:,} records of a plain topic"
    told = "0 offsets read from Kafka"
    yield Row.compared(work, taken["audit"], "ours, reading the window", taken["read"], limit=0.5, requests=told)


def _transactional(clusters: Clusters, folder: str) -> Iterator[Row]:
    manifest, aborted = _with_transactions(clusters)
    window, whole, faulty = opened(clusters, manifest), f"file://{folder}/whole", f"file://{folder}/faulty"
    clusters.say("writing and auditing its tables")
    window.read().select(*_COLUMNS).write.parquet(whole)
    _spoil(session().read.parquet(whole), aborted).write.parquet(faulty)
    faults = {"missing": 5, "doubled": 7, "foreign": aborted}
    started = time.monotonic()
    census = _counted(clusters, manifest)
    clusters.say(
        f"counted its records in {time.monotonic() - started:.1f} s, {len(plain_json.to_bytes(census)):,} bytes"
    )
    taken = medians(
        {
            "complete": lambda: _expect({}, _audit(clusters, manifest, whole, gaps=True)),
            "faulty": lambda: _expect(faults, _audit(clusters, manifest, faulty, gaps=True)),
            "gone": lambda: _expect(faults, _audit(clusters, manifest, faulty, gaps=True, census=census)),
            "read": lambda: consume(window.read()),
        },
        clusters.sizes.rounds,
    )
    work, peer = f"audit of a table, {manifest.span:,} offsets with transactions", "ours, reading the window"
    for name, words in (
        ("complete", work),
        ("faulty", "… a row removed, doubled, foreign"),
        ("gone", "… the same after retention"),
    ):
        yield Row.compared(words, taken[name], peer, taken["read"], limit=None)


def _counted(clusters: Clusters, manifest: Manifest) -> Census:
    """Which offsets have a record, as resolving counts them."""
    settings = ClientSettings.from_config({"bootstrap.servers": clusters.records.bootstrap_servers})
    with OffsetsClient(settings) as client:
        ranges = [each.log_range for each in manifest.ranges]
        return Census.of(client.log_contents(ranges, isolation_level=manifest.isolation_level).raise_for_errors())


def _spoil(rows: DataFrame, aborted: int) -> DataFrame:
    """A table whose first partition lacks offset 5, has offset 7 twice, and a row of an aborted record."""
    of_seven = rows.where("`partition` = 0 AND `offset` = 7")
    kept = rows.where("NOT (`partition` = 0 AND `offset` = 5)")
    return kept.unionByName(of_seven).unionByName(of_seven.withColumn("offset", F.lit(aborted).cast("bigint")))


def _audit(
    clusters: Clusters,
    manifest: Manifest,
    table: str,
    *,
    gaps: bool = False,
    servers: str | None = None,
    census: Census | None = None,
) -> AuditReport:
    """The report of a table; no record is read from Kafka if they were counted."""
    address = servers or clusters.records.bootstrap_servers
    conf = RunConf("", "", None, {"kafka.bootstrap.servers": address}, allow_gaps=gaps, bytes_per_record=RECORD_BYTES)
    request = AuditRequest("0a1b2c3d", AuditedTable(table, format="parquet"))
    (found,) = audit_table(session(), [AuditedWindow(manifest, census)], conf, request)
    report = returned(found)
    if census is not None and report.looked_at:
        raise AssertionError(f"{report.looked_at:,} offsets were read from Kafka")
    return report


def _expect(faults: Mapping[str, int], report: AuditReport) -> None:
    """Exactly these faults, each at one offset of the first partition."""
    found = {each.problem: (each.partition, each.start_offset, each.amount) for each in report.findings}
    if found != {problem: (0, offset, 1) for problem, offset in faults.items()} or len(report.counts) != len(faults):
        raise AssertionError(f"expected {faults}, but: {report}")


def _with_transactions(clusters: Clusters) -> tuple[Manifest, int]:
    """The window over a topic of transactions, and the offset of an aborted record in partition 0."""
    address = clusters.records.bootstrap_servers
    topic = Topic(NAME, PARTITIONS)
    create(address, topic)
    wait_for_leaders(address, [topic])
    each = max(1, clusters.sizes.records // PARTITIONS // A_TRANSACTION)
    clusters.say(f"writing {each} transactions of {PARTITIONS * A_TRANSACTION:,} records to {NAME}")
    producer = Producer({"bootstrap.servers": address, "transactional.id": NAME, "linger.ms": 50, "log_level": 3})
    producer.init_transactions()
    offset, aborted = 0, 0
    for number in range(each):
        is_aborted = number % 10 == 1 or each == 1
        producer.begin_transaction()
        _send(producer, number)
        aborted = offset if is_aborted else aborted
        (producer.abort_transaction if is_aborted else producer.commit_transaction)()
        offset += A_TRANSACTION + 1  # and its marker
    made = manifest_of(
        [(NAME, partition, 0, offset) for partition in range(PARTITIONS)],
        start_ms=INSTANT_MS,
        end_ms=INSTANT_MS + HOUR_MS,
    )
    return replace(made, cluster_id=raw_client.metadata(address).cluster_id), aborted


def _send(producer: Producer, transaction: int) -> None:
    for number in range(A_TRANSACTION):
        for partition in range(PARTITIONS):
            place = transaction * A_TRANSACTION + number
            producer.produce(NAME, value(partition, place, INSTANT_MS, RECORD_BYTES), partition=partition)
            producer.poll(0)
    producer.flush()
