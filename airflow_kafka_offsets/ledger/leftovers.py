"""Leftovers: what was never loaded of a topic that was deleted or re-created. Nobody can load it any more.

Uses only the ledger: how many records came after Kafka was last asked is unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_kafka_offsets.errors import TopicChangedError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition

log = logging.getLogger(__name__)


@contextmanager
def telling_leftovers(
    ledger: Ledger, way: str = "give the task another pipeline=, and clear the run"
) -> Iterator[None]:
    """Add to the error about a re-created topic what to do next, and what was left unloaded of the old topic.

    :param way: how the user gives the caller another pipeline.
    :raises TopicChangedError: the caught error, with that added.
    """
    try:
        yield
    except TopicChangedError as error:
        told = None if error.topic is None else _told(ledger, error.topic)
        if told is None:
            raise
        raise TopicChangedError(
            f"{error} The pipeline {ledger.pipeline!r} belongs to the old topic; to load the new one, {way}. {told}",
            topic=error.topic,
        ) from error


def _told(ledger: Ledger, topic: str) -> str | None:
    """What was left unloaded, in words; None without a ledger. One that can't be read, as it is damaged or its store
    fails, doesn't replace the error about the topic: stores raise errors of their own, without a common class."""
    try:
        return _left_unloaded(ledger, topic) if ledger.exists() else None
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        log.warning("Which offsets of the old %s were never loaded is unknown: %s", topic, why)
        return f"Which offsets of the old {topic} were never loaded is unknown, as the ledger can't be read: {why}"


def _left_unloaded(ledger: Ledger, topic: str) -> str:
    """In words: where the last published window ends, and which known offsets after it were never published."""
    last = ledger.last_published()
    entries = ledger.snapshots.entries()
    if not entries:
        return f"Nothing of the old {topic} was loaded."
    seen = ledger.snapshots.read(max(entry.number for entry in entries))
    ends = {} if last is None else {TopicPartition.of(each): each.end_offset for each in last.ranges}
    left = {
        key.partition: (boundary.high_watermark - start, start)
        for key, boundary in sorted(seen.boundaries.items())
        if key.topic == topic and (start := ends.get(key, boundary.log_start_offset)) < boundary.high_watermark
    }
    until = (
        "No window of the old topic was published."
        if last is None
        else f"The last published window of the old topic ends at {iso_instant(last.end_ms)}."
    )
    if not left:
        none = "no offsets" if last is None else "no offsets after that"
        return f"{until} When Kafka was last asked, at {iso_instant(seen.resolved_at_ms)}, the old topic had {none}."
    where = shorten(f"{topic}-{partition}: {size} from {start} on" for partition, (size, start) in left.items())
    more = "offsets" if last is None else "more offsets"
    return (
        f"{until} When Kafka was last asked, at {iso_instant(seen.resolved_at_ms)}, the old topic had "
        f"{sum(size for size, _ in left.values())} {more} ({where}), which were never loaded. How many came "
        "later is unknown."
    )
