"""One sink of each kind, empty, and what everybody sees of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import LedgerError
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.offsets.instants import to_datetime
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import DeltaSink, FileSink, IcebergSink, Sink, read_published
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.sinks.sink import Attempt, rows_of
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from dev.postgres import USER, Postgres
from tests.integration.spark.publishing import load_rows, name_of
from tests.integration.spark.sinks.example import PostgresSink
from tests.integration.spark.sinks.sqlite_sink import SqliteSink
from tests.integration.spark.test_pinned_window import offsets

EXPECTED = {0: list(range(10, 90)), 2: list(range(125))}
"""What the fixture ``manifest`` holds, by partition."""
KINDS = ("parquet", "delta", "iceberg", "postgres", "sqlite")
"""Sinks that differ in how they replace a window; the formats of files differ in what Spark does alone."""
FORMATS = ("orc", "json")
OWN = ("postgres", "sqlite")
"""Of these, nobody reads by the ledger."""

OTHER = "0e" * 16
"""Identity of another ledger, whose pipeline has the same name."""

IS_ANOTHERS = "value = cast('another' AS binary)"
"""Of the rows that :func:`another` makes."""

Visible = Callable[[Sink, Manifest], DataFrame]
Holds = Callable[[Sink, Manifest], dict[int, list[int]]]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """JDBC's URL of a database; its user is in the environment."""
    with Postgres() as database, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGUSER", USER)
        yield database.url.replace(f"postgresql://{USER}@", "jdbc:postgresql://")


@pytest.fixture
def make_sink(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Sink]:
    """A sink of a kind, with a place of its own."""

    def make(kind: str) -> Sink:
        name = f"t_{uuid.uuid4().hex[:12]}"
        if kind == "delta":
            return DeltaSink(f"file://{tmp_path}/{name}")
        if kind == "iceberg":
            return IcebergSink(f"lake.flights.{name}")
        if kind == "postgres":
            return PostgresSink(request.getfixturevalue("postgres"), name)
        if kind == "sqlite":
            return SqliteSink(f"{tmp_path}/{name}.db")
        return FileSink(f"file://{tmp_path}/{name}", kind)  # type: ignore[arg-type]  # the other kinds are files

    return make


@pytest.fixture(params=KINDS)
def sink(request: pytest.FixtureRequest, make_sink: Callable[[str], Sink]) -> Sink:
    """Each kind in turn."""
    return make_sink(request.param)


@pytest.fixture(params=["delta", pytest.param("iceberg", marks=pytest.mark.nightly("the other kind of table"))])
def table_sink(request: pytest.FixtureRequest, make_sink: Callable[[str], Sink]) -> TableSink:
    sink = make_sink(request.param)
    assert isinstance(sink, TableSink)
    return sink


@pytest.fixture
def visible(spark: SparkSession, ledger: Path) -> Visible:
    """The rows that readers see of a window: through the ledger, or as the user's own sink reads."""

    def read(sink: Sink, manifest: Manifest) -> DataFrame:
        if sink.kind in OWN:
            return sink.current(spark, attempt_of(manifest))[0]
        extent = {"start": to_datetime(manifest.start_ms), "end": to_datetime(manifest.end_ms)}
        return read_published(spark, f"file://{ledger}", **extent)

    return read


@pytest.fixture
def holds(visible: Visible) -> Holds:
    """Their offsets by partition."""

    def read(sink: Sink, manifest: Manifest) -> dict[int, list[int]]:
        if sink.kind not in OWN and not manifest.span:
            with pytest.raises(LedgerError, match="1 are published, all without rows"):
                visible(sink, manifest)
            return {}
        return offsets(visible(sink, manifest))

    return read


def another(rows: DataFrame) -> DataFrame:
    """The same records with another value, by which to tell whose rows are there."""
    return rows.withColumn("value", F.lit("another").cast("binary"))


def attempt_of(manifest: Manifest, number: int = 2**40, **facts: Any) -> Attempt:
    """An attempt at a window, by default a late one."""
    told = manifest.span, manifest.pipeline, manifest.ledger_id, manifest.sha256
    return replace(Attempt(manifest.window, number, "0000000a", *told), **facts)


def write_shown(sink: Sink, rows: DataFrame, attempt: Attempt) -> str | None:
    """Write rows, and show them without a proof: as a client does that has no branches, or drivers of old."""
    written = sink.replace(rows, attempt)
    rows_of(sink, rows.sparkSession, attempt, written)
    sink.release(rows.sparkSession, attempt)
    return written


def publish(window: PinnedWindow, sink: Sink) -> Published:
    """Load a window as it is; its rows are the ones that count then."""
    published = load_rows(window, window.read(), sink).published
    assert f"{published.attempt}-{published.run}" == name_of(window)
    return published
