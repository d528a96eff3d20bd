"""Publishing with Spark: read, audit, Parquet, scan of the output, publish and verdict, beside a bare write of the same
range with the same settings."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from upath import UPath

from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.audit import judge
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.spark.conf import RunConf
from airflow_kafka_offsets.spark.file_sink import FileSink
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.records import RECORD_BYTES
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import opened, session, uncounted, written
from tests.benchmarks.timing import medians
from tests.unit.spark.manifests import make_ledger

_BATCHES = dict.fromkeys(range(8), 3_572)
_ROUNDS = 5


def spark_publish(clusters: Clusters) -> Iterator[Row]:
    """Ours and the bare write in turn, each into a new folder."""
    manifest = written(clusters, "published", _BATCHES)
    kafka = {"kafka.bootstrap.servers": clusters.records.bootstrap_servers}
    folder = Path(tempfile.mkdtemp())
    numbers = count()
    try:
        clusters.say("loading them")
        seconds = medians(
            {
                "ours": lambda: published(folder / f"ours-{next(numbers)}", manifest, kafka),
                "bare": lambda: uncounted(opened(clusters, manifest)).write.parquet(
                    f"{folder.as_uri()}/bare-{next(numbers)}"
                ),
            },
            _ROUNDS,
        )
    finally:
        shutil.rmtree(folder)
    work = f"read, audit, Parquet, publish, verify {manifest.span:,} records"
    yield Row.ratio(work, seconds["ours"], "bare read and Parquet", seconds["bare"], limit=1.15)


def published(folder: Path, manifest: Manifest, kafka: dict[str, str]) -> None:
    """Load a window as an application does, and judge it from what the ledger has then, as verify does.

    :param folder: new; has the ledger and the table.
    """
    make_ledger(folder / "ledger")
    windows = WindowFolders(UPath(folder / "ledger"))
    pinned = windows.pin_again(manifest)
    told = RunConf(pinned.uri, pinned.sha256, "try-1", kafka, bytes_per_record=RECORD_BYTES)
    window = PinnedWindow.open(session(), told)
    window.publish(window.read(), FileSink((folder / "table").as_uri()))
    result = windows.newest(manifest.window).result("try-1")
    assert result is not None, "it is published"
    verdict = judge(manifest, result)
    if not verdict.proved:
        raise AssertionError(str(verdict))
