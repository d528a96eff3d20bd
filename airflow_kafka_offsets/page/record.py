"""A record: in which window it is, by its offset, its key or its time. Says what ``ledger find`` says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.ledger.key_partitions import KeyPartitions, partitions_of_key
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.question import Question
from airflow_kafka_offsets.ledger.whereabouts import find_known
from airflow_kafka_offsets.ledger.windows_at import WindowAt, WindowsAt, find_at
from airflow_kafka_offsets.offsets.instants import iso_instant, parse_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import month_of, revisions_of
from airflow_kafka_offsets.page.answer import Answer, encoded
from airflow_kafka_offsets.page.grid import state_of
from airflow_kafka_offsets.page.writers import dags_of_window

Json = dict[str, Any]


def question(topic: str, partition: int | None, offset: int | None, key: str | None, at: str | None) -> Question:
    """What is asked for by an address.

    :param key: text, of which the bytes in UTF-8 are meant.
    :param at: an instant, ISO-8601 with a zone.
    :raises ConfigurationError: when it is none, or these contradict each other.
    """
    return Question(
        topic=topic,
        partition=partition,
        key=None if key is None else key.encode(),
        offset=offset,
        at_ms=None if at is None else parse_instant(at),
    )


def record(ledger: Ledger, asked: Question) -> Answer:
    """Where it is; the Dags are those of all windows that the answer names as having it, or having had it.

    :raises ConfigurationError: when the pipeline doesn't have the topic.
    :raises LedgerError: when a file isn't what it should be.
    """
    if asked.partition is not None and asked.offset is not None:
        place = asdict(find_known(ledger, asked.topic, asked.partition, asked.offset))
        return Answer(encoded(place), _dags(ledger, [place["window"]]))
    key = None if asked.key is None else partitions_of_key(ledger, asked.topic, asked.key)
    places = [] if key is None or asked.offset is None else _places(ledger, asked.topic, key, asked.offset)
    found = WindowsAt(()) if asked.at_ms is None else find_at(ledger, asked, key)
    shown = {
        "key": None if key is None else _key(key),
        "at": None if asked.at_ms is None else iso_instant(asked.at_ms),
        "places": places,
        "windows": [_window(ledger, window) for window in found.windows],
        "nowhere": found.nowhere,
    }
    named = [*(place["window"] for place in places), *(window.place.window for window in found.windows)]
    return Answer(encoded(shown), _dags(ledger, [*named, *found.forgotten]))


def _dags(ledger: Ledger, windows: Iterable[str | None]) -> frozenset[str]:
    """Of each window, those of all its revisions that count; of a forgotten one, those of all that did."""
    named = set(filter(None, windows))
    return frozenset().union(*(_dags_of(ledger, window) for window in named))


def _dags_of(ledger: Ledger, window: str) -> frozenset[str]:
    folders = ledger.window_folders.live(window)
    if not folders:
        made = revisions_of(ledger.window_folders.names([month_of(window)])).get(window, [])
        folders = [ledger.window_folders.revision(window, number) for number in made]
    return dags_of_window(ledger, window, folders)


def _places(ledger: Ledger, topic: str, key: KeyPartitions, offset: int) -> list[Json]:
    return [{"partition": each} | asdict(find_known(ledger, topic, each, offset)) for each in key.partitions()]


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


def _window(ledger: Ledger, window: WindowAt) -> Json:
    summary = window.summary
    return asdict(window.place) | {
        "state": state_of(ledger, summary),
        "start": iso_instant(summary.start_ms),
        "end": iso_instant(summary.end_ms),
        "remarks": window.remarks,
        "ranges": [
            {
                "partition": each.partition,
                "start_offset": each.start_offset,
                "end_offset": each.end_offset,
                "offsets": each.span,
                "lost": each.lost_offsets,
                "start_evidence": str(each.start_evidence),
                "end_evidence": str(each.end_evidence),
            }
            for each in window.ranges
        ],
    }
