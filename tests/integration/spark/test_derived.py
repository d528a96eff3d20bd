"""Jobs that make other rows of the records: filtered, aggregated, exploded; and bad ones apart."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    LedgerError,
    UnprovenError,
)
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.load_decisions import attempt_of
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.attempts import count_nothing
from airflow_kafka_offsets.spark import (
    Attempt,
    DeltaSink,
    Derived,
    FileSink,
    IcebergSink,
    Sink,
    read_published,
)
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
from tests.integration.spark.test_transforms import outcome_of, transform_of
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

    @pytest.mark.nightly("four cases of no rows; the test above has one")
    @pytest.mark.parametrize("make_sink", ["parquet"], indirect=True)
    @pytest.mark.parametrize("outputs", [1, 2])
    @pytest.mark.parametrize("gaps", [False, True])
    def test_may_have_no_row_though_there_were_records(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
        outputs: int,
        gaps: bool,
    ) -> None:
        """As when all are dead letters: Spark takes a stage that is empty out of the plan, with what it has counted."""

        def none(records: DataFrame) -> DataFrame:
            return records.where("key = 'never'").groupBy("key").count()

        window = open_window(manifest, allow_gaps=gaps)
        further = {"all": Derived(lambda rows: rows.select("offset"), make_sink("all"))} if outputs == 2 else {}
        result = window.write_derived(none, make_sink("none"), **further)
        assert (publish(window, result).rows, result.read.count) == (0, 205)
        if further:
            assert read_published(spark, ledger_uri, output="all").count() == 205
        assert spark.conf.get("spark.sql.adaptive.optimizer.excludedRules", None) is None

    def test_of_a_log_with_gaps_are_held_against_the_log(
        self, spark: SparkSession, open_window: OpenWindow, transactional: str, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        """E12, S18: ten records at seventeen offsets."""
        manifest = manifest_of([(transactional, 0, 0, 17)])
        with pytest.raises(UnprovenError, match=r"made of 10 records, but the window has 17 offsets.*allow gaps"):
            open_window(manifest).write_derived(per_key, make_sink("first"))
        window = open_window(manifest, allow_gaps=True)
        result = derive(window, make_sink("hourly"), make_sink("high"))
        assert (result.records, result.read.count, result.unread) == (10, 10, ())
        assert sum(flights for flights, _ in rows_of(read_published(spark, ledger_uri)).values()) == 10


JOBS = [
    ('rows.where("offset % 2 = 0")', "proved"),
    ('rows.groupBy("key").count()', "proved"),
    ('rows.groupBy("key").count().orderBy("key")', "proved"),
    ('rows.groupBy("key").count().limit(2)', "proved"),
    ('rows.agg(F.countDistinct("key"), F.countDistinct("partition"))', "proved"),
    ('rows.withColumn("n", F.row_number().over(Window.partitionBy("key").orderBy("offset")))', "proved"),
    ('rows.dropDuplicates(["key"])', "proved"),
    ("rows.sample(0.5, seed=1)", "proved"),
    ('rows.select("offset", F.explode(F.array(F.lit(1), F.lit(2))).alias("copy"))', "proved"),
    ('rows.join(names, "partition", "left")', "proved"),
    ('rows.join(F.broadcast(names), "partition")', "proved"),
    ("rows.mapInArrow(keep, rows.schema)", "proved"),
    ("""rows.where("key = 'never'").groupBy("key").count()""", "proved"),
    ('rows.groupBy("key").count().cache()', "proved"),
    ('rows.groupBy("key").count().orderBy("key").cache()', "proved"),
    ("rows.limit(1)", "not proved"),
    ('rows.join(nothing, "partition")', "refused"),
    ('rows.where("false")', "refused"),
    ('rows.orderBy("key")', "refused"),
    ('rows.repartitionByRange(3, "key")', "refused"),
    ("rows.union(rows)", "refused"),
    ('rows.where(F.col("offset") > rows.select(F.avg("offset")).scalar())', "refused"),
    ('rows.join(rows.groupBy("partition").count(), "partition")', "refused"),
    ("rows.limit(rows.count())", "refused"),
    ("rows.localCheckpoint()", "refused"),
    ("spark.createDataFrame(rows.rdd, rows.schema)", "refused"),
]
"""What docs/guides/jobs.md sums up, and what becomes of it."""


class TestTransforms:
    """S25."""

    @pytest.fixture(autouse=True)
    def functions_run_here(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        """Python functions of a query run by this Python, which has PyArrow."""
        monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)

    @pytest.mark.nightly("52 jobs; TestOutputs derives rows, TestRefusals refuses what can't be counted")
    @pytest.mark.parametrize("gaps", [False, True])
    @pytest.mark.parametrize(("job", "outcome"), JOBS)
    def test_end_as_the_docs_say(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        transactional: str,
        table: str,
        job: str,
        outcome: str,
        gaps: bool,
    ) -> None:
        window = open_window(manifest_of([(transactional, 0, 0, 17)]) if gaps else manifest, allow_gaps=gaps)
        assert outcome_of(lambda: window.write_derived(transform_of(job, spark), FileSink(table, "json"))) == outcome


def subquery(records: DataFrame) -> DataFrame:
    """Reads all of them for a condition, and not all of them for its rows."""
    records.createOrReplaceTempView("seen")
    least = "(SELECT min(`offset`) FROM seen)"
    return records.sparkSession.sql(f"SELECT `offset` FROM (SELECT * FROM seen LIMIT 50) WHERE `offset` >= {least}")


def exists(records: DataFrame) -> DataFrame:
    records.createOrReplaceTempView("seen")
    found = "EXISTS (SELECT 1 FROM seen WHERE `offset` = 20)"
    return records.sparkSession.sql(f"SELECT `offset` FROM seen WHERE {found}")


class TestRefusals:
    def test_a_read_that_is_stopped_early_is_not_proved(
        self, open_window: OpenWindow, manifest: Manifest, table: str, our_ledger: Ledger
    ) -> None:
        """S25."""
        window = open_window(manifest)
        with pytest.raises(UnprovenError, match="stopped early, by limit"):
            window.write_derived(lambda rows: rows.limit(50).groupBy("partition").count(), FileSink(table))
        assert our_ledger.window(manifest.window).publication is None

    @pytest.mark.parametrize(
        ("job", "words"),
        [
            (lambda rows: rows.union(rows), "uses its records 2 times"),
            (
                lambda rows: rows.where(F.col("offset") > rows.select(F.avg("offset")).scalar()),
                "uses its records 2 times",
            ),
            (subquery, "uses its records 2 times"),
            (exists, "uses its records 2 times"),
            (lambda rows: rows.join(rows.groupBy("partition").count(), "partition"), "uses its records 2 times"),
            (lambda rows: rows.orderBy("offset"), "orderBy.* which has Spark read them twice"),
            (lambda rows: rows.where("false"), "don't come from its records"),
            (lambda rows: rows.sparkSession.range(3), "don't come from its records"),
            (lambda rows: rows.withColumn("window", F.lit("x")), "a column window"),
            (lambda rows: rows.limit(max(1, rows.count() - 200)), "ran an action on its records"),
            (lambda rows: rows.count(), "returned int"),
        ],
    )
    def test_what_can_not_be_counted_is_refused_before_anything_is_written(
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

    def test_what_another_transform_does_with_an_outputs_records_is_noticed(
        self, open_window: OpenWindow, manifest: Manifest, make_sink: MakeSink
    ) -> None:
        """They would be counted by the wrong action."""
        given: list[DataFrame] = []

        def some(records: DataFrame) -> DataFrame:
            given.append(records)
            return records.limit(50).select("offset")

        def counting(records: DataFrame) -> DataFrame:
            given[-1].count()
            return records.select("offset")

        def joining(records: DataFrame) -> DataFrame:
            return records.join(given[-1].groupBy("partition").count(), "partition").select("offset")

        for other, words in [(counting, "ran an action on its"), (joining, "another output's")]:
            window = open_window(manifest)
            with pytest.raises(ConfigurationError, match=words):
                window.write_derived(some, make_sink("some"), other=Derived(other, make_sink("other")))

    def test_a_sink_that_drops_rows_is_noticed(self, open_window: OpenWindow, manifest: Manifest, table: str) -> None:
        class Dropping(FileSink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                return super().replace(rows.where("key != '3'"), attempt)

        with pytest.raises(UnprovenError, match=r"made 7 rows .* holds 6"):
            open_window(manifest).write_derived(per_key, Dropping(table))
