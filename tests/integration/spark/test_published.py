"""Reading what is published, and only that."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import IntervalError, LedgerConflictError, LedgerError, UnprovenError
from airflow_kafka_offsets.offsets.instants import to_datetime
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.spark.publish import publish
from airflow_kafka_offsets.spark.published import read_published
from tests.integration.spark.conftest import OpenWindow
from tests.unit.spark.manifests import FIVE_MS, SEVEN_MS, SIX_MS, manifest_of

FIVE, SIX, SEVEN = to_datetime(FIVE_MS), to_datetime(SIX_MS), to_datetime(SEVEN_MS)
HALF_PAST_FIVE = to_datetime(FIVE_MS + 1_800_000)


@pytest.fixture
def pipeline(ledger: Path) -> str:
    return f"file://{ledger}"


@pytest.fixture
def first(flights: str) -> Manifest:
    return manifest_of([(flights, 0, 0, 60)])


@pytest.fixture
def second(flights: str) -> Manifest:
    return manifest_of([(flights, 0, 60, 100)], start_ms=SIX_MS, end_ms=SEVEN_MS)


class TestRows:
    def test_every_published_window_is_read_with_its_name(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, second: Manifest, table: str, pipeline: str
    ) -> None:
        publish(open_window(first), table)
        publish(open_window(second), table)

        counted = read_published(spark, pipeline).groupBy("window").count().collect()
        assert {row["window"]: row["count"] for row in counted} == {first.window: 60, second.window: 40}

    def test_attempts_that_are_not_published_are_not_read(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, table: str, pipeline: str
    ) -> None:
        with pytest.raises(UnprovenError):
            publish(open_window(first, "try-1"), table, lambda rows: rows.where("offset <> 7"))
        publish(open_window(first, "try-2"), table)

        assert read_published(spark, pipeline).count() == 60

    def test_columns_that_were_added_later_are_merged_on_request(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, second: Manifest, table: str, pipeline: str
    ) -> None:
        publish(open_window(first), table)
        publish(open_window(second), table, lambda rows: rows.withColumn("added", F.lit(1)))

        rows = read_published(spark, pipeline, mergeSchema="true")
        assert rows.where("added IS NULL").count() == 60

    def test_windows_in_several_tables_come_together(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        first: Manifest,
        second: Manifest,
        tmp_path: Path,
        pipeline: str,
    ) -> None:
        publish(open_window(first), f"file://{tmp_path}/one")
        publish(open_window(second), f"file://{tmp_path}/two")

        assert read_published(spark, pipeline).count() == 100


class TestBounds:
    @pytest.mark.parametrize(
        ("start", "end", "rows"), [(None, None, 100), (SIX, None, 40), (None, SIX, 60), (FIVE, SEVEN, 100)]
    )
    def test_whole_windows_are_chosen_by_time(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        first: Manifest,
        second: Manifest,
        table: str,
        pipeline: str,
        start: datetime | None,
        end: datetime | None,
        rows: int,
    ) -> None:
        publish(open_window(first), table)
        publish(open_window(second), table)

        assert read_published(spark, pipeline, start=start, end=end).count() == rows

    def test_a_bound_within_a_published_window_is_refused(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, table: str, pipeline: str
    ) -> None:
        publish(open_window(first), table)

        with pytest.raises(IntervalError, match=f"cut through {first.window}"):
            read_published(spark, pipeline, start=HALF_PAST_FIVE)

    def test_overlapping_windows_are_refused_since_rows_would_come_twice(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, first: Manifest, table: str, pipeline: str
    ) -> None:
        publish(open_window(first), table)
        publish(open_window(manifest_of([(flights, 0, 0, 100)], end_ms=SEVEN_MS)), table)

        with pytest.raises(LedgerConflictError, match="overlap at 2026-11-21T05:00"):
            read_published(spark, pipeline)


class TestNothing:
    def test_nothing_published_is_said(self, spark: SparkSession, pipeline: str) -> None:
        with pytest.raises(LedgerError, match="has no published window with rows"):
            read_published(spark, pipeline)

    def test_empty_windows_alone_are_said(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, table: str, pipeline: str
    ) -> None:
        """S6: without a file there are no columns to give."""
        empty = replace(first, ranges=(replace(first.ranges[0], end_offset=0),))
        publish(open_window(empty), table)

        with pytest.raises(LedgerError, match="1 are published, all without rows"):
            read_published(spark, pipeline)
