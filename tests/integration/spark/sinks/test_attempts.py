"""Attempts at one window in one table: the rows are those of the one that began last, and no other is published."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError, UnprovenError
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import read_published
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import publish
from tests.integration.spark.sinks.conftest import attempt_of
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import manifest_of


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
    with pytest.raises(CommitConflictError, match="attempt try-2 began later"):
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


def test_rows_that_were_replaced_without_a_note_are_not_read(
    spark: SparkSession, open_window: OpenWindow, nine: Manifest, ledger: Path, table_sink: TableSink
) -> None:
    """As a client of Spark Connect replaces them, which can't note that it begins; the table knows."""
    window = open_window(nine, "try-1")
    publish(window, window.write(window.read(), table_sink))
    other = attempt_of(nine, "client", started_ms=now_ms() + 1, has_note=False, earlier=frozenset({"try-1"}))
    table_sink.write(window.read().where("offset < 5"), other)
    with pytest.raises(LedgerConflictError, match=r"rows of attempt try-1.* are published.*holds those of client"):
        read_published(spark, f"file://{ledger}")

    cleared = open_window(nine, "try-2")
    result = cleared.write(cleared.read(), table_sink)
    assert result.attempt == "try-2", "the rows that were published are gone, so they are loaded again"
    publish(cleared, result)
    assert offsets(read_published(spark, f"file://{ledger}")) == {0: list(range(9))}
