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

from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.audit import RunResult
from airflow_kafka_offsets.offsets.manifest import Manifest, digest
from airflow_kafka_offsets.offsets.publication import Publication, counts_over
from airflow_kafka_offsets.offsets.window_names import live_revisions, revision_folder
from airflow_kafka_offsets.publisher import CountedAttempt
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
    """Publish what a driver has counted, unless something counts over it."""
    folder, manifest = UPath(window.folder), window.manifest
    names = [each.name for each in folder.parent.iterdir()]
    publications = Publications(folder.parent / revision_folder(manifest.window, 1))
    standing = publications.counting(live_revisions(names)[manifest.window])
    if standing is not None and counts_over(standing, manifest, written_ms=None if result.apart else result.started_ms):
        return standing
    kept = folder / "results" / f"{result.attempt}.json"
    if not kept.exists():  # a client of Spark Connect hands it over
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(result.to_json()))
    pinned = PinnedManifest(f"{window.folder}/manifest.json", manifest.sha256, manifest)
    ours = CountedAttempt(pinned, result, digest(kept.read_bytes())).publication(len(publications.all()) + 1, standing)
    assert publications.create(ours)
    return ours
