"""Strict time: rows whose timestamp lies outside their window are kept apart, in one pass and with the same proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import ConfigurationError, LedgerError, UnprovenError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.published import published_windows, read_published
from airflow_kafka_offsets.spark.session.files import HadoopFiles
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import load
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import FIVE_MS, manifest_of

SECOND_MS = 1000
EARLY, INSIDE, LATE = list(range(50)), list(range(50, 100)), list(range(100, 250))


def window_of(flights: str, start_s: int, end_s: int, first: int, last: int) -> Manifest:
    """A window of partition 2, which has a record a second: offset 7 is of 05:00:07."""
    start_ms, end_ms = FIVE_MS + start_s * SECOND_MS, FIVE_MS + end_s * SECOND_MS
    return manifest_of([(flights, 2, first, last)], start_ms=start_ms, end_ms=end_ms)


@pytest.fixture
def disordered(flights: str) -> Manifest:
    """05:00:50 to 05:01:40, with the records of the 50 seconds before and of the 150 seconds after."""
    return window_of(flights, 50, 100, 0, 250)


@pytest.fixture
def pipeline(ledger: Path) -> str:
    return f"file://{ledger}"


class TestRowsKeptApart:
    def test_early_and_late_rows_by_kafkas_timestamp_whatever_a_transform_makes_of_it(
        self, spark: SparkSession, open_window: OpenWindow, disordered: Manifest, table: str, pipeline: str
    ) -> None:
        run = load(
            open_window(disordered), table, lambda rows: rows.withColumn("timestamp", F.lit(0)), strict_time=True
        )

        assert (run.rows, run.outside) == (250, 200)
        assert published_windows(HadoopFiles(spark), pipeline)[disordered.window].outside == 200
        inside = read_published(spark, pipeline)
        assert offsets(inside) == {2: INSIDE}
        assert {"timestamp", "window"} <= set(inside.columns)
        assert not {"attempt", "outside_window"} & set(inside.columns)
        assert offsets(read_published(spark, pipeline, outside=True)) == {2: EARLY + LATE}

    @pytest.mark.nightly("the tests beside it show strict time")
    def test_windows_with_and_without_it_are_read_together(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table: str, pipeline: str
    ) -> None:
        """A side without rows has no folder: not the side outside of the second window, nor the one inside of the
        third."""
        by_offsets = window_of(flights, 0, 10, 0, 20)
        all_inside = window_of(flights, 20, 30, 20, 30)
        all_outside = window_of(flights, 60, 70, 40, 50)
        assert load(open_window(by_offsets), table).outside is None
        assert load(open_window(all_inside), table, strict_time=True).outside == 0
        assert load(open_window(all_outside), table, strict_time=True).outside == 10

        assert offsets(read_published(spark, pipeline)) == {2: list(range(30))}
        outside = read_published(spark, pipeline, outside=True)
        assert offsets(outside) == {2: list(range(40, 50))}
        assert {row["window"] for row in outside.select("window").distinct().collect()} == {all_outside.window}

    def test_a_window_that_is_published_stays_as_it_was_loaded(
        self, spark: SparkSession, open_window: OpenWindow, disordered: Manifest, table: str, pipeline: str
    ) -> None:
        load(open_window(disordered), table)
        again = load(open_window(disordered, "try-2"), table, strict_time=True)

        assert (again.published_attempt, again.rows, again.outside) == ("try-1", 250, None)
        with pytest.raises(LedgerError, match="1 are published, all without rows outside its time"):
            read_published(spark, pipeline, outside=True)


@pytest.mark.nightly("windows without rows; TestRowsKeptApart shows strict time")
class TestNoRows:
    def test_a_window_without_offsets_has_none_outside(
        self, open_window: OpenWindow, empty_manifest: Manifest, table: str
    ) -> None:
        """S6."""
        run = load(open_window(empty_manifest), table, strict_time=True)

        assert (run.rows, run.outside, run.output) == (0, 0, None)

    def test_a_range_of_markers_alone_has_no_row_on_either_side(
        self, spark: SparkSession, open_window: OpenWindow, transactional: str, table: str, pipeline: str
    ) -> None:
        markers = manifest_of([(transactional, 0, 10, 17)])
        assert load(open_window(markers, allow_gaps=True), table, strict_time=True).outside == 0

        for outside in (False, True):
            with pytest.raises(LedgerError, match="1 are published, all without rows"):
                read_published(spark, pipeline, outside=outside)


@pytest.mark.nightly("test_transforms.py shows what becomes of rows that a transform changes")
class TestTransforms:
    def test_a_transform_that_drops_the_column_is_refused(
        self, open_window: OpenWindow, disordered: Manifest, table: str
    ) -> None:
        with pytest.raises(ConfigurationError, match="must keep the columns outside_window boolean"):
            load(
                open_window(disordered),
                table,
                lambda rows: rows.select("topic", "partition", "offset"),
                strict_time=True,
            )

    @pytest.mark.parametrize(
        "tamper",
        [
            pytest.param(lambda rows: rows.withColumn("outside_window", F.lit(False)), id="all inside"),
            pytest.param(
                lambda rows: rows.withColumn("outside_window", F.expr("if(outside_window, true, null)")), id="null"
            ),
        ],
    )
    def test_a_transform_that_changes_the_column_is_not_published(
        self,
        open_window: OpenWindow,
        disordered: Manifest,
        ledger: Path,
        table: str,
        tamper: Callable[[DataFrame], DataFrame],
    ) -> None:
        with pytest.raises(UnprovenError, match="200 of 250 rows lie outside its time, but the output keeps"):
            load(open_window(disordered), table, tamper, strict_time=True)
