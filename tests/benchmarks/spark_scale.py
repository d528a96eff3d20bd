"""Scale: builds, hashes, reads and plans the manifest of a very wide window; and loads 10,000 partitions end to end."""

from __future__ import annotations

import re
import resource
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.offsets.proof.split_plan import split_plan
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, left_of
from airflow_kafka_offsets.pipelines.resolver import Resolver
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import RunConf
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, Clusters, Topic, client, create, wait_for_leaders
from tests.benchmarks.records import RECORD_BYTES, write_records
from tests.benchmarks.report import Row
from tests.benchmarks.spark_load import load
from tests.benchmarks.spark_session import session
from tests.benchmarks.timing import timed
from tests.unit.offsets.builders import snapshot
from tests.unit.spark import ledgers

_WIDTHS = (1_000, 10_000, 100_000)
_CORES = 200
_MANIFEST_S = 30.0
_LINEAR = 13.0
"""Ten times the partitions may take slightly more than ten times as long, because they don't fit into CPU caches."""
_TOPICS, _PARTITIONS = 10, 1_000
"""Each task opens a consumer, which requests its whole topic's metadata: with ten thousand partitions in one topic, it
would take six times as long."""
_RECORDS = 140
"""Records of each partition."""
_FILES = 64
_END_TO_END_S = 600.0
_SOURCE_S = 15.0


def spark_scale(clusters: Clusters) -> Iterator[Row]:
    """First without Kafka, then with it."""
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
    """Seconds in total, and of each step in words."""
    start = snapshot(dict.fromkeys(range(width), 0), at_ms=INSTANT_MS)
    end = snapshot({n: 10_000 + n % 1_000 for n in range(width)}, at_ms=INSTANT_MS + HOUR_MS)
    built, build_s = timed(lambda: Manifest.of("wide", "0" * 32, start, end))
    content, bytes_s = timed(built.to_bytes)
    sha256, hash_s = timed(lambda: built.sha256)
    read, read_s = timed(lambda: Manifest.from_bytes(content, sha256))
    plan, plan_s = timed(lambda: split_plan(left_of(read), bytes_per_record=RECORD_BYTES, cores=_CORES))
    if read != built or len(plan.tasks) != width:
        raise AssertionError(f"{len(plan.tasks)} tasks for {width} partitions")
    steps = {"build": build_s, "write": bytes_s, "hash": hash_s, "read": read_s, "plan": plan_s}
    remark = ", ".join(f"{name} {each:.2f} s" for name, each in steps.items())
    return sum(steps.values()), f"{remark}; {len(content) / width:.0f} bytes a partition"


def _end_to_end(clusters: Clusters) -> Iterator[Row]:
    address = clusters.records.bootstrap_servers
    topics = [Topic(f"thousand-{number}", _PARTITIONS) for number in range(clusters.sizes.part(_TOPICS))]
    partitions = len(topics) * _PARTITIONS
    clusters.say(f"creating {partitions:,} partitions")
    for each in topics:
        create(address, each, {"segment.index.bytes": "4096"})
    wait_for_leaders(address, topics)
    clusters.say(f"writing {partitions * _RECORDS:,} records")
    for each in topics:
        write_records(address, each.name, dict.fromkeys(range(_PARTITIONS), _RECORDS))
    folder = Path(tempfile.mkdtemp())
    try:
        (ledger, pinned), resolve_s = timed(lambda: _resolved(address, folder, topics))
        attempt, kafka = (
            ledgers.begin(ledger, ledger.window(pinned.manifest.window)),
            {"kafka.bootstrap.servers": address},
        )
        told = RunConf(pinned.uri, pinned.sha256, attempt, kafka, bytes_per_record=RECORD_BYTES)
        window = PinnedWindow.open(session(), told)
        clusters.say("loading them")
        rows, load_s = timed(lambda: load(window, folder, _FILES))
        _, source_s = timed(lambda: window.source(is_read=True))
    finally:
        shutil.rmtree(folder)
    if rows != partitions * _RECORDS:
        raise AssertionError(f"{rows} rows were written")
    work = f"resolve {partitions:,} partitions, pin and load"
    steps = f"resolve and pin {resolve_s:.1f} s, load as {_FILES} files {load_s:.1f} s"
    yield Row.absolute(work, resolve_s + load_s, "s", limit=_END_TO_END_S, requests=steps)
    yield Row.absolute("… of it asking whether these were the topics", source_s, "s", limit=_SOURCE_S)
    java = session().sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    yield Row.noted("… Spark's driver and executor", f"{resident_mib('VmHWM', java):.0f} MiB")


def _resolved(address: str, folder: Path, topics: Sequence[Topic]) -> tuple[Ledger, PinnedManifest]:
    """Resolve and pin the window between two instants that contains all records."""
    with client(address) as ours:
        ledger = Ledger(ObjectStoragePath((folder / "ledger").as_uri()), "wide")
        resolver = Resolver(ours, ledger, [each.name for each in topics], IsolationLevel.READ_COMMITTED)
        (resolved,) = resolver.windows([(INSTANT_MS, INSTANT_MS + HOUR_MS)])
        return ledger, resolved.pinned


def resident_mib(name: str, process: int | str = "self") -> float:
    """Resident memory now (VmRSS) or its peak (VmHWM), MiB. ``getrusage`` would include the parent's before ``exec``.

    :param process: the id of another process, on Linux only.
    """
    status = Path(f"/proc/{process}/status")
    if status.exists():
        (kib,) = re.findall(rf"^{name}:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        return int(kib) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS: in bytes, and only the peak
