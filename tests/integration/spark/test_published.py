"""Reading what is published, and only that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession, functions as F

from airflow_kafka_offsets.errors import IntervalError, LedgerError, UnprovenError
from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import to_datetime
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import published_windows, read_published
from airflow_kafka_offsets.spark.session.conf import RunConf
from dev.kafka import Broker
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import load
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import FIVE_MS, SEVEN_MS, SIX_MS, manifest_of

SIX, SEVEN = to_datetime(SIX_MS), to_datetime(SEVEN_MS)
HALF_PAST_FIVE = to_datetime((FIVE_MS + SIX_MS) // 2)


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
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        first: Manifest,
        second: Manifest,
        table: str,
        ledger_uri: str,
    ) -> None:
        load(open_window(first), table)
        load(open_window(second), table)

        rows = read_published(spark, ledger_uri)
        counted = rows.groupBy("window").count().collect()
        assert {row["window"]: row["count"] for row in counted} == {first.window: 60, second.window: 40}
        assert "attempt" not in rows.columns
        assert read_published(spark, ledger_uri, start=SIX, end=SEVEN).count() == 40

    def test_two_ledgers_of_one_name_that_write_to_one_path_have_each_its_own(
        self,
        spark: SparkSession,
        broker: Broker,
        cluster_id: str,
        open_window: OpenWindow,
        first: Manifest,
        table: str,
        ledger_uri: str,
        tmp_path: Path,
    ) -> None:
        """A staging Dag that was copied with its output's path, and loads less."""
        load(open_window(first), table)
        staging = ledgers.ledger_in(tmp_path / "staging" / "flights")
        ten = (replace(first.ranges[0], end_offset=10),)
        less = replace(first, ledger_id="5" * 32, cluster_id=cluster_id, ranges=ten)
        window = ledgers.pin(staging, less)
        number, pinned = ledgers.begin(staging, window), staging.pinned(window)
        kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        load(PinnedWindow.open(spark, RunConf(pinned.uri, pinned.sha256, number, kafka)), table)

        assert read_published(spark, ledger_uri).count() == 60
        assert read_published(spark, f"file://{tmp_path}/staging/flights").count() == 10

    def test_attempts_that_are_not_published_are_not_read(
        self, spark: SparkSession, open_window: OpenWindow, first: Manifest, table: str, ledger_uri: str
    ) -> None:
        with pytest.raises(UnprovenError):
            load(open_window(first), table, lambda rows: rows.where("offset <> 7"))
        load(open_window(first), table)

        assert read_published(spark, ledger_uri).count() == 60

    def test_a_window_that_was_voided_is_not_read_and_one_of_its_name_is(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        our_ledger: Ledger,
        first: Manifest,
        second: Manifest,
        flights: str,
        table: str,
        ledger_uri: str,
    ) -> None:
        load(open_window(first), table)
        load(open_window(second), table)
        our_ledger.change(lambda state: corrections.void(state, [first.window], force=True))
        assert offsets(read_published(spark, ledger_uri)) == {0: list(range(60, 100))}
        load(open_window(manifest_of([(flights, 0, 50, 60)])), table)
        assert offsets(read_published(spark, ledger_uri)) == {0: list(range(50, 100))}

    def test_columns_that_were_added_later_are_merged_on_request(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        first: Manifest,
        second: Manifest,
        table: str,
        ledger_uri: str,
    ) -> None:
        load(open_window(first), table)
        load(open_window(second), table, lambda rows: rows.withColumn("added", F.lit(1)))

        rows = read_published(spark, ledger_uri, mergeSchema="true")
        assert rows.where("added IS NULL").count() == 60

    def test_windows_in_several_tables_come_together(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        first: Manifest,
        second: Manifest,
        tmp_path: Path,
        ledger_uri: str,
    ) -> None:
        load(open_window(first), f"file://{tmp_path}/one")
        load(open_window(second), f"file://{tmp_path}/two")

        assert read_published(spark, ledger_uri).count() == 100


class TestBounds:
    def test_choose_whole_windows_by_their_names(
        self, open_window: OpenWindow, our_ledger: Ledger, empty: Manifest
    ) -> None:
        """No manifest is read for that, and no listing."""
        extents = [(FIVE_MS, FIVE_MS + 1), (FIVE_MS + 1, SIX_MS), (SIX_MS, SEVEN_MS)]
        windows = [replace(empty, window=window_id(*each), start_ms=each[0], end_ms=each[1]) for each in extents]
        for each in windows:
            load(open_window(each), "file:///nowhere")
        state, names = our_ledger.read(), [each.window for each in windows]

        def chosen(start_ms: int | None, end_ms: int | None) -> list[str]:
            return [window.name for window in published_windows(state, start_ms, end_ms)]

        assert chosen(None, None) == names
        assert chosen(FIVE_MS + 1, SIX_MS) == names[1:2]
        assert chosen(SIX_MS, None) == names[2:]
        assert chosen(None, SIX_MS) == names[:2]
        assert chosen(SEVEN_MS, None) == []

    @pytest.mark.parametrize("bounds", [{"start": HALF_PAST_FIVE}, {"end": HALF_PAST_FIVE}])
    def test_that_cut_a_window_are_refused(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        empty: Manifest,
        ledger_uri: str,
        bounds: dict[str, object],
    ) -> None:
        load(open_window(empty), "file:///nowhere")
        with pytest.raises(IntervalError, match=f"cut through {empty.window}"):
            read_published(spark, ledger_uri, **bounds)  # type: ignore[arg-type]


class TestNothing:
    def test_nothing_published_is_said(self, spark: SparkSession, ledger_uri: str) -> None:
        with pytest.raises(LedgerError, match="has no published window with rows"):
            read_published(spark, ledger_uri)

    def test_empty_windows_alone_are_said(
        self, spark: SparkSession, open_window: OpenWindow, empty: Manifest, table: str, ledger_uri: str
    ) -> None:
        """S6: without a file there are no columns to give."""
        load(open_window(empty), table)

        with pytest.raises(LedgerError, match="1 are published, all without rows"):
            read_published(spark, ledger_uri)
