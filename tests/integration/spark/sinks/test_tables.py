"""What Delta Lake and Iceberg add: one commit for each window, told from others by what it carries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F

from airflow_kafka_offsets.errors import ColumnChangedError, CommitConflictError, ConfigurationError
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import DeltaSink, IcebergSink, Sink, read_published
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import load_rows
from tests.integration.spark.sinks.conftest import attempt_of, publish, write_shown
from tests.integration.spark.sinks.test_reading import tenth
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import manifest_of

MakeSink = Callable[[str], Sink]


@pytest.mark.nightly("attempts at a table in any order; test_every_sink.py has a second one beside the first")
class TestAttempts:
    def test_a_later_load_whose_commit_deltas_history_has_forgotten_is_told_from_one_beside_this(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, make_sink: MakeSink
    ) -> None:
        manifest = manifest_of([(flights, 0, 0, 9)])
        rows, sink = open_window(manifest).read(), make_sink("delta")
        assert isinstance(sink, DeltaSink)
        sink.replace(rows, attempt_of(manifest, 3))
        sink.replace(rows, attempt_of(manifest, 4, window="neighbour"))
        _forget_all_but_the_last_commit(spark, sink)

        with pytest.raises(CommitConflictError, match=r"holds rows of no attempt that it still knows"):
            write_shown(sink, rows, attempt_of(manifest, 2))


@pytest.mark.nightly("writers whose clocks differ; test_every_sink.py writes each table")
class TestClocks:
    def test_a_writer_whose_clock_is_behind_the_last_ones_finds_its_own_commit_the_newest(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        """Iceberg takes times that go back by up to a minute."""
        sink = make_sink("iceberg")
        assert isinstance(sink, IcebergSink)
        publish(open_window(manifest_of([(flights, 0, 0, 9)])), sink)
        _put_clock_ahead(spark, sink)
        publish(open_window(manifest_of([(flights, 0, 0, 7)])), sink)
        assert read_published(spark, ledger_uri).count() == 7


class TestColumns:
    def test_columns_and_fields_come_and_go_and_stand_in_any_order_but_never_change_their_type(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger_uri: str, table_sink: TableSink
    ) -> None:
        first, second, third, fourth, fifth = (tenth(flights, number) for number in range(5))
        publish(open_window(first), table_sink)
        window = open_window(second)
        detail = F.struct(F.lit(1).alias("a")).alias("detail")
        load_rows(window, window.read().select("*", F.lit(1).alias("added"), detail).drop("key"), table_sink)
        publish(open_window(third), table_sink)
        window = open_window(fourth)
        detail = F.struct(F.lit("x").alias("b"), F.lit(2).alias("a")).alias("detail")
        load_rows(window, window.read().select(detail, "*"), table_sink)

        rows = read_published(spark, ledger_uri)
        assert offsets(rows) == {2: list(range(40))}
        assert offsets(rows.where("added = 1 AND key IS NULL AND detail.a = 1 AND detail.b IS NULL")) == {
            2: list(range(10, 20))
        }
        assert offsets(rows.where("detail.a = 2 AND detail.b = 'x'")) == {2: list(range(30, 40))}

        changed = open_window(fifth)
        detail = F.struct(F.lit(3).alias("b")).alias("detail")
        kinds = r"timestampType is int there and string in these rows, detail\.b is string there and int in these rows"
        with pytest.raises(ColumnChangedError, match=kinds):
            changed.write(
                changed.read().withColumn("timestampType", F.lit("text")).withColumn("detail", detail), table_sink
            )
        assert table_sink.rows(spark).count() == 40

    @pytest.mark.nightly("a type that holds the old values; the first test shows that others are refused")
    def test_a_column_becomes_wider_where_the_table_can_do_that(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger_uri: str, table_sink: TableSink
    ) -> None:
        first, second, third = (open_window(tenth(flights, number)) for number in range(3))
        load_rows(first, first.read().withColumn("size", F.lit(1)), table_sink)
        wide = second.read().withColumn("size", F.lit(2**40))
        if isinstance(table_sink, DeltaSink):
            with pytest.raises(ColumnChangedError, match="size is int there and bigint in these rows"):
                second.write(wide, table_sink)
            spark.sql(f"ALTER TABLE delta.`{table_sink.table}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
            second = open_window(second.manifest)
            wide = second.read().withColumn("size", F.lit(2**40))
        load_rows(second, wide, table_sink)
        sizes = {row["size"] for row in read_published(spark, ledger_uri).select("size").distinct().collect()}
        assert sizes == {1, 2**40}

        with pytest.raises(ColumnChangedError, match="size is bigint there and int in these rows"):
            third.write(third.read().withColumn("size", F.lit(3)), table_sink)


class TestCreation:
    @pytest.mark.nightly("a rare moment of a table's beginning")
    def test_a_table_that_delta_has_only_begun_to_make_is_none_yet(
        self, open_window: OpenWindow, manifest: Manifest, tmp_path: Path
    ) -> None:
        """A driver was killed between the log's folder and its first commit."""
        table = tmp_path / "begun"
        (table / "_delta_log").mkdir(parents=True)

        publish(open_window(manifest), DeltaSink(str(table)))


class TestRefusals:
    def test_an_iceberg_table_that_is_not_partitioned_by_the_window_is_no_race(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, make_sink: MakeSink
    ) -> None:
        """Two windows may share a file, of which an overwrite can't replace a part: another try fails the same way."""
        sink, manifest = make_sink("iceberg"), manifest_of([(flights, 0, 0, 9)])
        assert isinstance(sink, IcebergSink)
        rows = open_window(manifest).read()
        made = rows.limit(0).withColumn("window", F.lit("")).writeTo(sink.table).using("iceberg")
        made.tableProperty("write.spark.accept-any-schema", "true").create()
        rows.withColumn("window", F.when(F.col("offset") < 5, manifest.window).otherwise("other")).coalesce(1).writeTo(
            sink.table
        ).append()
        with pytest.raises(ConfigurationError, match="isn't partitioned by window"):
            sink.replace(rows, attempt_of(manifest))

    def test_an_iceberg_table_has_a_name(self) -> None:
        with pytest.raises(ConfigurationError, match=r"catalog\.database\.table"):
            IcebergSink("file:///data/flights")

    def test_a_session_without_the_catalog_is_told_what_it_needs(
        self, open_window: OpenWindow, manifest: Manifest
    ) -> None:
        with pytest.raises(ConfigurationError, match="iceberg-spark-runtime"):
            publish(open_window(manifest), IcebergSink("nowhere.flights.t"))


def _forget_all_but_the_last_commit(spark: SparkSession, sink: DeltaSink) -> None:
    """As Delta does with commits older than ``delta.logRetentionDuration``, once a checkpoint has what they say."""
    delta: Any = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    delta.forTable(spark._jsparkSession, sink.table).checkpoint()
    *old, _ = sorted(Path(sink.table.removeprefix("file://"), "_delta_log").glob("*.json"))
    for commit in old:
        commit.unlink()
    delta.clearCache()


def _put_clock_ahead(spark: SparkSession, sink: IcebergSink) -> None:
    """Leave what a writer leaves whose clock is almost a minute ahead, as the next version of a table's metadata."""
    catalog = spark.conf.get("spark.sql.catalog.lake.warehouse")
    assert catalog is not None
    folder = Path(catalog.removeprefix("file://"), *sink.table.split(".")[1:], "metadata")
    hint = folder / "version-hint.text"
    version = int(hint.read_text())
    metadata = json.loads((folder / f"v{version}.metadata.json").read_text())
    ahead_ms = now_ms() + 55_000
    entries = [metadata["snapshots"][-1], metadata["snapshot-log"][-1]]
    for entry in entries:
        entry["timestamp-ms"] = ahead_ms
    metadata["last-updated-ms"] = ahead_ms
    (folder / f"v{version + 1}.metadata.json").write_text(json.dumps(metadata))
    hint.write_text(str(version + 1))
