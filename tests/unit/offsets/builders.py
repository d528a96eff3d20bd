"""Small builders for the facts that the pure rules work on."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents, TopicFacts
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Boundary, Evidence, OffsetSnapshot

LEDGER_ID = "5a" * 16
"""Of the ledger that manifests made by hand are pinned in."""
HOUR_MS = 3_600_000
T0 = 1_795_240_800_000
"""2026-11-21T06:00:00Z."""


def extent(partition: int = 0, start: int = 0, end: int = 100, *, stable: int | None = None) -> LogExtent:
    return LogExtent("t", partition, start, end, end if stable is None else stable, leader_epoch=1)


def extents(*each: LogExtent) -> LogExtents:
    return LogExtents(each)


def found(partition: int, offset: int, timestamp_ms: int) -> ListedOffset:
    return ListedOffset("t", partition, OffsetSpec.at(T0), ListOutcome.FOUND, offset, timestamp_ms, leader_epoch=1)


def no_record(partition: int) -> ListedOffset:
    return ListedOffset("t", partition, OffsetSpec.at(T0), ListOutcome.NO_RECORD)


def listed(*each: ListedOffset) -> ListedOffsets:
    return ListedOffsets(each)


def boundary(partition: int, offset: int, *, log_start: int = 0, topic: str = "t") -> Boundary:
    return Boundary(topic, partition, offset, Evidence.MATCHED, T0, 1, log_start, offset + 1000, offset + 1000)


def offsets_of(snapshot: OffsetSnapshot) -> dict[TopicPartition, int]:
    return {key: boundary.offset for key, boundary in sorted(snapshot.boundaries.items())}


def snapshot(
    offsets: Mapping[int, int],
    *,
    at_ms: int = T0,
    topic_id: str = "id-1",
    cluster_id: str = "cluster-1",
    kind: AsOfKind = AsOfKind.INSTANT,
    log_start: int = 0,
    cleanup_policy: str = "delete",
    resolved_at_ms: int | None = None,
) -> OffsetSnapshot:
    """A snapshot; an instant is resolved an hour later, unless another time is given."""
    as_of = AsOf(kind, at_ms if kind is AsOfKind.INSTANT else None, "g" if kind is AsOfKind.GROUP else None)
    return OffsetSnapshot(
        as_of=as_of,
        cluster_id=cluster_id,
        isolation_level=IsolationLevel.READ_COMMITTED,
        resolved_at_ms=resolved_at_ms or (at_ms if kind is not AsOfKind.INSTANT else at_ms + HOUR_MS),
        topics={"t": TopicFacts("t", topic_id, len(offsets), cleanup_policy, -1, -1, "CreateTime")},
        boundaries={TopicPartition("t", n): boundary(n, offset, log_start=log_start) for n, offset in offsets.items()},
    )
