"""What readers get of tables: the rows of published windows, as they were when they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import CommitConflictError, LedgerError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import Attempt, DeltaSink, FileSink, Sink, read_published
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import publish as publish_result
from tests.integration.spark.sinks.conftest import EXPECTED, publish
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import FIVE_MS, manifest_of

MakeSink = Callable[[str], Sink]


def tenth(flights: str, number: int) -> Manifest:
    """Ten seconds, and their ten records."""
    start_ms = FIVE_MS + number * 10_000
    ranges = [(flights, 2, number * 10, number * 10 + 10)]
    return manifest_of(ranges, start_ms=start_ms, end_ms=start_ms + 10_000)


class TestReading:
    def test_rows_are_those_that_were_published_when_they_were_asked_for(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger_uri: str, table_sink: TableSink
    ) -> None:
        """Spark reads them later, and those of another load have taken their place by then."""
        manifest = manifest_of([(flights, 0, 0, 9)])
        publish(open_window(manifest), table_sink)
        rows = read_published(spark, ledger_uri)
        again = open_window(manifest, again=True)
        result = again.write(again.read().withColumn("again", F.lit(1)), table_sink)
        assert "again" not in rows.columns
        assert offsets(rows) == {0: list(range(9))}

        publish_result(again, result)
        assert offsets(read_published(spark, ledger_uri).where("again = 1")) == {0: list(range(9))}

    @pytest.mark.nightly("a race of loads; the test above reads tables")
    def test_another_load_that_comes_between_the_look_at_the_ledger_and_that_at_the_table_is_not_missed(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        flights: str,
        ledger_uri: str,
        table_sink: TableSink,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        manifest = manifest_of([(flights, 0, 0, 9)])
        publish(open_window(manifest), table_sink)
        rows_of = TableSink.rows

        def late(*arguments: Any) -> DataFrame:
            monkeypatch.undo()
            again = open_window(manifest, again=True)
            again.write(again.read(), table_sink)
            return rows_of(*arguments)

        monkeypatch.setattr(TableSink, "rows", late)
        with pytest.raises(CommitConflictError, match="The window is being loaded again"):
            read_published(spark, ledger_uri)

    @pytest.mark.nightly("tables that are made and dropped; the first test reads tables")
    def test_a_table_that_is_gone_is_named(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, tmp_path: Path
    ) -> None:
        """A table of Delta's by its name."""
        sink = DeltaSink(f"named_{tmp_path.name.replace('-', '_')}")
        publish(open_window(manifest), sink)
        assert offsets(read_published(spark, ledger_uri)) == EXPECTED

        spark.sql(f"DROP TABLE {sink.table}")
        with pytest.raises(LedgerError, match=rf"The delta table {sink.table} can't be read"):
            read_published(spark, ledger_uri)
        publish(open_window(manifest, again=True), sink)
        assert offsets(read_published(spark, ledger_uri)) == EXPECTED

    def test_rows_of_a_users_own_sink_are_the_users_to_read(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        class Own(FileSink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                written = super().replace(rows, attempt)
                self.kind = "own"
                return written

            def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
                return FileSink(table).current(spark, attempt)

        publish(open_window(manifest), Own(table))
        with pytest.raises(LedgerError, match="which the sink own wrote: read them the way that sink does"):
            read_published(spark, ledger_uri)
