"""Audits of tables in formats and databases that hold no types of their own, or that only Spark's reader can name; and
their certificates' queries, which find what the audit has found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.ledger.certificate import check_query
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from dev.postgres import Postgres
from tests.integration.spark.audits.conftest import NOBODY, Audit, frame, places
from tests.unit.spark.manifests import manifest_of


@pytest.fixture
def manifest(flights: str) -> Manifest:
    return manifest_of([(flights, 0, 10, 90), (flights, 2, 0, 125)])


@pytest.fixture
def rows(flights: str) -> list[tuple[str, int, int]]:
    """More than the window has, as a table has it; without one record, and with one twice."""
    complete = [(flights, 0, offset) for offset in range(100)] + [(flights, 2, offset) for offset in range(130)]
    return [*(row for row in complete if row[1:] != (2, 7)), (flights, 0, 50)]


FOUND = [("doubled", 0, 50, 50), ("missing", 2, 7, 7)]


def checked(spark: SparkSession, report: AuditReport, manifest: Manifest, table: AuditedTable) -> None:
    """What the certificate's query finds is what the audit has found, whatever that is."""
    relation, only = table.relation, table.where
    if relation is None:
        reader = spark.read.format(str(table.format)).options(**dict(table.options or {}))
        (reader.load(table.path) if table.path else reader.load()).createOrReplaceTempView("the_table")
        relation = "the_table"
    columns = table.columns._replace(topic=table.topic_of(sorted(manifest.topics)))
    found = [tuple(row) for row in spark.sql(check_query([relation], manifest, columns, only)).collect()]
    assert found == [(each.topic, each.partition, each.rows, each.checksum) for each in report.partitions]


@pytest.mark.parametrize(
    ("format_", "options"),
    [
        ("csv", {"header": "true"}),
        ("csv", {"header": "true", "inferSchema": "true"}),
        ("csv", {}),
        ("json", {}),
        ("orc", {}),
        ("parquet", {"mergeSchema": "true"}),
    ],
)
def test_files_of_any_format(
    spark: SparkSession,
    audit: Audit,
    manifest: Manifest,
    rows: Any,
    format_: str,
    options: dict[str, str],
    tmp_path: Path,
) -> None:
    folder = f"file://{tmp_path}/table"
    frame(spark, rows).write.format(format_).options(**options).save(folder)
    table = AuditedTable(folder, format=format_, options=options or None)
    if format_ == "csv" and not options:
        table = replace(table, topic="_c0", partition="_c1", offset="_c2")
    report = audit(manifest, table)
    assert places(report) == FOUND
    assert (report.rows, report.records) == (205, 205)
    checked(spark, report, manifest, table)


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def test_a_table_of_a_database(
    spark: SparkSession, audit: Audit, manifest: Manifest, rows: Any, postgres: Postgres
) -> None:
    """As Confluent's JDBC sink writes it with pk.mode=kafka; and by a query that the database runs."""
    with psycopg.connect(postgres.url, autocommit=True) as database:
        database.execute(
            "CREATE TABLE orders (__connect_topic text, __connect_partition int, __connect_offset bigint, id int)"
        )
        with database.cursor().copy("COPY orders FROM STDIN") as copy:
            for row in rows:
                copy.write_row((*row, 1))
    url = f"jdbc:{postgres.url.replace('airflow@', '')}?user=airflow"
    table = AuditedTable(
        format="jdbc",
        options={"url": url, "dbtable": "orders", "driver": "org.postgresql.Driver"},
        preset="jdbc-connect",
    )
    report = audit(manifest, table)
    assert places(report) == FOUND
    checked(spark, report, manifest, table)
    asked = "(SELECT DISTINCT * FROM orders) AS once"
    distinct = replace(table, options={**dict(table.options or {}), "dbtable": asked})
    assert places(audit(manifest, distinct)) == FOUND[1:]


def test_a_query_over_two_tables(
    spark: SparkSession, audit: Audit, manifest: Manifest, rows: Any, flights: str, tmp_path: Path
) -> None:
    """An old table and the one that took its place."""
    for name, some in (("old", rows[:150]), ("new", rows[150:])):
        frame(spark, some).write.parquet(f"file://{tmp_path}/{name}")
    one = "SELECT offset AS position, partition AS part FROM parquet.`file://{}/{}`"
    query = " UNION ALL ".join(one.format(tmp_path, name) for name in ("old", "new"))
    table = AuditedTable(query=query, topic=f"'{flights}'", partition="part", offset="position", where="position >= 0")
    report = audit(manifest, table)
    assert places(report) == FOUND
    checked(spark, report, manifest, table)
    whole = replace(table, query=f"SELECT DISTINCT * FROM ({query}) UNION ALL SELECT 7L, 2")
    report = audit(manifest, whole, servers=NOBODY)
    assert report.is_complete
    checked(spark, report, manifest, whole)
