"""Remarks: what a person should know of a window or a snapshot, though it is exact. A line each, for a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.answers.logs import Producers, holder_text
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary, Evidence, OffsetSnapshot

FUTURE_TOLERANCE_MS = 3_600_000
"""How far ahead of the clock a record's timestamp may be: Kafka 4's default of ``message.timestamp.after.max.ms``."""


def window_remarks(end: OffsetSnapshot, ranges: Sequence[OffsetRange]) -> Iterator[str]:
    """What may be unexpected about a window."""
    yield from snapshot_remarks(end)
    added = [each for each in ranges if each.start_evidence is Evidence.NEW_PARTITION and each.start_offset]
    lost = [each for each in ranges if each.lost_offsets and each not in added]
    if lost:
        names = shorten(
            f"{each.topic}-{each.partition}: {each.lost_offsets} from {each.window_start} on" for each in lost
        )
        yield f"{sum(each.lost_offsets for each in lost)} offsets of the window are lost: {names}."
    first = [each for each in ranges if each.start_evidence is Evidence.LOG_START and each.start_offset]
    if first:
        names = shorten(f"{each.topic}-{each.partition} at {each.start_offset}" for each in first)
        yield f"The log starts within the window on {names}: earlier records of it, if there were any, are gone."
    if added:
        names = shorten(f"{each.topic}-{each.partition} at {each.start_offset}" for each in added)
        yield f"New partitions start at their log start on {names}: records before it are gone."


def snapshot_remarks(snapshot: OffsetSnapshot) -> Iterator[str]:
    """What may be unexpected about a snapshot."""
    future = future_remark(snapshot)
    if future:
        yield future
    clamped = [each for each in snapshot.boundaries.values() if each.evidence is Evidence.CLAMPED]
    if clamped:
        names = shorten(f"{each.topic}-{each.partition} at {each.offset}" for each in clamped)
        why = "late or deleted records, or a clock that was ahead"
        yield f"At {snapshot.as_of}, snapshots stored earlier have the say on {names}: {why}."
    markers = [each for each in snapshot.boundaries.values() if each.evidence is Evidence.MATCHED_MARKER]
    if markers:
        names = shorten(f"{each.topic}-{each.partition} at {each.offset}" for each in markers)
        yield f"At {snapshot.as_of}, transaction markers were matched on {names}: records behind them may be older."


def future_remark(snapshot: OffsetSnapshot) -> str | None:
    """Which records from the future stand at a snapshot's offsets; None when there are none."""
    worst = [
        f"{each.topic}-{each.partition} at offset {each.offset} ({iso_instant(each.matched_timestamp_ms or 0)})"
        for each in future_records(snapshot)
    ]
    if not worst:
        return None
    return f"Records from the future stand at {shorten(worst)}: windows up to their time will be empty there."


def held_remark(held: Iterable[TopicPartition], producers: Producers) -> str:
    """Which open transactions hold a window's end back (S10)."""
    names = shorten(holder_text(each, producers) for each in held)
    return f"The window ends where an open transaction begins: {names}. What lies behind it is in a later window."


def future_records(snapshot: OffsetSnapshot) -> list[Boundary]:
    """Boundaries that rest on a record from the future: they freeze every later window until it ages out (E5, S7)."""
    limit = snapshot.resolved_at_ms + FUTURE_TOLERANCE_MS
    return [each for _, each in sorted(snapshot.boundaries.items()) if (each.matched_timestamp_ms or 0) > limit]
