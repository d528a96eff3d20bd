"""Loads as Airflow ends them: what a driver has counted is published by Airflow's own side.

Kafka isn't asked again here: these manifests have no snapshots. tests/integration/airflow has whole loads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from upath import UPath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, counted_attempt, publish_next
from airflow_kafka_offsets.spark import FileSink, Sink
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from tests.integration.spark.conftest import window_folder


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load that has ended.

    :param attempt: the attempt's name.
    :param result: what its driver has returned.
    :param published: what counts of the window since.
    """

    attempt: str
    result: RunResult
    published: Publication

    @property
    def published_attempt(self) -> str:
        """The attempt whose rows are visible."""
        return self.published.attempt

    @property
    def rows(self) -> int:
        """How many they are."""
        return self.published.rows

    @property
    def output(self) -> str | None:
        """Where they are."""
        return self.published.output

    @property
    def outside(self) -> int | None:
        """Those of them that are kept apart."""
        return self.published.outside


def result_of(ledger: Path, manifest: Manifest, attempt: str) -> RunResult:
    """What an attempt's driver has counted, as it lies in the ledger."""
    path = window_folder(ledger, manifest) / "results" / f"{attempt}.json"
    return RunResult.from_json(json.loads(path.read_text()))


def load(
    window: PinnedWindow,
    table: str,
    transform: Callable[[DataFrame], DataFrame] | None = None,
    *,
    strict_time: bool = False,
    **options: str,
) -> Loaded:
    """Read a window, transform its rows, write them as Parquet, and publish them."""
    rows = window.read(strict_time=strict_time, **options)
    return load_rows(window, transform(rows) if transform else rows, FileSink(table))


def load_rows(window: PinnedWindow, rows: DataFrame, sink: Sink) -> Loaded:
    """Write rows of a window, and publish them."""
    result = window.write(rows, sink)
    return Loaded(window.attempt, result, publish(window, result))


def publish(window: PinnedWindow, result: RunResult) -> Publication:
    """Publish what a driver has counted, as it is when Kafka has nothing against it."""
    if result.manifest_sha256 == window.manifest.sha256:
        return publish_next(*count(window, result))
    # What was counted of another revision, which counts over this one.
    month = UPath(window.folder).parent
    standing = WindowFolders(month.parent.parent).publication(window.manifest.window)
    assert standing is not None
    return standing


def count(window: PinnedWindow, result: RunResult) -> tuple[Ledger, CountedAttempt]:
    """What a driver leaves in the ledger, or a client of Spark Connect hands over."""
    pipeline = UPath(window.folder).parent.parent.parent
    ledger = Ledger(pipeline.parent, pipeline.name)
    pinned = PinnedManifest(f"{window.folder}/manifest.json", window.manifest.sha256, window.manifest)
    ledger.window_folders.of(pinned).record_result(result)
    counted = counted_attempt(ledger, pinned, result.attempt)
    assert counted is not None
    return ledger, counted
