"""A topic over time: where its logs started and ended whenever a snapshot was resolved, what groups had committed then,
and which offsets each window has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, Boundary, OffsetSnapshot
from airflow_kafka_offsets.page.grid import state_of

Json = dict[str, Any]


def timeline(ledger: Ledger, summaries: Sequence[WindowSummary], topic: str, partition: int | None, most: int) -> Json:
    """What the newest snapshots know of a topic, and the windows between two of them.

    Offsets are sums over the topic's partitions; a partition that a snapshot doesn't have is missing from that sum.

    :param partition: that one alone; None for all.
    :param most: how many snapshots.
    :raises ConfigurationError: when none of them has the topic, or the partition.
    :raises LedgerError: when a file isn't what it should be.
    """
    entries = sorted(ledger.snapshots.entries(), key=lambda entry: entry.number)[-most:]
    found = in_parallel(lambda entry: ledger.snapshots.read(entry.number), entries)
    points = {snapshot.number: point for snapshot in found if (point := _point(snapshot, topic, partition)) is not None}
    if not points:
        what = topic if partition is None else f"{topic}-{partition}"
        raise ConfigurationError(f"No snapshot of {ledger.uri} has {what!r}.")
    shown = [each for each in summaries if {each.start_snapshot, each.end_snapshot} <= points.keys()]
    newest = max(found, key=lambda snapshot: (topic in snapshot.topics, snapshot.resolved_at_ms))
    return {
        "topic": topic,
        "partition": partition,
        "partitions": newest.topics[topic].partition_count,
        "retention_ms": newest.topics[topic].retention_ms,
        "cleanup_policy": newest.topics[topic].cleanup_policy,
        "points": sorted(points.values(), key=lambda point: point["resolved_at_ms"]),
        "windows": [
            {
                "window": each.window,
                "state": state_of(ledger, each),
                "start_ms": each.start_ms,
                "end_ms": each.end_ms,
                "start_offset": points[each.start_snapshot]["offset"],
                "end_offset": points[each.end_snapshot]["offset"],
            }
            for each in shown
        ],
    }


def _point(snapshot: OffsetSnapshot, topic: str, partition: int | None) -> Json | None:
    """What a snapshot knows of a topic; None when it doesn't have it."""
    of_topic = [each for each in snapshot.boundaries.values() if each.topic == topic]
    boundaries = [each for each in of_topic if partition in (None, each.partition)]
    if not boundaries:
        return None
    return {
        "as_of": str(snapshot.as_of),
        "group": snapshot.as_of.group,
        "as_of_instant": snapshot.as_of.kind is AsOfKind.INSTANT,
        "at_ms": snapshot.timestamp_ms,
        "resolved_at_ms": snapshot.resolved_at_ms,
        "partitions": len(boundaries),
        "offset": sum(each.offset for each in boundaries),
        "log_start": sum(each.log_start_offset for each in boundaries),
        "log_end": sum(_end(each, snapshot.isolation_level) for each in boundaries),
    }


def _end(boundary: Boundary, isolation_level: IsolationLevel) -> int:
    committed = isolation_level is IsolationLevel.READ_COMMITTED
    return boundary.last_stable_offset if committed else boundary.high_watermark
