"""Jobs that make other rows of the records: filtered, aggregated, exploded; and bad ones apart."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import ConfigurationError, LedgerError, UnprovenError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.load_decisions import attempt_of
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.attempts import count_nothing
from airflow_kafka_offsets.spark import Attempt, DeltaSink, Derived, FileSink, IcebergSink, Sink, read_published
from tests.integration.ledger.loads import publish_asked
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.derived_jobs import (
    HIGH_M,
    MakeSink,
    derive,
    expected,
    make_sink,
    per_key,
    rows_of,
    too_high,
)
from tests.integration.spark.publishing import driver_of, ledger_of, publish, result_of
from tests.unit.spark.manifests import SEVEN_MS, SIX_MS, manifest_of

__all__ = ["make_sink"]


class TestOutputs:
    def test_are_made_of_each_record_once_and_appear_together(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        window = open_window(manifest)
        result = window.write_derived(per_key, make_sink("hourly"), too_high=Derived(too_high, make_sink("high")))
        for output in (None, "too_high"):
            with pytest.raises(LedgerError, match="no published window"):
                read_published(spark, ledger_uri, output=output)
        published = publish(window, result)

        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)
        high = read_published(spark, ledger_uri, output="too_high").select("partition", "offset").collect()
        assert sorted(map(tuple, high)) == [(2, number) for number in range(HIGH_M + 1, 125)]
        assert [(each.name, each.rows) for each in published.outputs] == [("", 7), ("too_high", 24)]
        assert result == result_of(window)
        assert (result.read.count, result.rows_written, result.records) == (205, 7, 205)
        words = "read = log (7 rows written by your job, 24 to too_high)"
        assert str(judge(manifest, result)).startswith(words)

    def test_of_one_output_are_written_as_they_are_read(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        window = open_window(manifest)
        publish(window, window.write_derived(lambda rows: per_key(rows).orderBy("key"), FileSink(table, "json")))
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)

    def test_may_be_more_than_records(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        """explode, and a join that matches several."""

        def twice(records: DataFrame) -> DataFrame:
            sides = records.sparkSession.createDataFrame([("a",), ("b",)], "side string")
            return records.select(F.explode(F.array(F.lit(1), F.lit(2))).alias("copy"), "offset").join(
                F.broadcast(sides)
            )

        window = open_window(manifest)
        result = window.write_derived(twice, FileSink(table))
        assert (publish(window, result).rows, result.read.count) == (820, 205)

    def test_of_a_window_without_offsets_hold_no_row(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        empty_manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        """S6: whatever the job makes of nothing, as a total of it."""
        window = open_window(empty_manifest)
        result = window.write_derived(lambda rows: rows.agg(F.count("*").alias("flights")), make_sink("total"))
        published = publish(window, result)
        assert (published.rows, published.outputs[0].output) == (0, None)
        with pytest.raises(LedgerError, match="all without rows"):
            read_published(spark, ledger_uri)

    def test_of_a_window_that_needed_no_job_are_there_for_readers(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        empty_manifest: Manifest,
        flights: str,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        """S6: Airflow's side has published it, and knows neither the job nor its outputs."""
        window = open_window(empty_manifest)
        ledger, number = ledger_of(window), driver_of(window).number
        pinned = ledger.window(empty_manifest.window)
        attempt = attempt_of(pinned, number)
        publish_asked(count_nothing(ledger, pinned, attempt))

        ranges = [(flights, 0, 10, 10), (flights, 1, 0, 0), (flights, 2, 0, 125)]
        neighbour = open_window(manifest_of(ranges, start_ms=SIX_MS, end_ms=SEVEN_MS))
        more = Derived(too_high, make_sink("more"))
        made = neighbour.write_derived(lambda rows: rows, make_sink("all"), more=more)
        publish(neighbour, made)
        assert read_published(spark, ledger_uri, output="more").count() == made.outputs[1].rows
        assert read_published(spark, ledger_uri).count() == made.rows_written == 125

    def test_of_what_a_loss_has_left_are_made_of_that(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, flights: str, table: str
    ) -> None:
        """S13."""
        lost = [LogRange(flights, 0, 0, 90)]
        window = open_window(manifest, lost=lost)
        result = window.write_derived(lambda rows: rows.groupBy("partition").count(), FileSink(table))
        assert (publish(window, result).rows, result.read.count) == (1, 125)

    def test_of_a_log_with_gaps_are_held_against_the_log(
        self, spark: SparkSession, open_window: OpenWindow, transactional: str, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        """E12, S18: ten records at seventeen offsets."""
        manifest = manifest_of([(transactional, 0, 0, 17)])
        with pytest.raises(UnprovenError, match=r"10 records for 17 offsets of .*allow gaps"):
            open_window(manifest).write_derived(per_key, make_sink("first"))
        window = open_window(manifest, allow_gaps=True)
        result = derive(window, make_sink("hourly"), make_sink("high"))
        assert (result.records, result.read.count, result.unread) == (10, 10, ())
        assert sum(flights for flights, _ in rows_of(read_published(spark, ledger_uri)).values()) == 10


JOBS: list[tuple[Callable[[DataFrame], DataFrame], int]] = [
    (lambda rows: rows.where("offset % 2 = 0"), 5),
    (lambda rows: rows.orderBy("key").limit(3), 3),
    (lambda rows: rows.union(rows), 20),
    (lambda rows: rows.where(F.col("offset") >= rows.select(F.avg("offset")).scalar()), 5),
    (lambda rows: rows.join(rows.groupBy("partition").count(), "partition"), 10),
    (lambda rows: rows.limit(rows.count() - 1), 9),
    (lambda rows: rows.sparkSession.createDataFrame(rows.rdd, rows.schema), 10),
    (lambda rows: rows.where("false"), 0),
    (lambda rows: rows.where("key = 'never'").groupBy("key").count(), 0),
]
"""What a transform makes, and how many rows of ten records."""


@pytest.mark.parametrize(("job", "made"), JOBS)
def test_a_transform_may_use_its_records_as_it_likes(
    open_window: OpenWindow, transactional: str, table: str, job: Callable[[DataFrame], DataFrame], made: int
) -> None:
    """S25: it reads them from the executors' disks."""
    window = open_window(manifest_of([(transactional, 0, 0, 17)]), allow_gaps=True)
    result = window.write_derived(job, FileSink(table))
    assert (result.rows_written, result.read.count) == (made, 10)


class TestRefusals:
    @pytest.mark.parametrize(
        ("job", "words"),
        [
            (lambda rows: rows.withColumn("window", F.lit("x")), "a column window"),
            (lambda rows: rows.count(), "returned int"),
        ],
    )
    def test_what_makes_no_rows_of_an_output_is_refused_before_anything_is_written(
        self,
        open_window: OpenWindow,
        manifest: Manifest,
        tmp_path: Path,
        table: str,
        job: Callable[[DataFrame], Any],
        words: str,
    ) -> None:
        with pytest.raises(ConfigurationError, match=words):
            open_window(manifest).write_derived(job, FileSink(table))
        assert not (tmp_path / "table").exists()

    def test_two_outputs_have_two_places(self, open_window: OpenWindow, manifest: Manifest, table: str) -> None:
        with pytest.raises(ConfigurationError, match="Two outputs go to"):
            derive(open_window(manifest), FileSink(table), FileSink(f"{table}/", "json"))

    @pytest.mark.nightly("unusual names; the test above has two outputs in one place")
    @pytest.mark.parametrize("kind", [FileSink, DeltaSink])
    def test_a_place_of_two_spellings_is_noticed_once_both_are_written(
        self, open_window: OpenWindow, manifest: Manifest, table: str, kind: Callable[[str], Sink], our_ledger: Ledger
    ) -> None:
        with pytest.raises(ConfigurationError):
            derive(open_window(manifest), kind(table), kind(table.replace("file:///", "file:/")))
        assert our_ledger.window(manifest.window).publication is None

    @pytest.mark.nightly("tables; the other refusals are of files")
    def test_two_names_of_one_table_are_noticed_once_both_are_written(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, our_ledger: Ledger
    ) -> None:
        """As where a session's catalog is the one that the other name says."""
        name = f"t{uuid.uuid4().hex[:8]}"
        one, other = IcebergSink(f"lake.flights.{name}"), IcebergSink(f"lake.flights.{name}")
        other.place = "elsewhere"
        with pytest.raises(ConfigurationError, match="Two outputs go to"):
            derive(open_window(manifest), one, other)
        assert our_ledger.window(manifest.window).publication is None

    def test_a_sink_that_drops_rows_is_noticed(self, open_window: OpenWindow, manifest: Manifest, table: str) -> None:
        class Dropping(FileSink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                return super().replace(rows.where("key != '3'"), attempt)

        with pytest.raises(UnprovenError, match=r"made 7 rows .* holds 6"):
            open_window(manifest).write_derived(per_key, Dropping(table))
