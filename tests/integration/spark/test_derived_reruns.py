"""Derived rows that are loaded again: by the same job, by another, after a death, of another revision."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import (
    LedgerConflictError,
    LedgerError,
)
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import (
    DeltaSink,
    Derived,
    FileSink,
    IcebergSink,
    read_published,
)
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.derived_jobs import (
    MakeSink,
    derive,
    expected,
    ledger_uri,
    make_sink,
    per_key,
    rows_of,
    too_high,
)
from tests.integration.spark.publishing import load, publish
from tests.integration.spark.sinks.conftest import attempt_of, write_shown
from tests.integration.spark.sinks.faults import Died, dying
from tests.unit.spark.manifests import manifest_of

__all__ = ["ledger_uri", "make_sink"]


class TestReruns:
    def test_of_a_published_window_write_nothing(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        """S23."""
        first = derive(open_window(manifest), make_sink("hourly"), make_sink("high"))

        def untouched(_: DataFrame) -> DataFrame:
            raise AssertionError("there is nothing to make")

        rerun = open_window(manifest, "try-2")
        again = rerun.write_derived(untouched, make_sink("hourly"), too_high=Derived(untouched, make_sink("high")))
        assert again == first
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)

    @pytest.mark.nightly("a load for each step; sinks/test_every_sink.py has attempts that die at each")
    @pytest.mark.parametrize("make_sink", ["parquet", "delta", "iceberg"], indirect=True)
    def test_after_a_death_at_each_step_make_both_anew(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        """S1, S22: the first run dies before its first step, the next one before its second, until one comes through.
        What the others left is of attempts that aren't published, in both outputs, and is replaced."""
        sink, dead = make_sink("hourly"), make_sink("high")
        for step in range(40):
            with contextlib.suppress(Died), dying(step, sink, dead):
                derive(open_window(manifest, f"try-{step}"), sink, dead)
                break
            for output in (None, "too_high"):
                with pytest.raises(LedgerError, match="no published window"):
                    read_published(spark, ledger_uri, output=output)
        assert 4 < step < 39, "the note, both outputs and the counts are steps"
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)
        assert read_published(spark, ledger_uri, output="too_high").count() == 24
        for place, rows in ((sink, 7), (dead, 24)):
            if isinstance(place, DeltaSink):
                assert spark.read.format("delta").load(place.table).count() == rows, "nothing else lies in the table"
            if isinstance(place, IcebergSink):
                assert spark.table(place.table).count() == rows, "nothing else lies in the table"

    @pytest.mark.nightly("the tests beside it run a job again")
    def test_with_other_outputs_are_refused(
        self, open_window: OpenWindow, manifest: Manifest, make_sink: MakeSink, table: str
    ) -> None:
        derive(open_window(manifest), make_sink("hourly"), make_sink("high"))
        with pytest.raises(LedgerConflictError, match=r"with 7 rows in .*, 24 rows in .*, and this run writes"):
            open_window(manifest, "try-2").write_derived(per_key, make_sink("hourly"))
        with pytest.raises(LedgerConflictError, match="rows that a job has derived"):
            load(open_window(manifest, "try-3"), table)
        with pytest.raises(LedgerConflictError, match="hold 7 and 0 of these rows"):
            derive(open_window(manifest, "try-4"), make_sink("hourly"), make_sink("elsewhere"))

    def test_of_a_window_of_records_are_refused(
        self, open_window: OpenWindow, manifest: Manifest, make_sink: MakeSink, table: str
    ) -> None:
        load(open_window(manifest), table)
        with pytest.raises(LedgerConflictError, match="a row for each record"):
            derive(open_window(manifest, "try-2"), make_sink("hourly"), make_sink("high"))

    @pytest.mark.nightly("the tests beside it run a job again")
    def test_may_name_the_further_outputs_in_another_order(
        self, open_window: OpenWindow, manifest: Manifest, make_sink: MakeSink
    ) -> None:
        names = ("a", "b")
        window = open_window(manifest)
        outputs = {name: Derived(too_high, make_sink(name)) for name in names}
        first = window.write_derived(per_key, make_sink("hourly"), **outputs)
        publish(window, first)
        turned = {name: outputs[name] for name in reversed(names)}
        assert open_window(manifest, "try-2").write_derived(per_key, make_sink("hourly"), **turned) == first

    @pytest.mark.nightly("two attempts at a table; sinks/test_every_sink.py has a second one")
    @pytest.mark.parametrize("kind", [DeltaSink, IcebergSink])
    def test_load_a_table_again_whose_rows_another_attempt_has_replaced_by_as_many(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        tmp_path: Path,
        kind: Any,
    ) -> None:
        place = f"file://{tmp_path}/t" if kind is DeltaSink else f"lake.flights.t{uuid.uuid4().hex[:8]}"
        dead = FileSink(f"file://{tmp_path}/dead")
        derive(open_window(manifest), kind(place), dead)
        rows = read_published(spark, ledger_uri).drop("window").withColumn("flights", F.lit(0).cast("bigint")).collect()
        other = attempt_of(manifest, "client", started_ms=now_ms() + 1, has_note=False, earlier=frozenset({"try-1"}))
        write_shown(kind(place), spark.createDataFrame(rows, "key string, flights bigint, highest_m int"), other)
        with pytest.raises(LedgerConflictError):
            read_published(spark, ledger_uri)
        assert derive(open_window(manifest, "try-2"), kind(place), dead).attempt == "try-2"
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)

    @pytest.mark.nightly("of revisions; the first test runs a job again")
    @pytest.mark.parametrize("lost", ["emptied", "elsewhere"])
    def test_of_what_retention_left_do_not_replace_the_whole_whose_rows_are_gone(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        window_folders: WindowFolders,
        tmp_path: Path,
        lost: str,
    ) -> None:
        def sink(name: str) -> DeltaSink:
            return DeltaSink(f"file://{tmp_path}/{name}")

        derive(open_window(manifest), sink("a"), sink("b"))
        if lost == "emptied":
            for name in "ab":
                spark.sql(f"DELETE FROM delta.`file://{tmp_path}/{name}`")
        first = replace(manifest.ranges[0], start_offset=50, lost_offsets=40)
        rest = open_window(replace(manifest, ranges=(first, *manifest.ranges[1:])), "try-2")
        assert rest.manifest.revision == 2
        names = "ab" if lost == "emptied" else "cd"
        with pytest.raises(LedgerConflictError, match="hold 0 and 0 of these rows"):
            derive(rest, *map(sink, names))
        published = window_folders.publication(manifest.window)
        assert published is not None
        assert published.revision == 1

    @pytest.mark.nightly("of revisions; the first test runs a job again")
    def test_of_a_newer_revision_replace_both(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        flights: str,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        derive(open_window(manifest), make_sink("hourly"), make_sink("high"))
        newer = replace(manifest_of([(flights, 2, 0, 200)]), cluster_id=manifest.cluster_id, end_snapshot=9)
        derive(open_window(newer, "try-2"), make_sink("hourly"), make_sink("high"))
        assert rows_of(read_published(spark, ledger_uri)) == expected(newer)
        assert read_published(spark, ledger_uri, output="too_high").count() == 99


@pytest.mark.nightly("sinks/test_reading.py reads tables, test_derived.py outputs")
class TestReading:
    def test_an_output_that_a_window_was_published_without(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        load(open_window(manifest), table)
        with pytest.raises(LedgerError, match="without an output too_high; its further outputs are: none"):
            read_published(spark, ledger_uri, output="too_high")
