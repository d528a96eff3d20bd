"""Windows that were loaded, file by file as operators and Spark leave them; the rows are made up, and add up."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import xor
from pathlib import Path

from upath import UPath

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import DerivedRows, PartitionTally, RunResult, Tally
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.policies import OverlapPolicy
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.pipelines.publisher import counted_attempt, publish_next
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot
from tests.unit.offsets.proof.results import run_result

OFFSETS = 10
"""In each hour, on one partition."""
AT_T0 = 10_000
"""The offset at T0."""
FILES = ("part-00000.parquet", "part-00001.parquet")
"""What an attempt has written."""
LATER_MS = T0 + 365 * 24 * HOUR_MS
"""When all of it is resolved, in whatever order."""


def new_ledger(root: Path) -> Ledger:
    """A new ledger of the topic ``t``."""
    made = Ledger(UPath(root), "loads")
    made.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return made


def window(hour: int) -> str:
    """The name of an hour's window."""
    return window_id(T0 + hour * HOUR_MS, T0 + (hour + 1) * HOUR_MS)


def windows_of(ledger: Ledger) -> list[WindowFolder]:
    """The newest revision of every window, in order of time."""
    folders = ledger.window_folders
    return [folders.newest(window, numbers) for window, numbers in folders.index().live.items()]


def pin(
    ledger: Ledger, start: OffsetSnapshot, end: OffsetSnapshot, on_overlap: OverlapPolicy = "fail"
) -> PinnedManifest:
    """Pin the window between two snapshots, which are stored."""
    return pin_window(ledger, *ledger.snapshots.append([start, end]), on_overlap=on_overlap)


def counted(hour: int, partitions: int) -> OffsetSnapshot:
    """A snapshot of a topic that has so many partitions."""
    return snapshot(dict.fromkeys(range(partitions), hour * OFFSETS), at_ms=T0 + hour * HOUR_MS)


def resolve(ledger: Ledger, hour: int) -> PinnedManifest:
    """Pin the window of an hour."""
    boundaries = [
        snapshot({0: AT_T0 + each * OFFSETS}, at_ms=T0 + each * HOUR_MS, resolved_at_ms=LATER_MS)
        for each in (hour, hour + 1)
    ]
    return pin_window(ledger, *ledger.snapshots.append(boundaries))


def publish(ledger: Ledger, pinned: PinnedManifest, attempt: str = "a-1") -> RunResult:
    """Attempt, result and publication."""
    folder = ledger.window_folders.of(pinned)
    if attempt not in folder.listing().attempts:
        folder.record_attempt(attempt, {"airflow": {"dag_id": "loads", "run_id": "r-1", "task_id": "load"}})
    result = result_of(pinned, attempt)
    publish_result(ledger, pinned, result)
    return result


def publish_result(
    ledger: Ledger, pinned: PinnedManifest, result: RunResult, *, at_ms: int | None = None
) -> Publication:
    """A result and its publication, as it is when Kafka has nothing against it.

    :param at_ms: when it was published; now by default.
    """
    folder = ledger.window_folders.of(pinned)
    folder.record_result(result)
    counted = counted_attempt(ledger, pinned, result.attempt)
    assert counted is not None
    if at_ms is not None:
        known, counting = folder.publications.all(), ledger.window_folders.publication(folder.id)
        made = replace(counted.publication(len(known) + 1, counting), published_ms=at_ms)
        ledger.window_folders.publish(folder.id, made)
    return publish_next(ledger, counted)


def result_of(pinned: PinnedManifest, attempt: str) -> RunResult:
    """What an attempt counted: each offset once."""
    written = [_tally(records) for records in pinned.manifest.non_empty()]
    output = f"file:///out/{pinned.manifest.window}"
    read = Tally(sum(tally.count for tally in written), reduce(xor, (tally.checksum for tally in written), 0))
    return run_result(pinned.manifest, written, attempt=attempt, output=output, read=read, files=FILES)


def _tally(records: OffsetRange) -> PartitionTally:
    offsets = range(records.start_offset, records.end_offset)
    extent = offsets[0], offsets[-1], sum(offsets)
    return PartitionTally(records.topic, records.partition, len(offsets), *extent, offsets[0])


def load(ledger: Ledger, hour: int, attempt: str = "a-1") -> PinnedManifest:
    """The whole way of an hour's window, from its instants to the verdict."""
    pinned = resolve(ledger, hour)
    verdict = judge(pinned.manifest, publish(ledger, pinned, attempt))
    ledger.window_folders.of(pinned).record_verified(attempt, verdict)
    ledger.keep_day(pinned.manifest.window)
    return pinned


def derive(ledger: Ledger, hour: int, rows: int) -> PinnedManifest:
    """The same way, with a job that makes this many other rows of the hour's records."""
    pinned = resolve(ledger, hour)
    counted = result_of(pinned, "a-1")
    made = DerivedRows("", counted.output, counted.sink, counted.apart, rows, rows, counted.read)
    result = replace(counted, derived=(made,))
    publish_result(ledger, pinned, result)
    ledger.window_folders.of(pinned).record_verified("a-1", judge(pinned.manifest, result))
    return pinned
