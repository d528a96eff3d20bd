"""``kafka-offsets ledger show``: one window, its attempts with what their drivers have left, and its ranges; and
``ledger find``: the window, the attempt and the output of a record, by its offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.ledger import named_window
from airflow_kafka_offsets.cli.printing import (
    Column,
    Row,
    command,
    every_column,
    print_record,
    print_remark,
    print_rows,
    row_of,
)
from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.audits import audit_words_at
from airflow_kafka_offsets.ledger.entries import Attempted, Audited, Published
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.ledger.find import Found, OffsetPlace, find
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.window_status import WindowStatus, running_ms, status
from airflow_kafka_offsets.offsets.audits.findings import problem_words
from airflow_kafka_offsets.offsets.instants import duration_text, iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.runs.clearing import told_runs

_WINDOW = (
    *(Column("window"), Column("status"), Column("offsets"), Column("manifest"), Column("sha256")),
    Column("running_for", "running for", unless=(None,)),
    *(Column("increment_of", "increment of", unless=(None,)), Column("reloaded", "reloaded by commit", unless=(None,))),
    *(Column("published", unless=(None,)), Column("verdict", unless=(None,))),
)
_ATTEMPTS = (
    *(Column("attempt"), Column("run", unless=(None,)), Column("published", unless=(False,))),
    *(Column("lost", unless=(0,)), Column("rows", unless=(None,))),
    *(Column("application", folds=True, unless=(None,), spare=True), Column("who", folds=True)),
    Column("found", folds=True, unless=(None,)),
)
_OUTPUTS = (*(Column("name", unless=("",)), Column("sink"), Column("rows"), Column("output", folds=True)),)
_LOST = (
    Column("attempt"),
    Column("topic", folds=True),
    Column("partition", "part"),
    Column("lost_from"),
    Column("lost"),
)
_RANGES = (
    Column("topic", folds=True),
    Column("partition", "part"),
    Column("start_offset", "start"),
    Column("end_offset", "end"),
    Column("offsets"),
    Column("start_evidence", "start is"),
    Column("end_evidence", "end is"),
)
_AUDITS = (
    *(Column("table", folds=True), Column("found", folds=True), Column("rows"), Column("records")),
    *(Column("audited"), Column("who", folds=True), Column("report", folds=True, spare=True)),
)
_PARTS = {"attempts": _ATTEMPTS, "losses": _LOST, "outputs": _OUTPUTS, "audits": _AUDITS, "ranges": _RANGES}
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
def show_window(args: Any) -> int:
    """Print a window, its attempts, what they lost, its outputs and its ranges."""
    ledger = stored_ledger(args)
    newest = ledger.state.last_window
    if newest is None:
        raise ConfigurationError(f"{ledger.uri} has no window yet.")
    name = newest.name if args.window is None and args.at is None else named_window(ledger, args)
    window = ledger.window(name)
    record = _record(ledger, window)
    print_record(record, args, _WINDOW, _PARTS)
    if record["status"] == WindowStatus.FAILED:
        for line in told_runs([window]):
            print_remark(line)
    return 0


def _record(ledger: Ledger, window: Window) -> Row:
    pinned, published, now = ledger.pinned(window), window.publication, status(ledger, window)
    return {
        "window": window.name,
        "start": iso_instant(window.start_ms),
        "end": iso_instant(window.end_ms),
        "status": str(now),
        "running_for": _running_for(window) if now is WindowStatus.LOADING else None,
        "offsets": window.offsets,
        "manifest": pinned.uri,
        "sha256": pinned.sha256,
        "increment_of": window.by,
        "reloaded": window.reloaded or None,
        "published": None if published is None else iso_instant(published.published_ms),
        "verdict": None if published is None or published.verdict is None else published.verdict.get("verdict"),
        "attempts": [row for attempt in window.attempts for row in _attempt_rows(ledger, window, pinned, attempt)],
        "losses": [
            {"attempt": attempt.number, "topic": lost.topic, "partition": lost.partition}
            | {"lost_from": lost.start_offset, "lost": lost.span}
            for attempt in window.attempts
            for lost in attempt.lost
        ],
        "outputs": [] if published is None else [each._asdict() for each in published.outputs],
        "audits": [_audit_row(ledger, window, each) for each in window.audits],
        "ranges": [_range_row(each) for each in pinned.manifest.ranges],
    }


def _audit_row(ledger: Ledger, window: Window, audit: Audited) -> Row:
    return {
        "table": audit.table,
        "found": problem_words(audit.counts) or "complete",
        "rows": audit.rows,
        "records": audit.records,
        "audited": iso_instant(audit.audited_ms),
        "who": _words(audit.who),
        "counts": dict(audit.counts),
        "report": f"{ledger.uri}/{audit_file(window.name, audit.run)}",
    }


def _range_row(offset_range: OffsetRange) -> Row:
    return (
        row_of(offset_range, "topic", "partition", "start_offset", "end_offset")
        | {"offsets": offset_range.span}
        | row_of(offset_range, "start_evidence", "end_evidence")
    )


def _attempt_rows(ledger: Ledger, window: Window, pinned: PinnedManifest, attempt: Attempted) -> Iterator[Row]:
    """A row for each driver of an attempt; one for an attempt of which none has said anything."""
    files = ledger.attempt(window.name, attempt.number)
    runs, results = files.runs(), {result.run: result for result, _ in files.results()}
    failure = files.failure()
    failed = None if failure is None else f"{failure.error}: {failure.message}"
    for run in runs or (None,):
        result = results.get(run or "")
        yield {
            "attempt": attempt.number,
            "begun": None if attempt.begun_ms is None else iso_instant(attempt.begun_ms),
            "run": run,
            "published": _is_published(window.publication, attempt, run),
            "lost": sum(each.span for each in attempt.lost),
            "rows": None if result is None else result.rows_written,
            "application": None if run is None else _application(files, run),
            "who": _words(attempt.who),
            "found": failed if result is None else str(judge(pinned.manifest, result, attempt.lost)),
        }


def _running_for(window: Window) -> str | None:
    for_ms = running_ms(window)
    return None if for_ms is None else duration_text(for_ms / 1000)


def _application(files: AttemptFiles, run: str) -> str | None:
    """Spark's id of a driver's application; None if its note isn't there, or can't be read."""
    with suppress(LedgerCorruptError):
        found = files.application(run)
        return None if found is None else found.id
    return None


def _is_published(published: Published | None, attempt: Attempted, run: str | None) -> bool:
    return published is not None and (published.attempt, published.run) == (attempt.number, run)


def _words(fields: Mapping[str, Any]) -> str:
    """Plain JSON as words, without what isn't set."""
    return ", ".join(f"{name} {value}" for name, value in fields.items() if value is not None)


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
    rows = [asked | _place_row(ledger, place, partition, args.offset) for place in found]
    if len(rows) == 1:
        print_record(rows[0], args, [replace(column, unless=(None,)) for column in every_column(rows)])
    else:
        print_rows(rows, args, _PLACES)
    return 0 if any(place.window is not None for place in found) else 1


def _place_row(ledger: Ledger, place: Found, partition: TopicPartition, offset: int) -> Row:
    window = place.window
    published = None if window is None else window.publication
    attempt = None if window is None or published is None else window.attempt(published.attempt)
    return {
        "found": _place_words(ledger, place),
        "window": None if window is None else window.name,
        "attempt": None if published is None else published.attempt,
        "run": None if published is None else published.run,
        "output": None if published is None else published.output_of(partition.topic),
        "audits": None if window is None else audit_words_at(ledger, window, partition, offset),
    } | {name: None if attempt is None else attempt.who.get(name) for name in _RUN}


def _place_words(ledger: Ledger, place: Found) -> str:
    """Where the record is, as people say it."""
    window, earlier, later = place.window, place.earlier, place.later
    if window is not None:
        if place.where is OffsetPlace.LOST:
            return "lost: Kafka no longer had it when the window was loaded"
        return "published" if window.publication is not None else f"not published: {status(ledger, window)}"
    if earlier is None:
        return f"before the first window ({_window_name(later)})"
    if later is None:
        return f"after the last window ({_window_name(earlier)})"
    return f"in no window: it is in the hole {window_id(earlier.end_ms, later.start_ms)}"


def _window_name(window: Window | None) -> str:
    return "none" if window is None else window.name
