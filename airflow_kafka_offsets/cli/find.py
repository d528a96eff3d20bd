"""``kafka-offsets ledger find``: finds the window, the attempt and the output of a record, by its offset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.printing import Column, Row, command, every_column, print_record, print_rows
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.audits import audit_words_at
from airflow_kafka_offsets.ledger.find import Found, OffsetPlace, find
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.window_status import status
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id

_PLACES = (
    Column("found", folds=True),
    Column("window", unless=(None,)),
    Column("attempt", unless=(None,)),
    Column("output", folds=True, unless=(None,)),
    Column("audits", folds=True, unless=(None,)),
)
_RUN = ("dag_id", "run_id", "task_id")
"""What a task says of itself when it begins an attempt."""


@command
def find_record(args: Any) -> int:
    """Print where the record is: one row, or one for each log that its topic has had, if it had the offset."""
    ledger = stored_ledger(args)
    partition = TopicPartition(args.topic, args.partition)
    found = find(ledger, partition, args.offset)
    if not found:
        raise ConfigurationError(
            f"No window of pipeline {ledger.pipeline} has {partition}: its windows have other topics, or fewer "
            f"partitions. kafka-offsets ledger show {ledger.pipeline} names those of the newest one."
        )
    asked: Row = {"topic": args.topic, "partition": args.partition, "offset": args.offset}
    rows = [asked | _row(ledger, place, partition, args.offset) for place in found]
    if len(rows) == 1:
        print_record(rows[0], args, [replace(column, unless=(None,)) for column in every_column(rows)])
    else:
        print_rows(rows, args, _PLACES)
    return 0 if any(place.window is not None for place in found) else 1


def _row(ledger: Ledger, place: Found, partition: TopicPartition, offset: int) -> Row:
    window = place.window
    published = None if window is None else window.publication
    attempt = None if window is None or published is None else window.attempt(published.attempt)
    return {
        "found": _words(ledger, place),
        "window": None if window is None else window.name,
        "attempt": None if published is None else published.attempt,
        "run": None if published is None else published.run,
        "output": None if published is None else published.output_of(partition.topic),
        "audits": None if window is None else audit_words_at(ledger, window, partition, offset),
    } | {name: None if attempt is None else attempt.who.get(name) for name in _RUN}


def _words(ledger: Ledger, place: Found) -> str:
    """Where the record is, as people say it."""
    window, earlier, later = place.window, place.earlier, place.later
    if window is not None:
        if place.where is OffsetPlace.LOST:
            return "lost: Kafka no longer had it when the window was loaded"
        return "published" if window.publication is not None else f"not published: {status(ledger, window)}"
    if earlier is None:
        return f"before the first window ({_name(later)})"
    if later is None:
        return f"after the last window ({_name(earlier)})"
    return f"in no window: it is in the hole {window_id(earlier.end_ms, later.start_ms)}"


def _name(window: Window | None) -> str:
    return "none" if window is None else window.name
