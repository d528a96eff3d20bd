"""Leftovers: what of a topic that was deleted or made again is in no published window, as far as the ledger knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_kafka_offsets.errors import TopicChangedError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition


@contextmanager
def telling_leftovers(
    ledger: Ledger, way: str = "give the task another pipeline=, and clear the run"
) -> Iterator[None]:
    """Add to the error of a topic that was made again how to go on, and what was left of the old one.

    :param way: how the caller is given another pipeline.
    :raises TopicChangedError: as it comes, with more words.
    """
    try:
        yield
    except TopicChangedError as error:
        if error.topic is None or not ledger.exists():
            raise
        raise TopicChangedError(
            f"{error} The pipeline {ledger.pipeline!r} is of the old topic; to load the new one, {way}. "
            f"{left_unloaded(ledger, error.topic)}",
            topic=error.topic,
        ) from error


def left_unloaded(ledger: Ledger, topic: str) -> str:
    """In words: where the last published window ends, and which offsets that were seen after it no window published."""
    last = ledger.last_published()
    entries = ledger.snapshots.entries()
    if not entries:
        return f"Nothing of the old {topic} was loaded."
    seen = ledger.snapshots.read(max(each.number for each in entries))
    ends = {} if last is None else {TopicPartition.of(each): each.end_offset for each in last.ranges}
    left = {
        key.partition: (each.high_watermark - start, start)
        for key, each in sorted(seen.boundaries.items())
        if key.topic == topic and (start := ends.get(key, each.log_start_offset)) < each.high_watermark
    }
    until = (
        "No window of the old one was published."
        if last is None
        else f"The last published window of the old one ends at {iso_instant(last.end_ms)}."
    )
    if not left:
        none = "No offsets" if last is None else "No offsets after it"
        return f"{until} {none} were seen by {iso_instant(seen.resolved_at_ms)}, when it was asked last."
    where = shorten(f"{topic}-{partition}: {size} from {start} on" for partition, (size, start) in left.items())
    more = "offsets" if last is None else "offsets more"
    return (
        f"{until} By {iso_instant(seen.resolved_at_ms)}, when it was asked last, it had "
        f"{sum(size for size, _ in left.values())} {more} ({where}), which were never loaded; what came later "
        "isn't known."
    )
