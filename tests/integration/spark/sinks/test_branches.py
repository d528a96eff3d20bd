"""Iceberg's branches: rows are written there, counted there, and on ``main`` once they are proved, or never."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import DataFrame, Row, SparkSession

from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError, UnprovenError
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import Derived, IcebergSink
from airflow_kafka_offsets.spark.sinks.sink import Attempt
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import driver_of, name_of, publish as publish_result, result_of
from tests.integration.spark.sinks.conftest import EXPECTED, Holds, publish
from tests.unit.spark.manifests import SEVEN_MS, SIX_MS, manifest_of


class Watched(IcebergSink):
    """Notes what readers of the table see when its rows are counted.

    :ivar meanwhile: called then, once, where they are on a branch.
    """

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.seen: list[int] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
        self.seen.append(IcebergSink(self.table).current(spark, attempt)[0].count())
        if self.hidden_in(attempt):
            meanwhile, self.meanwhile = self.meanwhile, lambda: None
            meanwhile()
        return super().current(spark, attempt)


@pytest.fixture
def sink() -> Watched:
    return Watched(f"lake.flights.t_{uuid.uuid4().hex[:12]}")


def branches(spark: SparkSession, sink: IcebergSink) -> set[str]:
    spark.sql(f"REFRESH TABLE {sink.table}")
    return {row["name"] for row in spark.table(f"{sink.table}.refs").collect()} - {"main"}


class TestProved:
    def test_nobody_sees_rows_before_they_are_proved_and_their_files_are_written_once(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, sink: Watched, holds: Holds
    ) -> None:
        publish(open_window(manifest), sink)
        assert sink.seen == [0]
        assert holds(sink, manifest) == EXPECTED
        assert branches(spark, sink) == set()
        made = spark.table(f"{sink.table}.all_data_files").select("file_path").distinct().count()
        assert made == spark.table(f"{sink.table}.files").count()

    @pytest.mark.nightly("the first test shows branches")
    def test_what_another_window_commits_meanwhile_stays(
        self, open_window: OpenWindow, manifest: Manifest, flights: str, sink: Watched, holds: Holds
    ) -> None:
        neighbour = manifest_of([(flights, 2, 125, 250)], start_ms=SIX_MS, end_ms=SEVEN_MS)
        sink.meanwhile = lambda: publish(open_window(neighbour), IcebergSink(sink.table))
        publish(open_window(manifest), sink)
        assert holds(sink, manifest) == EXPECTED
        assert holds(sink, neighbour) == {2: list(range(125, 250))}


class TestUnproved:
    @pytest.mark.nightly("the first test shows branches")
    def test_rows_stay_on_their_branch_until_the_next_attempt(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, sink: Watched, holds: Holds
    ) -> None:
        window = open_window(manifest)
        branch = f"kafka_offsets_{manifest.window}_{name_of(window)}"
        with pytest.raises(UnprovenError, match=f"stay at branch {branch} of {sink.table}"):
            window.write(window.read().where("offset % 2 = 0"), sink)
        assert spark.table(sink.table).count() == 0
        assert branches(spark, sink) == {branch}
        assert 0 < spark.table(f"{sink.table}.`branch_{branch}`").count() < manifest.span

        publish(open_window(manifest), sink)
        assert holds(sink, manifest) == EXPECTED
        assert branches(spark, sink) == set()


@pytest.mark.nightly("an attempt beside another once more; test_every_sink.py has it for each sink")
class TestBesideIt:
    def test_an_attempt_that_began_later_and_is_released_first_stays(
        self, open_window: OpenWindow, manifest: Manifest, sink: Watched, holds: Holds
    ) -> None:
        sink.meanwhile = lambda: publish(open_window(manifest), IcebergSink(sink.table))
        first = open_window(manifest)
        with pytest.raises(LedgerConflictError, match="is published"):
            publish(first, sink)
        assert holds(sink, manifest) == EXPECTED

    def test_another_driver_of_the_attempt_that_is_released_first_stays(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, sink: Watched, holds: Holds
    ) -> None:
        """Its result is the one to publish; a branch is dropped once its rows can't be shown any more."""
        first = open_window(manifest)
        second = open_window(manifest, driver_of(first).number)
        sink.meanwhile = lambda: second.write(second.read(), IcebergSink(sink.table))
        with pytest.raises(CommitConflictError, match="another driver that was started for this"):
            first.write(first.read(), sink)
        assert branches(spark, sink) == set()
        publish_result(second, result_of(second))
        assert holds(sink, manifest) == EXPECTED

    def test_rows_that_somebody_adds_to_the_window_meanwhile_are_a_conflict(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, sink: Watched
    ) -> None:
        publish(open_window(manifest), sink)
        newer = open_window(manifest, again=True)
        add = f"INSERT INTO {sink.table} SELECT * FROM {sink.table} LIMIT 1"
        sink.meanwhile = lambda: spark.sql(add)
        with pytest.raises(CommitConflictError, match="another commit came in between"):
            newer.write(newer.read(), sink)


@pytest.mark.nightly("further outputs on branches; TestProved shows branches, test_derived.py further outputs")
class TestSeveralOutputs:
    def test_neither_is_seen_before_both_are_proved(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, sink: Watched
    ) -> None:
        other = Watched(f"{sink.table}_other")

        def some(records: DataFrame) -> DataFrame:
            return records.where("offset % 2 = 0").select("topic", "partition", "offset")

        open_window(manifest).write_derived(some, sink, rest=Derived(some, other))
        assert (sink.seen, other.seen) == ([0], [0])
        assert spark.table(sink.table).count() == spark.table(other.table).count() > 0


@pytest.mark.nightly("an unusual driver; TestProved shows branches")
class TestWithoutBranches:
    def test_rows_go_to_main_at_once(
        self,
        open_window: OpenWindow,
        manifest: Manifest,
        sink: Watched,
        holds: Holds,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Where Iceberg's classes are hidden from the driver's Python."""
        monkeypatch.setattr(Watched, "_java", lambda *_: None)
        publish(open_window(manifest), sink)
        assert sink.seen == [manifest.span]
        assert holds(sink, manifest) == EXPECTED
        assert "before they are proved, because there can be no branch" in caplog.text

    def test_a_catalog_that_fails_fails_the_attempt(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        sink: Watched,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """It may be there again for the next one; no row goes to main meanwhile."""
        first = open_window(manifest)
        publish(first, sink)
        newer = open_window(manifest, again=True)
        monkeypatch.setattr(Watched, "_java", lambda *_: spark._jvm.java.util.ArrayList().get(1))  # type: ignore[union-attr]
        with pytest.raises(Py4JJavaError):
            newer.write(newer.read(), sink)
        assert {row["attempt"] for row in commits(spark, sink)} == {str(driver_of(first).number)}


def commits(spark: SparkSession, sink: IcebergSink) -> list[Row]:
    """Which attempts have committed to main."""
    spark.sql(f"REFRESH TABLE {sink.table}")
    history = spark.table(f"{sink.table}.history").where("is_current_ancestor").select("snapshot_id")
    told = spark.table(f"{sink.table}.snapshots").join(history, "snapshot_id")
    return told.selectExpr("summary['kafka-offsets.attempt'] AS attempt").where("attempt IS NOT NULL").collect()


@pytest.mark.nightly("of Iceberg before 1.10")
def test_clean_up_of_older_libraries_leaves_the_files_of_main(
    spark: SparkSession, open_window: OpenWindow, manifest: Manifest, sink: Watched, holds: Holds
) -> None:
    """Iceberg before 1.10 deletes what a snapshot beside main has added, but for those that main names as picked."""
    publish(open_window(manifest), sink)
    spark.sql(f"REFRESH TABLE {sink.table}")
    snapshots = {row["snapshot_id"]: row["summary"] for row in spark.table(f"{sink.table}.snapshots").collect()}
    (picked,) = [summary["source-snapshot-id"] for summary in snapshots.values() if "source-snapshot-id" in summary]
    assert int(picked) in snapshots
    table: Any = sink._java(spark)
    table.expireSnapshots().expireOlderThan(now_ms()).cleanExpiredFiles(True).commit()
    assert holds(sink, manifest) == EXPECTED
