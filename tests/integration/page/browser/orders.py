"""A pipeline with every kind of trouble, which is what people who are on call open the page for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Boundary, Evidence, OffsetSnapshot
from tests.integration.ledger.loads import publish_result
from tests.unit.offsets.builders import HOUR_MS, snapshot
from tests.unit.offsets.proof.results import run_result, tallies

PIPELINE = "orders"
GROUP = "billing"
TOPICS = {"orders": 12, "<script>": 2}
"""Partitions by topic. The second one's name is one that Kafka refuses, and a file could hold."""
HOURS = 30
T0 = now_ms() // HOUR_MS * HOUR_MS - HOURS * HOUR_MS
"""Where the first hour starts: the last one has just ended."""
RETENTION_MS = 48 * HOUR_MS
FIRST = 100_000
HOLE, REVISED, OVERLAPS, LOST, FAILED, LOADING, COUNTED, PUBLISHED, PINNED = 8, 12, 18, 22, 25, 26, 27, 28, 29
"""The hours that aren't simply verified."""


def window(hour: int) -> str:
    return window_id(T0 + hour * HOUR_MS, T0 + (hour + 1) * HOUR_MS)


def offset_at(partition: int, hour: int) -> int:
    """Where an hour starts on a partition of ``orders``: some are busier than others, and so are days."""
    return FIRST + sum(40 + 7 * partition + 30 * (each % 24 in range(6, 18)) for each in range(hour))


def make_orders(
    root: str,
    pipeline: str = PIPELINE,
    topics: Mapping[str, int] = TOPICS,
    *,
    hours: Sequence[int] = range(HOURS),
    trouble: bool = True,
) -> Ledger:
    """Some hours of some topics, the newest of which ended in this hour.

    :param topics: partitions by name; the busy one is called ``orders``.
    :param trouble: without it, every hour is verified.
    """
    ledger = Ledger(ObjectStoragePath(root), pipeline)
    ledger.create_or_check(topics, "cluster-1", IsolationLevel.READ_COMMITTED)
    for hour in hours:
        _commit(ledger, topics, hour)
        if not trouble:
            _prove(ledger, _pin(ledger, topics, hour), hour)
        elif hour != HOLE:
            _bring_on(ledger, _pin(ledger, topics, hour), hour)
    if trouble:
        forget_windows(ledger, [window(REVISED)], "resolved anew")
        _prove(ledger, _pin(ledger, topics, REVISED), REVISED)
        _overlap(ledger, topics)
    return ledger


def _overlap(ledger: Ledger, topics: Mapping[str, int]) -> None:
    """Load half of an hour once more."""
    early, late = _snapshot(topics, OVERLAPS), _snapshot(topics, HOURS)
    boundaries = {key: replace(late.boundaries[key], offset=each.offset) for key, each in early.boundaries.items()}
    as_of = replace(early.as_of, timestamp_ms=T0 + OVERLAPS * HOUR_MS + HOUR_MS // 2)
    half = replace(late, as_of=as_of, boundaries=boundaries)
    twice = ledger.snapshots.append([half, _snapshot(topics, OVERLAPS + 1)])
    _publish(ledger, pin_window(ledger, *twice, on_overlap="allow"), OVERLAPS)


def _pin(ledger: Ledger, topics: Mapping[str, int], hour: int) -> PinnedManifest:
    return pin_window(ledger, *ledger.snapshots.append([_snapshot(topics, each) for each in (hour, hour + 1)]))


def _bring_on(ledger: Ledger, pinned: PinnedManifest, hour: int) -> None:
    """As far as the hour's load has come."""
    folder = ledger.window_folders.of(pinned)
    if hour != PINNED:
        folder.record_attempt("a-1", _run(hour))
    if hour == FAILED:
        folder.record_failure("a-1", FailureNote("UnprovenError", "not for the page"))
    elif hour == LOST:
        start = offset_at(3, hour)
        folder.record_loss([LogRange("orders", 3, start, start + 25)], T0)
    elif hour == COUNTED:
        folder.record_result(_result(pinned))
    elif hour == PUBLISHED:
        _publish(ledger, pinned, hour)
    elif hour not in (PINNED, LOADING):
        _prove(ledger, pinned, hour)


def _prove(ledger: Ledger, pinned: PinnedManifest, hour: int) -> None:
    _publish(ledger, pinned, hour)
    ledger.window_folders.of(pinned).record_verified("a-1", judge(pinned.manifest, _result(pinned)))
    ledger.keep_day(pinned.manifest.window)


def _publish(ledger: Ledger, pinned: PinnedManifest, hour: int) -> None:
    folder = ledger.window_folders.of(pinned)
    if not folder.listing().attempts:
        folder.record_attempt("a-1", _run(hour))
    publish_result(ledger, pinned, _result(pinned), at_ms=T0 + (hour + 1) * HOUR_MS + 5 * 60_000)


def _commit(ledger: Ledger, topics: Mapping[str, int], hour: int) -> None:
    """What a group had committed half an hour in: it reads an hour and a half behind, and was down for some hours."""
    late = _snapshot(topics, hour)
    behind = 1 + max(0, min(hour % 24, 9) - 5)

    def at_half_past(key: TopicPartition, each: Boundary) -> Boundary:
        end = (each.high_watermark + _boundary(*key, hour + 1).high_watermark) // 2
        offset = _boundary(*key, max(0, hour - behind)).offset
        changed = {"offset": offset, "evidence": Evidence.COMMITTED, "high_watermark": end, "last_stable_offset": end}
        return replace(each, **changed)  # type: ignore[arg-type]

    boundaries = {key: at_half_past(key, each) for key, each in late.boundaries.items()}
    at_ms, as_of = late.resolved_at_ms + HOUR_MS // 2, AsOf(AsOfKind.GROUP, group=GROUP)
    ledger.snapshots.append([replace(late, as_of=as_of, resolved_at_ms=at_ms, boundaries=boundaries)])


def _run(hour: int) -> dict[str, object]:
    run = {"dag_id": "orders_hourly", "run_id": f"scheduled__{hour:02}", "task_id": "load"}
    return {"airflow": run, "started_at": iso_instant(T0 + (hour + 1) * HOUR_MS + 90_000)}


def _result(pinned: PinnedManifest) -> RunResult:
    output = f"s3://lake/orders/{pinned.manifest.window}"
    written = tallies(pinned.manifest)
    return run_result(pinned.manifest, written, output=output, files=("part-00000.parquet",), seconds=41.0)


def _snapshot(topics: Mapping[str, int], hour: int) -> OffsetSnapshot:
    at_ms = T0 + hour * HOUR_MS
    taken = snapshot({0: 0}, at_ms=at_ms, resolved_at_ms=at_ms + 60_000)
    boundaries = {
        TopicPartition(topic, number): _boundary(topic, number, hour)
        for topic, count in topics.items()
        for number in range(count)
    }
    facts = {
        topic: TopicFacts(topic, f"id-{topic}", count, "delete", RETENTION_MS, -1, "CreateTime")
        for topic, count in topics.items()
    }
    return replace(taken, topics=facts, boundaries=boundaries, cluster_id="cluster-1")


def _boundary(topic: str, number: int, hour: int) -> Boundary:
    offset = offset_at(number, hour) if topic == "orders" else 10 * hour
    log_start = offset_at(number, max(0, hour - RETENTION_MS // HOUR_MS)) if topic == "orders" else 0
    end = offset + 60  # the log has gone on while the snapshot was made
    return Boundary(topic, number, offset, Evidence.MATCHED, T0 + hour * HOUR_MS, 1, log_start, end, end)
