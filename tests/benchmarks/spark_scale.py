"""Scale: the manifest of a very wide window built, hashed, read and planned; and 10,000 partitions end to end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.split_plan import split_plan
from airflow_kafka_offsets.offsets.windows import window_between
from airflow_kafka_offsets.resolver import Resolver
from airflow_kafka_offsets.spark.conf import RunConf
from airflow_kafka_offsets.spark.file_sink import FileSink
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, Clusters, Topic, client, create, wait_for_leaders
from tests.benchmarks.memory import resident_mib
from tests.benchmarks.records import BATCH_RECORDS, RECORD_BYTES, write_batches
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import session
from tests.benchmarks.timing import timed
from tests.unit.offsets.builders import snapshot

_WIDTHS = (1_000, 10_000, 100_000)
_CORES = 200
_MANIFEST_S = 30.0
_LINEAR = 13.0
"""Ten times the partitions may take a bit more than ten times as long: they don't fit into caches."""
_WIDE = [Topic(f"thousand-{number}", 1_000) for number in range(10)]
"""Each task opens a consumer, which asks for its whole topic's metadata: ten thousand partitions of one topic take six
times as long."""
_PARTITIONS = sum(each.partitions for each in _WIDE)
_FILES = 64
_END_TO_END_S = 600.0
_SOURCE_S = 15.0


def spark_scale(clusters: Clusters) -> Iterator[Row]:
    """Without Kafka, then with it."""
    seconds = {}
    for width in _WIDTHS:
        seconds[width], remark = _manifest(width)
        work = f"manifest of {width:,} partitions built, hashed, read, planned"
        limit = _MANIFEST_S * width / max(_WIDTHS)
        yield Row.absolute(work, seconds[width], "s", limit=limit, requests=remark)
    growth = seconds[100_000] / seconds[10_000]
    yield Row("… 100,000 over 10,000", result=growth, unit="x", limit=_LINEAR)
    yield from _end_to_end(clusters)


def _manifest(width: int) -> tuple[float, str]:
    """Seconds, and of which steps."""
    start = snapshot(dict.fromkeys(range(width), 0), number=1, at_ms=INSTANT_MS)
    end = snapshot({n: 10_000 + n % 1_000 for n in range(width)}, number=2, at_ms=INSTANT_MS + HOUR_MS)
    built, build_s = timed(lambda: Manifest.of("wide", "0" * 32, window_between(start, end)))
    content, bytes_s = timed(built.to_bytes)
    sha256, hash_s = timed(lambda: built.sha256)
    read, read_s = timed(lambda: Manifest.from_bytes(content, sha256))
    plan, plan_s = timed(lambda: split_plan(read.non_empty(), bytes_per_record=RECORD_BYTES, cores=_CORES))
    if read != built or len(plan.tasks) != width:
        raise AssertionError(f"{len(plan.tasks)} tasks for {width} partitions")
    steps = {"build": build_s, "write": bytes_s, "hash": hash_s, "read": read_s, "plan": plan_s}
    remark = ", ".join(f"{name} {each:.2f} s" for name, each in steps.items())
    return sum(steps.values()), f"{remark}; {len(content) / width:.0f} bytes a partition"


def _end_to_end(clusters: Clusters) -> Iterator[Row]:
    address = clusters.records.bootstrap_servers
    clusters.say(f"creating {_PARTITIONS:,} partitions")
    for each in _WIDE:
        create(address, each, {"segment.index.bytes": "4096"})
    wait_for_leaders(address, _WIDE)
    clusters.say(f"writing {_PARTITIONS * BATCH_RECORDS:,} records")
    for each in _WIDE:
        write_batches(address, each.name, dict.fromkeys(range(each.partitions), 1))
    folder = Path(tempfile.mkdtemp())
    try:
        pinned, resolve_s = timed(lambda: _resolved(address, folder))
        told = RunConf(
            pinned.uri, pinned.sha256, "try-1", {"kafka.bootstrap.servers": address}, bytes_per_record=RECORD_BYTES
        )
        window = PinnedWindow.open(session(), told)
        clusters.say("reading and publishing them")
        rows = window.read().coalesce(_FILES)
        run, publish_s = timed(lambda: window.publish(rows, FileSink((folder / "table").as_uri())))
        source, source_s = timed(lambda: window.source_check().after())
    finally:
        shutil.rmtree(folder)
    if run.rows != _PARTITIONS * BATCH_RECORDS:
        raise AssertionError(f"{run.rows} rows were published")
    if source.uncut != _PARTITIONS:
        raise AssertionError(f"{source.uncut} logs were found uncut")
    work = f"resolve {_PARTITIONS:,} partitions, pin, read and publish"
    steps = f"resolve and pin {resolve_s:.1f} s, publish as {_FILES} files {publish_s:.1f} s"
    yield Row.absolute(work, resolve_s + publish_s, "s", limit=_END_TO_END_S, requests=steps)
    yield Row.absolute("… of it asking whether these were the logs", source_s, "s", limit=_SOURCE_S)
    java = session().sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    yield Row.noted("… Spark's driver and executor", f"{resident_mib('VmHWM', java):.0f} MiB")


def _resolved(address: str, folder: Path) -> PinnedManifest:
    """The window between two instants, around all records."""
    with client(address) as ours:
        ledger = Ledger(ObjectStoragePath((folder / "ledger").as_uri()), "wide")
        resolver = Resolver(ours, ledger, [each.name for each in _WIDE], IsolationLevel.READ_COMMITTED)
        return resolver.window(INSTANT_MS, INSTANT_MS + HOUR_MS).pinned
