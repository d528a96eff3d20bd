"""Derived rows that are loaded again: by another driver of the attempt, by another attempt, after a death."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import CommitConflictError, LedgerError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import DeltaSink, Derived, FileSink, IcebergSink, Sink, read_published
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.derived_jobs import MakeSink, derive, expected, make_sink, per_key, rows_of, too_high
from tests.integration.spark.publishing import driver_of, load, publish
from tests.integration.spark.sinks.faults import Died, dying, interrupted

__all__ = ["make_sink"]

EVERY = pytest.mark.parametrize("make_sink", ["parquet", "delta", "iceberg"], indirect=True)


class TestSeveralDriversOfOneAttempt:
    def test_the_second_one_finds_the_first_one_published_and_makes_nothing(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        """S23."""
        first = open_window(manifest)
        made = derive(first, make_sink("hourly"), make_sink("high"))

        def untouched(_: DataFrame) -> DataFrame:
            raise AssertionError("there is nothing to make")

        second = open_window(manifest, driver_of(first).number)
        again = second.write_derived(untouched, make_sink("hourly"), too_high=Derived(untouched, make_sink("high")))
        assert again == made
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)

    @pytest.mark.nightly("each kind of output; sinks/test_attempts.py has two drivers of an attempt at each table")
    @EVERY
    def test_the_second_one_proves_nothing_that_the_first_one_has_written(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        """It died once its rows were there, and hadn't said what it counted. In a table they stay until the task's next
        attempt."""
        first, sinks = open_window(manifest), (make_sink("hourly"), make_sink("high"))
        with interrupted("airflow_kafka_offsets.spark.window.ledger.RunLedger.record"):
            derive(first, *sinks)
        second = open_window(manifest, driver_of(first).number)
        if isinstance(sinks[0], FileSink):  # each driver's rows have a place of their own
            derive(second, *sinks)
        else:
            with pytest.raises(CommitConflictError, match="it alone can prove"):
                derive(second, *sinks)
            derive(open_window(manifest), *sinks)
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)
        assert read_published(spark, ledger_uri, output="too_high").count() == 24
        _nothing_else(spark, *sinks)


def _nothing_else(spark: SparkSession, sink: Sink, dead: Sink) -> None:
    for place, rows in ((sink, 7), (dead, 24)):
        if isinstance(place, DeltaSink):
            assert spark.read.format("delta").load(place.table).count() == rows, "nothing else lies in the table"
        if isinstance(place, IcebergSink):
            assert spark.table(place.table).count() == rows, "nothing else lies in the table"


class TestAnotherAttempt:
    @pytest.mark.nightly("a load for each step; sinks/test_every_sink.py has attempts that die at each")
    @EVERY
    def test_after_a_death_at_each_step_makes_both_anew(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        """S1, S22: the first run dies before its first step, the next one before its second, until one comes through.
        What the others left is of attempts that aren't published, in both outputs, and is replaced."""
        sink, dead = make_sink("hourly"), make_sink("high")
        for step in range(40):
            with contextlib.suppress(Died), dying(step, sink, dead):
                derive(open_window(manifest), sink, dead)
                break
            for output in (None, "too_high"):
                with pytest.raises(LedgerError, match="no published window"):
                    read_published(spark, ledger_uri, output=output)
        assert 4 < step < 39, "the note, both outputs and the counts are steps"
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)
        assert read_published(spark, ledger_uri, output="too_high").count() == 24
        _nothing_else(spark, sink, dead)

    @pytest.mark.nightly("two attempts at a table; sinks/test_attempts.py has them for rows of records")
    @pytest.mark.parametrize("make_sink", ["delta", "iceberg"], indirect=True)
    def test_that_began_later_keeps_its_rows_from_one_that_wakes_up(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        late, sinks = open_window(manifest), (make_sink("hourly"), make_sink("high"))

        def while_another_loads(records: DataFrame) -> DataFrame:
            derive(open_window(manifest), *sinks)
            return per_key(records).withColumn("flights", F.lit(0).cast("bigint"))

        with pytest.raises(CommitConflictError):
            late.write_derived(while_another_loads, sinks[0], too_high=Derived(too_high, sinks[1]))
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)


class TestReload:
    def test_replaces_both(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        """In tables, they are read again once that is published."""
        sinks = make_sink("hourly"), make_sink("high")
        derive(open_window(manifest), *sinks)
        window = open_window(manifest, again=True)
        made = window.write_derived(_doubled, sinks[0], too_high=Derived(too_high, sinks[1]))
        if isinstance(sinks[0], DeltaSink):
            for output in (None, "too_high"):
                with pytest.raises(CommitConflictError, match="The window is being loaded again"):
                    read_published(spark, ledger_uri, output=output)
        publish(window, made)
        doubled = {key: (2 * flights, highest) for key, (flights, highest) in expected(manifest).items()}
        assert rows_of(read_published(spark, ledger_uri)) == doubled
        assert read_published(spark, ledger_uri, output="too_high").count() == 24

    def test_may_be_by_a_job_of_other_outputs(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, tmp_path: Path
    ) -> None:
        load(open_window(manifest), f"file://{tmp_path}/records")
        with pytest.raises(LedgerError, match="without an output too_high; its named outputs are: none"):
            read_published(spark, ledger_uri, output="too_high")
        derive(open_window(manifest, again=True), *(FileSink(f"file://{tmp_path}/{name}") for name in "ab"))
        assert read_published(spark, ledger_uri, output="too_high").count() == 24
        load(open_window(manifest, again=True), f"file://{tmp_path}/records")
        assert read_published(spark, ledger_uri).count() == 205


def _doubled(records: DataFrame) -> DataFrame:
    return per_key(records).withColumn("flights", F.col("flights") * 2)
