"""What readers get of tables: the rows of published windows, as they were when they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import (
    LedgerConflictError,
    LedgerError,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import Attempt, DeltaSink, FileSink, Sink, read_published
from airflow_kafka_offsets.spark.sinks.table_owner import sql_name
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import load_rows
from tests.integration.spark.publishing import publish as publish_result
from tests.integration.spark.sinks.conftest import EXPECTED, OTHER, publish
from tests.integration.spark.test_pinned_window import offsets
from tests.integration.spark.test_strict_time import EARLY, INSIDE, window_of
from tests.unit.spark.manifests import manifest_of

MakeSink = Callable[[str], Sink]


class TestReading:
    def test_rows_are_those_that_were_published_when_they_were_asked_for(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, table_sink: TableSink
    ) -> None:
        """Spark reads them later, and a newer revision's have taken their place by then."""
        publish(open_window(manifest_of([(flights, 0, 0, 9)])), table_sink)
        rows = read_published(spark, f"file://{ledger}")
        newer = open_window(replace(manifest_of([(flights, 0, 0, 7)]), end_snapshot=9), "try-2")
        result = newer.write(newer.read(), table_sink)
        assert offsets(rows) == {0: list(range(9))}

        publish_result(newer, result)
        assert offsets(read_published(spark, f"file://{ledger}")) == {0: list(range(7))}

    @pytest.mark.nightly("a race of revisions; the test above reads tables")
    @pytest.mark.parametrize("published", [False, True], ids=["counted", "published"])
    def test_a_newer_revision_that_comes_between_the_look_at_the_ledger_and_that_at_the_table_is_not_missed(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        flights: str,
        ledger: Path,
        table_sink: TableSink,
        monkeypatch: pytest.MonkeyPatch,
        published: bool,
    ) -> None:
        publish(open_window(manifest_of([(flights, 0, 0, 9)])), table_sink)
        newer = open_window(replace(manifest_of([(flights, 0, 0, 7)]), end_snapshot=9), "try-2")

        rows_of = TableSink.rows

        def late(*arguments: Any) -> DataFrame:
            monkeypatch.undo()
            result = newer.write(newer.read(), table_sink)
            if published:
                publish_result(newer, result)
            return rows_of(*arguments)

        monkeypatch.setattr(TableSink, "rows", late)
        if published:
            assert offsets(read_published(spark, f"file://{ledger}")) == {0: list(range(7))}
        else:
            with pytest.raises(LedgerConflictError, match="attempt try-2 has begun to load revision 2"):
                read_published(spark, f"file://{ledger}")

    @pytest.mark.nightly("test_published.py reads windows of several tables together")
    def test_windows_in_files_and_in_tables_with_and_without_strict_time_are_read_together(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, table: str, make_sink: MakeSink
    ) -> None:
        bounds = [(50, 100, 0, 100), (111, 120, 100, 110), (121, 130, 110, 120), (131, 140, 120, 130)]
        delta, iceberg = make_sink("delta"), make_sink("iceberg")
        sinks = [delta, iceberg, delta, FileSink(table)]
        for number, (bound, sink) in enumerate(zip(bounds, sinks, strict=True)):
            window = open_window(window_of(flights, *bound))
            load_rows(window, window.read(strict_time=number < 2), sink)

        inside = read_published(spark, f"file://{ledger}")
        assert sorted(offsets(inside)[2]) == sorted([*INSIDE, *range(110, 130)])
        assert not {"attempt", "outside_window"} & set(inside.columns)
        outside = read_published(spark, f"file://{ledger}", outside=True)
        assert sorted(offsets(outside)[2]) == sorted([*EARLY, *range(100, 110)])

    @pytest.mark.nightly("tables that are made and dropped; the first test reads tables")
    def test_a_table_that_is_gone_is_named(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger: Path, tmp_path: Path
    ) -> None:
        """A table of Delta's by its name."""
        sink = DeltaSink(f"named_{tmp_path.name.replace('-', '_')}")
        publish(open_window(manifest), sink)
        assert offsets(read_published(spark, f"file://{ledger}")) == EXPECTED

        spark.sql(f"DROP TABLE {sink.table}")
        with pytest.raises(LedgerError, match=rf"The delta table {sink.table} can't be read"):
            read_published(spark, f"file://{ledger}")
        with pytest.raises(LedgerConflictError, match="holds 0 of them"):
            publish(open_window(manifest, "try-2"), sink)

    @pytest.mark.nightly("test_table_owner.py shows whose a table is")
    def test_a_table_that_went_to_another_ledger_is_not_read_as_this_ones(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger: Path, table_sink: TableSink
    ) -> None:
        publish(open_window(manifest), table_sink)
        name = sql_name(table_sink.kind, table_sink.table)
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('kafka-offsets.ledger' = '{OTHER}')")
        for asked in (
            lambda: read_published(spark, f"file://{ledger}"),
            lambda: publish(open_window(manifest, "try-2"), table_sink),
        ):
            with pytest.raises(LedgerConflictError, match=rf"a table of ledger {OTHER}"):
                asked()

    def test_rows_of_a_users_own_sink_are_the_users_to_read(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger: Path, table: str
    ) -> None:
        class Own(FileSink):
            def write(self, rows: DataFrame, attempt: Attempt) -> str | None:
                written = super().write(rows, attempt)
                self.kind = "own"
                return written

            def read(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
                return FileSink(table).read(spark, attempt)

        publish(open_window(manifest), Own(table))
        with pytest.raises(LedgerError, match="which the sink own wrote: read them the way that sink does"):
            read_published(spark, f"file://{ledger}")
