"""``kafka-offsets ledger show``: one window, its attempts with what their drivers have left, and its ranges; and
``ledger find``: the window, the attempt and the output of a record, by its offset. Both say what the page says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.ledger import named_window
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_record, print_remark, print_rows
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.find import OffsetPlace
from airflow_kafka_offsets.ledger.window_status import WindowStatus
from airflow_kafka_offsets.offsets.instants import duration_text, iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.page.windows import WHO, record, window_panel
from airflow_kafka_offsets.runs.clearing import told_runs

_WINDOW = (
    *(Column("window"), Column("state"), Column("offsets"), Column("manifest"), Column("sha256")),
    Column("running_ms", "running for", unless=(None,), as_text=lambda ms: duration_text(ms / 1000)),
    *(Column("increment_of", "increment of", unless=(None,)), Column("reloaded", "reloaded by commit", unless=(None,))),
    *(Column("published_at", "published", unless=(None,)), Column("verdict", unless=(None,))),
)
_ATTEMPTS = (
    *(Column("attempt"), Column("run", unless=(None,)), Column("published", unless=(False,))),
    *(Column("lost", unless=(0,)), Column("written", "rows", unless=(None,))),
    *(Column("application_id", "application", folds=True, unless=(None,), spare=True), Column("who", folds=True)),
    Column("found", folds=True, unless=(None,)),
)
_OUTPUTS = (*(Column("name", unless=("",)), Column("sink"), Column("rows"), Column("output", folds=True)),)
_LOST = (
    *(Column("attempt"), Column("topic", folds=True), Column("partition", "part")),
    *(Column("start_offset", "lost_from"), Column("offsets", "lost")),
)
_RANGES = (
    *(Column("topic", folds=True), Column("partition", "part"), Column("start_offset", "start")),
    *(Column("end_offset", "end"), Column("offsets")),
    *(Column("start_evidence", "start is"), Column("end_evidence", "end is")),
)
_AUDITS = (
    *(Column("table", folds=True), Column("found", folds=True), Column("rows"), Column("records")),
    *(Column("audited_ms", "audited", as_text=iso_instant), Column("who", folds=True)),
    Column("report", folds=True, spare=True),
)
_PARTS = {"attempts": _ATTEMPTS, "losses": _LOST, "outputs": _OUTPUTS, "audits": _AUDITS, "ranges": _RANGES}
_PLACES = (
    *(Column("topic", folds=True), Column("partition"), Column("offset"), Column("found", folds=True)),
    *(Column("why", folds=True, unless=(None,)), Column("window", unless=(None,))),
    *(Column("attempt", unless=(None,)), Column("run", unless=(None,))),
    *(Column("output", folds=True, unless=(None,)), Column("audits", folds=True, unless=(None,))),
    *(Column(name, folds=True, unless=(None,)) for name in ("dag_id", "run_id", "task_id", "by_hand")),
)
_FOUND = {
    OffsetPlace.LOST: "lost: Kafka no longer had it when the window was loaded",
    OffsetPlace.BEFORE: "before the first window ({later})",
    OffsetPlace.AFTER: "after the last window ({earlier})",
    OffsetPlace.HOLE: "in no window: it is in the hole between {earlier} and {later}",
}


@command
def show_window(args: Any) -> int:
    """Print a window, its attempts, what they lost, its outputs and its ranges."""
    ledger = stored_ledger(args)
    newest = ledger.state.last_window
    if newest is None:
        raise ConfigurationError(f"{ledger.uri} has no window yet.")
    window = ledger.window(newest.name if args.window is None and args.at is None else named_window(ledger, args))
    panel = window_panel(ledger, window, messages=True)
    print_record(panel if args.output == "json" else _in_tables(panel), args, _WINDOW, _PARTS)
    if panel["state"] is WindowStatus.FAILED:
        for line in told_runs([window]):
            print_remark(line)
    return 0


def _in_tables(panel: Row) -> Row:
    """The window with its parts as the rows of tables."""
    published = panel["publication"] or {"published_at": None, "verdict": None, "outputs": []}
    return panel | {
        **{name: published[name] for name in ("published_at", "verdict", "outputs")},
        "attempts": list(_attempt_rows(panel)),
        "losses": [{"attempt": each["attempt"], **lost} for each in panel["attempts"] for lost in each["losses"]],
        "audits": [each | {"found": each["found"] or "complete", "who": _who_words(each)} for each in panel["audits"]],
    }


def _attempt_rows(panel: Row) -> Iterator[Row]:
    """A row for each driver of an attempt; one for an attempt of which none has said anything."""
    published = panel["publication"] or {}
    for attempt in panel["attempts"]:
        failure = attempt["failure"] and f"{attempt['failure']['error']}: {attempt['failure']['message']}"
        for run in attempt["runs"] or [{"run": None}]:
            found = {"written": None, "application_id": None, "verdict": None, "problem": None} | run
            yield {
                **{name: found[name] for name in ("run", "written", "application_id")},
                **{name: attempt[name] for name in ("attempt", "lost")},
                "published": run["run"] is not None
                and (published.get("attempt"), published.get("run")) == (attempt["attempt"], run["run"]),
                "who": _who_words(attempt),
                "found": found["verdict"] or failure or found["problem"],
            }


def _who_words(made: Mapping[str, Any]) -> str:
    """Who made an attempt or an audit, without what isn't set."""
    return ", ".join(f"{name} {made[name]}" for name in WHO if made[name] is not None)


@command
def find_record(args: Any) -> int:
    """Print where the record is: one row, or one for each log that its topic has had, if it had the offset."""
    ledger = stored_ledger(args)
    places = record(ledger, args.topic, args.partition, args.offset)
    if not places:
        raise ConfigurationError(
            f"No window of pipeline {ledger.pipeline} has {TopicPartition(args.topic, args.partition)}: its windows "
            "have other topics, or fewer partitions. kafka-offsets ledger show "
            f"{ledger.pipeline} names those of the newest one."
        )
    rows = [_place_row(args, place) for place in places]
    if len(rows) == 1:
        print_record(rows[0], args, _PLACES)
    else:
        print_rows(rows, args, _PLACES)
    return 0 if any(place["window"] is not None for place in places) else 1


def _place_row(args: Any, place: Row) -> Row:
    words = "published" if place["run"] is not None else f"not published: {place['state']}"
    failure = place["failure"]
    return {
        "topic": args.topic,
        "partition": args.partition,
        "offset": args.offset,
        "found": _FOUND.get(place["where"], words).format_map(place),
        "why": failure and f"{failure['why']} ({failure['error']}). {failure['helps']}.",
        **place,
    }
