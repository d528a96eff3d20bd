"""A record: which window it is in, by its offset. The answer is that of ``ledger find``."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.ledger.find import Found, find
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.standing import statuses
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.page.window_panel import who_of

Json = dict[str, Any]


def record(ledger: Ledger, topic: str, partition: int, offset: int) -> list[Json]:
    """Where the record is. Several places if the topic's log has begun anew, the oldest first; none if no window has
    the partition.

    :raises LedgerError: when a file can't be read or is damaged.
    """
    return [_place(ledger, found) for found in find(ledger, TopicPartition(topic, partition), offset)]


def _place(ledger: Ledger, found: Found) -> Json:
    place = {
        "where": found.where,
        "earlier": None if found.earlier is None else found.earlier.name,
        "later": None if found.later is None else found.later.name,
    }
    return place | (_of_window(ledger, found.window) if found.window is not None else {"window": None})


def _of_window(ledger: Ledger, window: Window) -> Json:
    """The window, and the attempt whose rows count; if none is published, the newest."""
    published = window.publication
    attempt = window.newest_attempt if published is None else window.attempt(published.attempt)
    return {
        "window": window.name,
        "state": statuses(ledger, [window])[window.name],
        "attempt": None if attempt is None else attempt.number,
        "run": None if published is None else published.run,
        "output": None if published is None else published.outputs[0].output,
        **who_of(attempt),
    }
