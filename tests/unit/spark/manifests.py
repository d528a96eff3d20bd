"""Manifests made by hand, for tests of what Spark does with them."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import Evidence
from tests.unit.offsets.builders import LEDGER_ID

FIVE_MS, SIX_MS, SEVEN_MS = 1_795_237_200_000, 1_795_240_800_000, 1_795_244_400_000
"""05:00, 06:00 and 07:00 UTC on 21 November 2026."""

CLUSTER_ID = "cluster"
"""Of no real cluster."""


def manifest_of(
    ranges: Iterable[tuple[str, int, int, int]],
    *,
    start_ms: int = FIVE_MS,
    end_ms: int = SIX_MS,
    cleanup_policy: str = "delete",
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Manifest:
    """A manifest of (topic, partition, start offset, end offset)."""
    rows = tuple(OffsetRange(*each, Evidence.MATCHED, Evidence.MATCHED) for each in ranges)
    return Manifest(
        pipeline="flights",
        ledger_id=LEDGER_ID,
        window=window_id(start_ms, end_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        cluster_id=CLUSTER_ID,
        isolation_level=isolation_level,
        topics={each.topic: TopicFacts(each.topic, None, len(rows), cleanup_policy) for each in rows},
        ranges=rows,
    )
