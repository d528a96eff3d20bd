"""What audits of tables need: a broker's logs, tables that something else has written, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.loads import returned
from airflow_kafka_offsets.spark.audit_table import Outcome, audit_table
from airflow_kafka_offsets.spark.audits.table_rows import AuditedWindow, AuditRequest
from airflow_kafka_offsets.spark.session.conf import RunConf
from dev.kafka import Broker

Audit = Callable[..., AuditReport]
NOBODY = "127.0.0.1:1"
"""An address where no broker is."""
SOON = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
"""A client that gives up soon."""


@pytest.fixture
def audit_each(spark: SparkSession, broker: Broker, cluster_id: str) -> Callable[..., list[Outcome]]:
    """Audit a table for some windows, as a driver does."""

    def run(
        manifests: Sequence[Manifest],
        table: AuditedTable,
        *,
        census: Census | None = None,
        servers: str | None = None,
        gaps: bool = False,
        **asked: Any,
    ) -> list[Outcome]:
        reader = {"kafka.bootstrap.servers": servers or broker.bootstrap_servers}
        conf = RunConf("", "", None, reader | (SOON if servers == NOBODY else {}), allow_gaps=gaps)
        windows = [AuditedWindow(replace(each, cluster_id=cluster_id), census) for each in manifests]
        outcomes = audit_table(spark, windows, conf, AuditRequest(table=table, **{"run": "0a1b2c3d", **asked}))
        for window, found in zip(windows, outcomes, strict=True):
            if isinstance(found, AuditReport):
                found.check(window.manifest)
        return outcomes

    return run


@pytest.fixture
def audit(audit_each: Callable[..., list[Outcome]]) -> Audit:
    """Audit a table for one window."""

    def run(manifest: Manifest, *given: Any, **asked: Any) -> AuditReport:
        return returned(audit_each([manifest], *given, **asked)[0])

    return run


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path) -> Callable[..., AuditedTable]:
    """A Parquet table of these rows (topic, partition, offset), which something else has written."""

    def write(rows: Iterable[tuple[str, int, int]]) -> AuditedTable:
        folder = f"file://{tmp_path}/table"
        frame(spark, rows).write.mode("overwrite").parquet(folder)
        return AuditedTable(folder, format="parquet")

    return write


def connected(broker: Broker) -> OffsetsClient:
    return OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers}))


def frame(spark: SparkSession, rows: Iterable[tuple[str, int, int]]) -> DataFrame:
    made = [f"('{topic}', {partition}, {offset}L)" for topic, partition, offset in rows]
    if not made:
        return spark.createDataFrame([], "topic string, partition int, offset bigint")
    return spark.sql(f"SELECT * FROM VALUES {', '.join(made)} AS rows(topic, partition, offset)")


def places(report: AuditReport) -> list[tuple[str, int, int, int]]:
    """Problem, partition, first and last offset of each finding."""
    return [(each.problem, each.partition, each.start_offset, each.end_offset - 1) for each in report.findings]
