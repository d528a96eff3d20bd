"""Loads as Airflow ends them: what a driver has counted is published by Airflow's own side.

Kafka isn't asked again here: these ledgers have no snapshots. tests/integration/airflow has whole loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import DataFrame

from airflow_kafka_offsets.ledger.counted import Counted, counted as counted_by
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.spark import FileSink, Sink
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.window.ledger import RunLedger
from tests.integration.ledger.loads import publish_asked
from tests.unit.spark.ledgers import ledger_in


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load that has ended.

    :param result: what its driver has returned.
    :param published: what counts of the window since.
    """

    result: RunResult
    published: Published

    @property
    def rows(self) -> int:
        """How many rows are visible."""
        return self.published.rows

    @property
    def output(self) -> str | None:
        """Where they are."""
        return self.published.outputs[0].output


def load(
    window: PinnedWindow, table: str, transform: Callable[[DataFrame], DataFrame] | None = None, **options: str
) -> Loaded:
    """Read a window, transform its rows, write them as Parquet, and publish them."""
    rows = window.read(**options)
    return load_rows(window, transform(rows) if transform else rows, FileSink(table))


def load_rows(window: PinnedWindow, rows: DataFrame, sink: Sink) -> Loaded:
    """Write rows of a window, and publish them."""
    result = window.write(rows, sink)
    return Loaded(result, publish(window, result))


def driver_of(window: PinnedWindow) -> RunLedger:
    """The driver that has opened a window for an attempt."""
    assert window.ledger is not None
    return window.ledger


def name_of(window: PinnedWindow) -> str:
    """What that driver's rows are called in an output."""
    return f"{driver_of(window).number}-{driver_of(window).run}"


def ledger_of(window: PinnedWindow) -> Ledger:
    """The ledger as Airflow's side sees it now."""
    return ledger_in(Path(urlsplit(driver_of(window).pipeline_uri).path))


def result_of(window: PinnedWindow) -> RunResult:
    """What a window's driver has counted, as it lies in the ledger."""
    driver = driver_of(window)
    found = ledger_of(window).attempt(driver.window, driver.number).result(driver.run)
    assert found is not None
    return found[0]


def publish(window: PinnedWindow, result: RunResult) -> Published:
    """Publish what a driver has counted, as it is when Kafka has nothing against it."""
    counted = count(window, result)
    assert counted.verdict.proved, counted.verdict
    return publish_asked(counted)


def count(window: PinnedWindow, result: RunResult) -> Counted:
    """What a driver leaves in the ledger, or a client of Spark Connect hands over."""
    ledger = ledger_of(window)
    ledger.attempt(window.manifest.window, result.attempt).record_result(result)
    found = counted_by(ledger, ledger.window(window.manifest.window), result.attempt)
    (counted,) = [each for each in found if each.result.run == result.run]
    return counted
