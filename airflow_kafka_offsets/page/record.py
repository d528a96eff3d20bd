"""A record: which window it is in, by offset, key or time. The answers are those of ``ledger find``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.key_partitions import KeyPartitions
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.record_query import RecordQuery, find_records
from airflow_kafka_offsets.ledger.windows_at import WindowAt
from airflow_kafka_offsets.offsets.instants import iso_instant, parse_instant
from airflow_kafka_offsets.page.answer import Answer, encoded
from airflow_kafka_offsets.page.window_panel import range_fields
from airflow_kafka_offsets.page.writers import dags_of_window

Json = dict[str, Any]


def record_query(topic: str, partition: int | None, offset: int | None, key: str | None, at: str | None) -> RecordQuery:
    """The query that a request's parameters make.

    :param key: text; stands for its bytes in UTF-8.
    :param at: an instant, ISO-8601 with a time zone.
    :raises ConfigurationError: when ``at`` isn't an instant, parameters contradict each other, or the key isn't text.
    """
    if key is not None and "\ufffd" in key:  # the replacement character: the bytes weren't UTF-8
        raise ConfigurationError("This key isn't text. Use kafka-offsets ledger find with --key-hex.")
    return RecordQuery(
        topic=topic,
        partition=partition,
        key=None if key is None else key.encode(),
        offset=offset,
        at_ms=None if at is None else parse_instant(at),
    )


def record(ledger: Ledger, query: RecordQuery) -> Answer:
    """Where the record is. The answer's Dags are those of all windows that it says have the record, or had it.

    :raises ConfigurationError: when the pipeline doesn't have the topic.
    :raises LedgerError: when a file can't be read or is damaged.
    """
    found = find_records(ledger, query)
    shown = {
        "key": None if found.key is None else _key(found.key),
        "at": None if found.at is None else iso_instant(found.at.at_ms),
        "places": [{"partition": partition} | asdict(place) for partition, place in found.places.items()],
        "windows": [] if found.at is None else [_window(window) for window in found.at.windows],
        "nowhere": None if found.at is None else found.at.nowhere,
    }
    return Answer(encoded(shown), frozenset().union(*(_dags(ledger, window) for window in found.windows())))


def _dags(ledger: Ledger, window: str) -> frozenset[str]:
    """The Dags of all revisions of a window that still count; if none does, of all that were made."""
    folders = ledger.window_folders.live(window) or ledger.window_folders.made(window)
    return dags_of_window(ledger, window, folders)


def _key(key: KeyPartitions) -> Json:
    return {
        "key": key.key.decode(),
        "partitions": [
            {
                "partition": each.partition,
                "partition_count": each.partition_count,
                "since": iso_instant(each.since_ms),
            }
            for each in key.known
        ],
        "remarks": key.remarks(),
    }


def _window(window: WindowAt) -> Json:
    return asdict(window.place) | {
        "state": window.summary.state,
        "remarks": window.remarks,
        "ranges": [range_fields(each) for each in window.ranges],
    }
