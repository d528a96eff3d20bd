"""Snapshots of a pipeline that has other topics beside ``t``: such as one that was added later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from tests.integration.ledger.loads import LATER_MS, OFFSETS, pin
from tests.unit.offsets.builders import HOUR_MS, T0, boundary, snapshot

ADDED = "u"
AT_ADDED = 700
"""Where the added topic stands at the end of its first window."""


def at_hour(number: int, added: int | None = None, log_start: int = 0) -> OffsetSnapshot:
    """Where the topic ``t`` stands at an hour, and the added one.

    :param added: its offset, on two partitions; None before it was added.
    """
    offsets = {0: (number + 100) * OFFSETS}
    made = snapshot(offsets, at_ms=T0 + number * HOUR_MS, resolved_at_ms=LATER_MS)
    return made if added is None else also(made, ADDED, {0: added, 1: added}, log_start)


def also(made: OffsetSnapshot, topic: str, offsets: Mapping[int, int], log_start: int = 0) -> OffsetSnapshot:
    """The same snapshot with another topic."""
    return replace(
        made,
        topics={**made.topics, topic: TopicFacts(topic, f"id-{topic}", len(offsets), "delete", -1, -1, "CreateTime")},
        boundaries={
            **made.boundaries,
            **{
                TopicPartition(topic, each): boundary(each, offset, log_start=log_start, topic=topic)
                for each, offset in offsets.items()
            },
        },
    )


def add_topic(ledger: Ledger, *, log_start: int = 0, chosen: int | None = None) -> tuple[PinnedManifest, ...]:
    """Three hours, of which the last one is the first that has the added topic.

    :param chosen: from which offset on the user wants it; None for all of it.
    """
    before = [pin(ledger, at_hour(each), at_hour(each + 1)) for each in (0, 1)]
    start, end = ledger.snapshots.append([at_hour(2), at_hour(3, AT_ADDED, log_start)])
    added = None if chosen is None else {TopicPartition(ADDED, each): chosen for each in (0, 1)}
    return *before, pin_window(ledger, start, end, added=added)
