"""Attempts at one window in one table: the rows are those of the one that began last, and no other is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import (
    CommitConflictError,
    LedgerConflictError,
    LedgerCorruptError,
    UncheckedSourceError,
    UnprovenError,
)
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import read_published
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS
from airflow_kafka_offsets.spark.sinks.table_owner import sql_name
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow, window_folder
from tests.integration.spark.publishing import count, publish
from tests.integration.spark.sinks.conftest import attempt_of, write_shown
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import manifest_of

pytestmark = pytest.mark.nightly("attempts in any order; test_every_sink.py has a second one beside the first")


@pytest.fixture
def nine(flights: str) -> Manifest:
    return manifest_of([(flights, 0, 0, 9)])


def test_a_proved_attempt_whose_rows_another_may_have_replaced_is_not_published(
    spark: SparkSession, open_window: OpenWindow, nine: Manifest, ledger: Path, table_sink: TableSink
) -> None:
    """S22: its worker died before it published, and the other one's application drops rows."""
    first = open_window(nine, "try-1")
    result = first.write(first.read(), table_sink)
    second = open_window(nine, "try-2")
    with pytest.raises(UnprovenError):
        second.write(second.read().where("offset % 2 = 0"), table_sink)
    if table_sink.kind == "iceberg":  # the other one's rows never left its branch
        assert publish(first, result).attempt == "try-1"
    else:
        with pytest.raises(CommitConflictError, match="attempt try-2 started later"):
            publish(first, result)
        third = open_window(nine, "try-3")
        publish(third, third.write(third.read(), table_sink))
    assert offsets(read_published(spark, f"file://{ledger}")) == {0: list(range(9))}


def test_an_application_that_was_mended_replaces_what_it_had_written_before(
    spark: SparkSession, open_window: OpenWindow, nine: Manifest, ledger: Path, table_sink: TableSink
) -> None:
    for attempt, price in (("try-1", "wrong"), ("try-2", "right")):
        window = open_window(nine, attempt)
        result = window.write(window.read().withColumn("price", F.lit(price)), table_sink)
    publish(window, result)
    assert {each["price"] for each in read_published(spark, f"file://{ledger}").collect()} == {"right"}


def test_a_note_that_its_driver_left_half_written_keeps_no_later_attempt_from_being_published(
    spark: SparkSession, open_window: OpenWindow, nine: Manifest, ledger: Path, table_sink: TableSink
) -> None:
    """S22: the disk was full, or the driver was killed. An attempt that was counted before it isn't published: nobody
    knows whether the dead one has written over it."""
    first = open_window(nine, "try-1")
    result = first.write(first.read(), table_sink)
    (window_folder(ledger, nine) / "applications" / "try-2.json").touch()
    with pytest.raises(CommitConflictError, match="attempt try-2 started later"):
        publish(first, result)

    third = open_window(nine, "try-3")
    assert publish(third, third.write(third.read(), table_sink)).attempt == "try-3"
    assert offsets(read_published(spark, f"file://{ledger}")) == {0: list(range(9))}


def test_an_attempt_that_failed_before_it_wrote_has_written_over_nothing(
    spark: SparkSession, open_window: OpenWindow, pin: Callable[..., RunConf], nine: Manifest, table_sink: TableSink
) -> None:
    first = open_window(nine, "try-1")
    result = first.write(first.read(), table_sink)
    dead = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "2000"}
    second = PinnedWindow.open(spark, replace(pin(nine, "try-2"), kafka=dead))
    with pytest.raises(UncheckedSourceError):
        second.write(second.read(**{"kafka.request.timeout.ms": "1000"}), table_sink)
    assert publish(first, result).attempt == "try-1"


def test_neither_has_one_that_could_not_read_what_is_published(
    open_window: OpenWindow, nine: Manifest, ledger: Path, table_sink: TableSink
) -> None:
    first = open_window(nine, "try-1")
    result = first.write(first.read(), table_sink)
    damaged = window_folder(ledger, nine) / "publications" / "00000001.json"
    damaged.parent.mkdir()
    damaged.touch()
    second = open_window(nine, "try-2")
    with pytest.raises(LedgerCorruptError):
        second.write(second.read(), table_sink)
    damaged.unlink()
    assert publish(first, result).attempt == "try-1"


def test_published_rows_that_are_gone_are_not_reported_by_a_newer_revision(
    spark: SparkSession, open_window: OpenWindow, nine: Manifest, table_sink: TableSink
) -> None:
    """What retention has left of the window, which the published whole would count over."""
    window = open_window(nine, "try-1")
    publish(window, window.write(window.read(), table_sink))
    spark.sql(f"DELETE FROM {sql_name(table_sink.kind, table_sink.table)}")
    left = replace(nine, ranges=(replace(nine.ranges[0], start_offset=1, lost_offsets=1),))
    newer = open_window(left, "try-2")
    with pytest.raises(LedgerConflictError, match=r"published with 9 rows .* holds 0 of them"):
        newer.write(newer.read(), table_sink)


def test_records_with_extreme_timestamps_are_read_again_where_a_table_lacks_them(
    spark: SparkSession,
    pin: Callable[..., RunConf],
    nine: Manifest,
    flights: str,
    ledger: Path,
    table_sink: TableSink,
) -> None:
    """The driver reads them itself, and doesn't of a published window whose rows are all there."""

    def opened(attempt: str) -> PinnedWindow:
        return PinnedWindow.open(spark, replace(pin(nine, attempt), extreme_timestamps=f"{flights}-0:3"))

    window = opened("try-1")
    publish(window, window.write(window.read(), table_sink))
    other = attempt_of(nine, "client", started_ms=now_ms() + 1, has_note=False, earlier=frozenset({"try-1"}))
    write_shown(table_sink, window.read().where("offset < 5"), other)

    again = opened("try-2")
    assert publish(again, again.write(again.read(), table_sink)).attempt == "try-2"
    assert offsets(read_published(spark, f"file://{ledger}")) == {0: list(range(9))}


def test_rows_that_were_replaced_without_a_note_are_not_read(
    spark: SparkSession, open_window: OpenWindow, nine: Manifest, ledger: Path, table_sink: TableSink
) -> None:
    """As a client of Spark Connect replaces them, which can't note that it begins; the table knows."""
    window = open_window(nine, "try-1")
    publish(window, window.write(window.read(), table_sink))
    other = attempt_of(nine, "client", started_ms=now_ms() + 1, has_note=False, earlier=frozenset({"try-1"}))
    write_shown(table_sink, window.read().where("offset < 5"), other)
    with pytest.raises(LedgerConflictError, match=r"rows of attempt try-1.* are published.*holds those of client"):
        read_published(spark, f"file://{ledger}")

    cleared = open_window(nine, "try-2")
    result = cleared.write(cleared.read(), table_sink)
    assert result.attempt == "try-2", "the rows that were published are gone, so they are loaded again"
    publish(cleared, result)
    assert offsets(read_published(spark, f"file://{ledger}")) == {0: list(range(9))}


def test_one_that_fails_before_it_replaces_rows_of_others_has_not_counted_the_published_ones_again(
    open_window: OpenWindow, nine: Manifest, table_sink: TableSink
) -> None:
    """They are gone. If its application catches the error, the task takes the driver's note for what came of it."""
    window = open_window(nine, "try-1")
    result = window.write(window.read(), table_sink)
    publish(window, result)
    recounts = open_window(nine, "try-2")
    assert recounts.write(recounts.read(), table_sink).attempt == "try-1"
    other = attempt_of(nine, "client", started_ms=now_ms() + 1, has_note=False, earlier=frozenset({"try-1"}))
    write_shown(table_sink, window.read().where("offset < 5"), other)
    fails, lost = open_window(nine, "try-3"), "Job aborted due to stage failure: the executor is lost"  # Spark's words
    with pytest.raises(JAVA_ERRORS, match=lost):
        fails.write(fails.read().where(F.raise_error(F.lit(lost)).isNull()), table_sink)

    ledger, counted = count(window, result)
    folder = ledger.window_folders.of(counted.pinned)
    assert list(folder.writers()) == ["try-1"]
    notes = {attempt: folder.application(attempt) for attempt in ("try-2", "try-3")}
    assert {attempt: note is not None and note.recounted for attempt, note in notes.items()} == {
        "try-2": True,
        "try-3": False,
    }
