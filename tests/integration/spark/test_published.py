"""Reading what is published, and only that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from upath import UPath

from airflow_kafka_offsets.errors import IntervalError, LedgerConflictError, LedgerError, UnprovenError
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.instants import instant_ms, to_datetime
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import published_windows, read_published
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.session.files import HadoopFiles
from dev.kafka import Broker
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import load
from tests.unit.spark.manifests import FIVE_MS, SEVEN_MS, SIX_MS, make_ledger, manifest_of

SIX, SEVEN = to_datetime(SIX_MS), to_datetime(SEVEN_MS)


@pytest.fixture
def pipeline(ledger: Path) -> str:
    return f"file://{ledger}"


@pytest.fixture
def first(flights: str) -> Manifest:
    return manifest_of([(flights, 0, 0, 60)])


@pytest.fixture
def second(flights: str) -> Manifest:
    return manifest_of([(flights, 0, 60, 100)], start_ms=SIX_MS, end_ms=SEVEN_MS)


@pytest.fixture
def empty(first: Manifest) -> Manifest:
    return replace(first, ranges=(replace(first.ranges[0], end_offset=0),))


class TestRows:
    def test_every_published_window_is_read_with_its_name(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, second: Manifest, table: str, pipeline: str
    ) -> None:
        load(open_window(first), table)
        load(open_window(second), table)

        counted = read_published(spark, pipeline).groupBy("window").count().collect()
        assert {row["window"]: row["count"] for row in counted} == {first.window: 60, second.window: 40}
        assert read_published(spark, pipeline, start=SIX, end=SEVEN).count() == 40

    def test_two_ledgers_of_one_name_that_write_to_one_path_have_each_its_own(
        self,
        spark: SparkSession,
        broker: Broker,
        cluster_id: str,
        open_window: OpenWindow,
        first: Manifest,
        table: str,
        pipeline: str,
        tmp_path: Path,
    ) -> None:
        """A staging Dag that was copied with its output's path, and loads less."""
        load(open_window(first), table)
        staging, ledger_id = tmp_path / "staging" / "flights", "5" * 32
        make_ledger(staging, ledger_id)
        ten = (replace(first.ranges[0], end_offset=10),)
        less = replace(first, ledger_id=ledger_id, cluster_id=cluster_id, ranges=ten)
        pinned = WindowFolders(UPath(staging)).pin_again(less)
        kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        load(PinnedWindow.open(spark, RunConf(pinned.uri, pinned.sha256, "try-2", kafka)), table)

        assert read_published(spark, pipeline).count() == 60
        assert read_published(spark, staging.as_uri()).count() == 10

    def test_attempts_that_are_not_published_are_not_read(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, table: str, pipeline: str
    ) -> None:
        with pytest.raises(UnprovenError):
            load(open_window(first, "try-1"), table, lambda rows: rows.where("offset <> 7"))
        load(open_window(first, "try-2"), table)

        assert read_published(spark, pipeline).count() == 60

    def test_columns_that_were_added_later_are_merged_on_request(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, second: Manifest, table: str, pipeline: str
    ) -> None:
        load(open_window(first), table)
        load(open_window(second), table, lambda rows: rows.withColumn("added", F.lit(1)))

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
        load(open_window(first), f"file://{tmp_path}/one")
        load(open_window(second), f"file://{tmp_path}/two")

        assert read_published(spark, pipeline).count() == 100


class TestRevisions:
    def test_the_newest_revision_is_read_once_it_is_published_and_the_older_one_until_then(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, first: Manifest, table: str, pipeline: str
    ) -> None:
        """S23: both have the window's name, and their rows lie side by side in the table."""
        load(open_window(first), table)
        second = open_window(replace(manifest_of([(flights, 0, 0, 70)]), end_snapshot=9), "try-2")
        assert second.manifest.revision == 2

        assert read_published(spark, pipeline).count() == 60
        load(second, table)
        assert read_published(spark, pipeline).count() == 70

    def test_a_forgotten_revision_is_not_read(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        window_folders: WindowFolders,
        empty: Manifest,
        pipeline: str,
    ) -> None:
        window = open_window(empty)
        load(window, "file:///nowhere")
        files = HadoopFiles(spark)
        assert list(published_windows(files, pipeline)) == [empty.window]

        window_folders.forget(empty.window, "resolved too early")
        assert published_windows(files, pipeline) == {}

        again = open_window(empty, "try-2")
        assert again.manifest.revision == 2
        load(again, "file:///nowhere")
        assert published_windows(files, pipeline)[empty.window].attempt == "try-2"


@pytest.mark.nightly("ledgers of many months; the tests above choose windows by time")
class TestMonths:
    """Windows without offsets, so that publishing them is quick."""

    NOVEMBER, DECEMBER, JANUARY, FEBRUARY, MARCH = (
        instant_ms(datetime(2026 + month // 12, month % 12 + 1, 1, tzinfo=UTC)) for month in (10, 11, 12, 13, 14)
    )
    EXTENTS = ((NOVEMBER, DECEMBER - 1), (DECEMBER - 1, DECEMBER), (DECEMBER, FEBRUARY), (FEBRUARY, MARCH))

    @pytest.fixture
    def windows(self, open_window: OpenWindow, empty: Manifest) -> list[str]:
        """One of nearly a month, one of its last millisecond, one of two months, one of a month."""
        manifests = [
            replace(empty, window=window_id(start, end), start_ms=start, end_ms=end) for start, end in self.EXTENTS
        ]
        for each in manifests:
            load(open_window(each), "file:///nowhere")
        return [each.window for each in manifests]

    @pytest.mark.parametrize(
        ("start_ms", "end_ms", "chosen"),
        [
            pytest.param(None, None, slice(0, 4), id="all"),
            pytest.param(DECEMBER, None, slice(2, 4), id="from a month on"),
            pytest.param(None, DECEMBER, slice(0, 2), id="up to a month"),
            pytest.param(DECEMBER - 1, DECEMBER, slice(1, 2), id="a millisecond"),
            pytest.param(DECEMBER, FEBRUARY, slice(2, 3), id="two months"),
            pytest.param(MARCH, None, slice(0, 0), id="later than all"),
        ],
    )
    def test_windows_of_several_months_are_chosen_by_time(
        self,
        spark: SparkSession,
        windows: list[str],
        pipeline: str,
        start_ms: int | None,
        end_ms: int | None,
        chosen: slice,
    ) -> None:
        start, end = (None if each is None else to_datetime(each) for each in (start_ms, end_ms))

        assert list(published_windows(HadoopFiles(spark), pipeline, start=start, end=end)) == windows[chosen]

    @pytest.mark.parametrize("bounds", [{"start": JANUARY}, {"end": JANUARY}, {"start": JANUARY, "end": FEBRUARY}])
    def test_a_window_that_began_in_an_earlier_month_is_cut_by_a_bound_all_the_same(
        self, spark: SparkSession, windows: list[str], pipeline: str, bounds: dict[str, int]
    ) -> None:
        bound = {name: to_datetime(each) for name, each in bounds.items()}

        with pytest.raises(IntervalError, match=f"cut through {windows[2]}"):
            published_windows(HadoopFiles(spark), pipeline, **bound)


class TestOverlaps:
    HALF_PAST_FIVE_MS = (FIVE_MS + SIX_MS) // 2

    def test_windows_that_share_offsets_are_refused_since_rows_would_come_twice(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, first: Manifest, table: str, pipeline: str
    ) -> None:
        load(open_window(first), table)
        load(open_window(manifest_of([(flights, 0, 50, 100)], end_ms=SEVEN_MS)), table)

        with pytest.raises(LedgerConflictError, match=f"share offsets.*: {flights}-0: 10 offsets from 50 on"):
            read_published(spark, pipeline)

    @pytest.mark.nightly("of overlaps; the test above refuses two of them")
    def test_also_where_one_that_shares_none_lies_between_them(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table: str, pipeline: str
    ) -> None:
        half_past = self.HALF_PAST_FIVE_MS
        load(open_window(manifest_of([(flights, 0, 0, 60)], end_ms=SEVEN_MS)), table)
        load(open_window(manifest_of([(flights, 0, 60, 70)], start_ms=half_past, end_ms=half_past + 1)), table)
        load(open_window(manifest_of([(flights, 0, 50, 60)], start_ms=SIX_MS, end_ms=SEVEN_MS)), table)

        with pytest.raises(LedgerConflictError, match=f"{flights}-0: 10 offsets from 50 on"):
            read_published(spark, pipeline)

    @pytest.mark.nightly("of windows that cross; the tests beside it have the usual ones")
    def test_windows_that_share_time_alone_are_read_whole(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, first: Manifest, table: str, pipeline: str
    ) -> None:
        """As increments by hand beside an hour of the schedule are, where each begins where another ends."""
        load(open_window(first), table)
        load(open_window(manifest_of([(flights, 0, 60, 100)], start_ms=self.HALF_PAST_FIVE_MS, end_ms=SEVEN_MS)), table)

        rows = read_published(spark, pipeline)
        assert (rows.count(), rows.select("offset").distinct().count()) == (100, 100)


class TestNothing:
    def test_nothing_published_is_said(self, spark: SparkSession, pipeline: str) -> None:
        with pytest.raises(LedgerError, match="has no published window with rows"):
            read_published(spark, pipeline)

    def test_empty_windows_alone_are_said(
        self, spark: SparkSession, open_window: OpenWindow, empty: Manifest, table: str, pipeline: str
    ) -> None:
        """S6: without a file there are no columns to give."""
        load(open_window(empty), table)

        with pytest.raises(LedgerError, match="1 are published, all without rows"):
            read_published(spark, pipeline)
