"""The ledger: storing a snapshot of very many partitions; and a year of hourly windows, read, listed and verified."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger import decisions
from airflow_kafka_offsets.ledger.counted import Counted
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.entries import Attempted, Verified
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import digest
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot
from airflow_kafka_offsets.pipelines import loads
from airflow_kafka_offsets.pipelines.resolver import Resolver
from tests.benchmarks.clusters import INSTANT_MS, WIDE, Clusters, client
from tests.benchmarks.report import Row
from tests.benchmarks.s3_server import BUCKET, serving
from tests.benchmarks.timing import shortest, timed
from tests.integration.ledger.loads import LATER_MS
from tests.integration.ledger.results import result_of
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

_LEVEL = IsolationLevel.READ_COMMITTED
_YEAR = range(-8_760, 0)
"""Hours before T0."""
_PARTITIONS = 12
_SAMPLE = 200
"""How many windows are read one by one: all of them would take minutes."""


def ledger(clusters: Clusters) -> Iterator[Row]:
    """A snapshot's time and size, then the year."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _wide_snapshot(clusters, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        clusters.say("writing a year of windows, loaded and verified")
        yield from read_year(write_year(Path(folder)), Path(folder))


def _wide_snapshot(clusters: Clusters, folder: Path) -> Iterator[Row]:
    stored = Ledger(ObjectStoragePath(folder.as_uri()), "wide")
    with client(clusters.three.bootstrap_servers) as ours:
        resolver = Resolver(ours, stored, [WIDE.name], _LEVEL)
        _, seconds = timed(lambda: resolver.snapshot(AsOf(AsOfKind.INSTANT, INSTANT_MS)))
    yield Row.absolute(f"resolve and store {WIDE.partitions:,} partitions at an instant", seconds, "s", limit=5.0)
    size = max(file.stat().st_size for file in (folder / "wide" / "snapshots").iterdir())
    yield Row.absolute("… its file", size / WIDE.partitions, "bytes a partition", limit=40.0)


def write_year(folder: Path) -> Ledger:
    """A ledger with a year of windows, each loaded and verified; by few commits, which add up to the same."""
    with _without_syncs():
        return _written(Ledger(ObjectStoragePath(folder.as_uri()), "year"))


@contextmanager
def _without_syncs() -> Iterator[None]:
    """During the block, files aren't synced to disk: of tens of thousands, that would take minutes."""
    sync = os.fsync
    os.fsync = lambda fd: None
    try:
        yield
    finally:
        os.fsync = sync


def _written(year: Ledger) -> Ledger:
    year.create(["t"], "cluster-1", _LEVEL)
    hours = [_at_hour(hour) for hour in (*_YEAR, 0)]
    spans = list(pairwise(each.timestamp_ms for each in hours))
    year.change(lambda state: decisions.pin(state, spans, _asked(year, hours), year.contents))
    windows = list(year.state.windows.values())
    year.change(lambda state: [Attempted(each.name, _who(each)) for each in windows])
    published = in_parallel(lambda window: loads._publication(_counted(year, window)), year.state.windows.values())
    year.change(lambda state: published)
    verdicts = [Verified(each.window, each.attempt, {"gaps": 0}) for each in published]
    year.change(lambda state: verdicts)
    year.change(lambda state: decisions.place(state, _asked(year, [_at_hour(1)]), year.contents))
    return year


def _at_hour(hour: int) -> OffsetSnapshot:
    offsets = dict.fromkeys(range(_PARTITIONS), (hour + 9_000) * 10)
    return snapshot(offsets, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER_MS)


def _asked(year: Ledger, snapshots: Sequence[OffsetSnapshot]) -> ResolvedOffsets:
    instants = {each.timestamp_ms: year.contents.add_snapshot(each) for each in snapshots}
    return ResolvedOffsets(year.state.number, LATER_MS, instants)


def _who(window: Window) -> dict[str, str | int]:
    """What a task says about itself."""
    run = f"scheduled__{window.name[:15]}+00:00"
    return {"dag_id": "orders_hourly", "run_id": run, "task_id": "orders.load", "map_index": -1, "try_number": 1}


def _counted(year: Ledger, window: Window) -> Counted:
    """What the window's driver leaves."""
    result = result_of(year, window, window.attempts[-1])
    year.attempt(window.name, result.attempt).record_result(result)
    return Counted(year, window, window.attempts[-1], result, digest(plain_json.to_bytes(result)))


def read_year(year: Ledger, folder: Path) -> Iterator[Row]:
    """Read it from this machine's disk, then from S3."""
    work = f"read and fold the log of {len(_YEAR):,} windows of {_PARTITIONS} partitions"
    taken = shortest({"ours": lambda: len(Ledger(ObjectStoragePath(folder.as_uri()), "year").state.windows)})
    checkpoint = max((folder / "year" / "checkpoints").iterdir())
    size = f"its checkpoint has {checkpoint.stat().st_size / 1e6:.1f} MB"
    yield Row.absolute(work, taken["ours"].s, "s", limit=0.15, requests=size)
    with serving(folder) as endpoint:
        yield from _on_s3(endpoint, [each.name for each in year.state.windows.values()])


def _on_s3(endpoint: str, names: Sequence[str]) -> Iterator[Row]:
    extra = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
    os.environ["AIRFLOW_CONN_BENCH_S3"] = json.dumps(connection)
    year = Ledger(ObjectStoragePath(f"s3://bench_s3@{BUCKET}"), "year")
    listed, seconds = timed(lambda: list(year.state.windows.values()))
    if [each.name for each in listed] != list(names):
        raise AssertionError(f"{len(listed)} windows are listed, and there are {len(names)}")
    yield Row.absolute(f"list {len(listed):,} windows of a year on S3", seconds, "s", limit=1.0)
    _, one_by_one_s = timed(lambda: in_parallel(year.pinned, listed[:_SAMPLE]))
    theirs = one_by_one_s * len(listed) / _SAMPLE
    yield Row.ratio("…", seconds, "every manifest read", theirs, limit=0.5, requests=f"theirs: judging by {_SAMPLE}")
    claims, seconds = timed(lambda: verify(year))
    if not all(each.holds for each in claims):
        raise AssertionError(f"the year isn't in order: {claims}")
    yield Row.absolute("verify them", seconds, "s", limit=5.0, requests=claims[-1].found)
