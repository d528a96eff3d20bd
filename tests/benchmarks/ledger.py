"""The ledger: storing a snapshot of very many partitions; listing and verifying a year of hourly windows on S3."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.pipelines.snapshot_maker import SnapshotMaker
from tests.benchmarks.clusters import INSTANT_MS, WIDE, Clusters, client
from tests.benchmarks.report import Row
from tests.benchmarks.s3_server import BUCKET, serving
from tests.benchmarks.timing import timed
from tests.integration.ledger.loads import publish, windows_of
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

_LEVEL = IsolationLevel.READ_COMMITTED
_YEAR = range(-8_760, 0)
"""Hours before T0."""
_SAMPLE = 200
"""How many windows are read one by one: all of them would take minutes."""


def ledger(clusters: Clusters) -> Iterator[Row]:
    """A snapshot's time and size, then the year."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _wide_snapshot(clusters, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        clusters.say("writing a year of windows, loaded and verified")
        _write_year(Ledger(ObjectStoragePath(Path(folder).as_uri()), "year"))
        with serving(Path(folder)) as endpoint:
            yield from _read_year(endpoint)


def _wide_snapshot(clusters: Clusters, folder: Path) -> Iterator[Row]:
    stored = Ledger(ObjectStoragePath(folder.as_uri()), "wide")
    with client(clusters.three.bootstrap_servers) as ours:
        maker = SnapshotMaker(ours, stored, [WIDE.name], _LEVEL)
        _, seconds = timed(lambda: maker.snapshot(AsOf(AsOfKind.INSTANT, INSTANT_MS)))
    yield Row.absolute(f"resolve and store {WIDE.partitions:,} partitions at an instant", seconds, "s", limit=5.0)
    (file,) = (folder / "wide" / "snapshots").rglob("*.gz")
    yield Row.absolute("… its file", file.stat().st_size / WIDE.partitions, "bytes a partition", limit=40.0)


def _write_year(year: Ledger) -> None:
    year.create_or_check(["t"], "cluster-1", _LEVEL)
    boundaries = [snapshot({0: (hour + 9_000) * 10}, at_ms=T0 + hour * HOUR_MS) for hour in (*_YEAR, 0)]
    for start, end in pairwise(year.snapshots.append(boundaries)):
        pinned = pin_window(year, start, end)
        year.window_folders.of(pinned).record_verified("a-1", judge(pinned.manifest, publish(year, pinned)))
        if end.timestamp_ms % (24 * HOUR_MS) == 0:
            year.keep_day(pinned.manifest.window)
    verify(year)


def _read_year(endpoint: str) -> Iterator[Row]:
    extra = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
    os.environ["AIRFLOW_CONN_BENCH_S3"] = json.dumps(connection)
    year = Ledger(ObjectStoragePath(f"s3://bench_s3@{BUCKET}"), "year")
    folders = windows_of(year)
    _, one_by_one_s = timed(lambda: in_parallel(lambda each: each.pinned(), folders[:_SAMPLE]))
    listed, seconds = timed(year.summaries)
    work = f"list {len(listed):,} windows of a year on S3"
    yield Row.absolute(work, seconds, "s", limit=5.0)
    theirs = one_by_one_s * len(listed) / _SAMPLE
    yield Row.ratio("…", seconds, "every manifest read", theirs, limit=0.5, requests=f"theirs: judging by {_SAMPLE}")
    claims, seconds = timed(lambda: verify(year))
    if not all(each.holds for each in claims):
        raise AssertionError(f"the year isn't in order: {claims}")
    yield Row.absolute("verify them", seconds, "s", limit=5.0, requests=claims[-1].found)
