"""What the guides show of Spark jobs, run on a window of real records.

What they show of Dags is run by ``tests/integration/airflow/test_doc_blocks.py``, and the functions of
``docs/guides/decoding.md`` are called by ``test_decoding.py``.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.sql import DataFrame, SparkSession, functions as F

import airflow_kafka_offsets.spark as public
from airflow_kafka_offsets.offsets.instants import to_datetime
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.session.conf import ATTEMPT, MANIFEST, PREFIX, SHA256
from dev import ROOT
from dev.schema_registry import SchemaRegistry
from tests.integration.doc_blocks import DOCS, PAGES, Block, blocks_of, guide_blocks, name_of
from tests.integration.spark.conftest import OpenWindow, Pin
from tests.integration.spark.publishing import load
from tests.unit.spark.manifests import manifest_of

BLOCKS = {block.key: block for block in guide_blocks() if block.is_of_spark}
TYPED = ("docs/guides/decoding.md", 2)
JOB, PLAN = ("docs/guides/spark.md", 2), ("docs/reference/spark.md", 1)
SEVERAL = ("docs/guides/spark.md", 4)
DERIVED = ("docs/guides/jobs.md", 1)
READ_PUBLISHED = [("docs/guides/assets.md", 3), ("docs/guides/quickstart.md", 3), ("docs/guides/spark.md", 5)]
DEFINITIONS = {
    ("docs/guides/decoding.md", 4): "with_avro",
    ("docs/guides/sinks.md", 3): "MySink",
}
SINKS = ("docs/guides/sinks.md", 1)

SIX_MS, SEVEN_MS = 1_795_154_400_000, 1_795_158_000_000
"""06:00 and 07:00 UTC on 20 November 2026, the pages' hour."""
ROWS = 60

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def manifest(flights: str) -> Manifest:
    """An hour with so many records."""
    return manifest_of([(flights, 0, 0, ROWS)], start_ms=SIX_MS, end_ms=SEVEN_MS)


@pytest.fixture
def run(spark: SparkSession, ledger: Path, table: str) -> Run:
    """Run a block. The ledgers and outputs that the pages name are the test's own here."""
    renamed = {
        "file:///data/kafka-ledger/orders_hourly": f"file://{ledger}",
        "file:///data/kafka-ledger/flights_hourly": f"file://{ledger}",
        "s3a://lake/ledger/flights_daily": f"file://{ledger}",
        "spark.stop()": "pass",  # other tests go on using it
    }

    def execute(key: tuple[str, int], tables: dict[str, str] | None = None, **names: Any) -> dict[str, Any]:
        found = {name: getattr(public, name) for name in public.__all__}
        found |= {"spark": spark, "SparkSession": SparkSession, "DataFrame": DataFrame, "F": F} | names
        BLOCKS[key].run(found, renamed | (tables or {}))
        return found

    return execute


@pytest.fixture
def told(spark: SparkSession, pin: Pin, manifest: Manifest) -> Iterator[None]:
    """The session's confs name the window, as an operator submits them, since the jobs ask for *the* session."""
    before = spark.conf.getAll
    conf = pin(manifest)
    kafka = {f"{PREFIX}{name}": value for name, value in conf.kafka.items()}
    for name, value in ({MANIFEST: conf.manifest_uri, SHA256: conf.sha256, ATTEMPT: str(conf.attempt)} | kafka).items():
        spark.conf.set(name, value)
    yield
    for name in spark.conf.getAll.keys() - before.keys():
        spark.conf.unset(name)
    spark.conf.set("spark.app.name", before["spark.app.name"])  # the job names itself


@pytest.mark.usefixtures("told")
class TestJobs:
    def test_an_application_of_ones_own_writes_its_columns(
        self,
        spark: SparkSession,
        run: Run,
        table: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(sys, "argv", ["delays.py", table])
        output = run(JOB)["result"].output
        assert capsys.readouterr().out == f"{ROWS} {output}\n"
        written = spark.read.parquet(output)
        assert written.count() == ROWS
        assert {"offset", "carrier", "dest", "dep_delay"} <= set(written.columns)

    def test_an_application_of_several_windows_loads_one_too(
        self, spark: SparkSession, run: Run, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "argv", ["hours.py", table])
        run(SEVERAL)
        assert spark.read.parquet(table).count() == ROWS

    def test_values_are_decoded_by_a_registry(
        self, spark: SparkSession, run: Run, table: str, registry: SchemaRegistry, registry_client: SchemaRegistryClient
    ) -> None:
        """None of these records names a schema."""
        subject = f"orders-{uuid4().hex[:8]}"
        for names in ("a", "ab", "abc"):
            fields = [{"name": name, "type": ["null", "int"], "default": None} for name in names]
            schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
            registry_client.register_schema(subject, Schema(schema, "AVRO"))
        spark.conf.set(f"{PREFIX}registry.url", registry.url)
        rows = run(TYPED, {"s3a://lake/orders": table, "orders": subject})["rows"]
        assert rows.schema["value"].dataType.names == ["a", "b", "c"]
        assert spark.read.parquet(table).where("value_error IS NOT NULL AND raw_value IS NOT NULL").count() == ROWS

    @pytest.mark.nightly("two tables; test_derived.py has such outputs")
    def test_derived_rows_go_to_two_tables(self, spark: SparkSession, run: Run) -> None:
        """None of these records has an hour."""
        job = runpy.run_path(str(ROOT / "dags" / "jobs" / "flights_per_hour.py"))
        name = uuid4().hex[:8]
        good, bad = f"default.per_hour_{name}", f"default.unreadable_{name}"
        tables = {"lake.flights_per_hour": good, "lake.unreadable_flights": bad}
        run(DERIVED, tables, per_hour=job["per_hour"], unreadable=job["unreadable"])
        assert spark.table(bad).count() == ROWS

    def test_a_plan_is_printed(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        run(PLAN)
        assert f": {ROWS} records," in capsys.readouterr().out


class TestReaders:
    @pytest.mark.parametrize("key", READ_PUBLISHED, ids=str)
    def test_published_rows_are_read(
        self,
        open_window: OpenWindow,
        manifest: Manifest,
        run: Run,
        table: str,
        key: tuple[str, int],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        load(open_window(manifest), table)
        event = {"start": to_datetime(SIX_MS).isoformat(), "end": to_datetime(SEVEN_MS).isoformat()}
        names = run(key, event=event)
        assert "rows" not in names or names["rows"].count() == ROWS
        shown = manifest.window[:17]  # Spark cuts what it shows at 20 characters
        assert (shown in capsys.readouterr().out) == (".show()" in BLOCKS[key].code)


class TestDefinitions:
    @pytest.mark.parametrize("key", DEFINITIONS, ids=str)
    def test_are_made(self, run: Run, key: tuple[str, int]) -> None:
        assert callable(run(key)[DEFINITIONS[key]])

    def test_the_sinks_of_the_page_are_sinks(self, run: Run) -> None:
        run(SINKS)


class TestSql:
    def test_the_auditors_query_counts_each_partition(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger: Path, table: str
    ) -> None:
        load(open_window(manifest), table)
        (block,) = blocks_of(DOCS / "guides" / "proving.md", "sql")
        public.read_published(spark, f"file://{ledger}").createOrReplaceTempView("orders")
        (row,) = spark.sql(re.sub(r"\d{8}T\d{9}Z_\d{8}T\d{9}Z", manifest.window, block.code)).collect()
        assert row[1:] == (0, ROWS, 0, ROWS - 1, ROWS)

    @pytest.mark.parametrize("block", [block for page in PAGES for block in blocks_of(page, "sql")], ids=name_of)
    def test_statements_can_be_parsed(self, spark: SparkSession, block: Block) -> None:
        """Spark reads Hive's statements, and calls of procedures."""
        parser = spark._jsparkSession.sessionState().sqlParser()
        statements = [each.strip() for each in re.sub(r" *--.*", "", block.code).split(";") if each.strip()]
        assert statements
        for statement in statements:
            parser.parsePlan(statement)


def test_every_block_is_run() -> None:
    assert set(BLOCKS) == {JOB, SEVERAL, TYPED, PLAN, DERIVED, SINKS, *READ_PUBLISHED, *DEFINITIONS}
