"""What a pipeline's ledger says: ``kafka-offsets ledger list``, ``verify`` and ``files`` of all of its windows;
``show`` of one, with its attempts and ranges; and ``find`` of a record. They say what the page says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.cli.connections import new_ledger, pipelines_in, stored_ledger
from airflow_kafka_offsets.cli.instants import instant
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_record, print_remark, print_rows
from airflow_kafka_offsets.errors import ConfigurationError, LedgerError, number_of
from airflow_kafka_offsets.hooks.ledger import ledger_root
from airflow_kafka_offsets.ledger import file_lists
from airflow_kafka_offsets.ledger.audits import audit_words
from airflow_kafka_offsets.ledger.counted import WindowStatus, statuses
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.files import manifest_file
from airflow_kafka_offsets.ledger.find import OffsetPlace
from airflow_kafka_offsets.ledger.holes import Hole, holes_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel, uri_for_spark
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.instants import duration_text, iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.page.lateness import late_ms
from airflow_kafka_offsets.page.overview import overview
from airflow_kafka_offsets.page.windows import WHO, record, window_panel
from airflow_kafka_offsets.runs.around import filled_by, told_runs

_WINDOWS = (
    *(Column("window"), Column("state"), Column("offsets"), Column("rows"), Column("lost", unless=(0, None))),
    Column("attempt", unless=(None,), spare=True),
    Column("remark", folds=True, unless=(None,)),
    Column("audits", folds=True, unless=(None,)),
)
_OF_PIPELINE = (
    *("topics", "windows", "loaded", "failed", "holes", "lost", "audits", "complete_up_to", "late_s", "error"),
)
_PIPELINES = (
    *(Column("pipeline"), Column("topics", folds=True, spare=True), Column("windows"), Column("loaded")),
    *(Column("failed", unless=(0, None)), Column("holes", unless=(0, None)), Column("lost", unless=(0, None))),
    Column("audits", "incomplete audits", folds=True, unless=([], None), as_text=", ".join),
    Column("complete_up_to", "complete up to"),
    Column("late_s", "late by", unless=(None,), as_text=duration_text),
    Column("error", folds=True, unless=(None,)),
)
_AGAIN = "to be loaded again; its published rows count until then"
_CLAIMS = (Column("claim"), Column("window", unless=(None,)), Column("holds", "in order"), Column("found", folds=True))
_FILES = (Column("window"), Column("file", folds=True))
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
def list_ledgers(args: Any) -> int:
    """Print one row per pipeline; or, for one, a row per window, hole and restart."""
    return _list_pipelines(args) if args.pipeline is None else _list_windows(args)


def _list_pipelines(args: Any) -> int:
    rows = in_parallel(lambda name: _pipeline_row(new_ledger(args.ledger, name)), pipelines_in(args))
    if not rows:
        print_remark(f"{ledger_root(args.ledger)} has no ledger yet: a pipeline's first run makes it.")
    print_rows(rows, args, _PIPELINES)
    return 1 if any(row["error"] is not None for row in rows) else 0


def _pipeline_row(ledger: Ledger) -> Row:
    """What the page shows of a pipeline, in one row."""
    row: Row = {"pipeline": ledger.pipeline, **dict.fromkeys(_OF_PIPELINE)}
    try:
        found = overview(ledger)
    except LedgerError as error:
        return row | {"error": str(error)}
    states, since_ms = found["states"], found["unloaded_from_ms"]
    late = None if found["next"] is None else late_ms(found["next"], now_ms())
    return row | {
        "topics": list(found["topics"]),
        "windows": found["windows"],
        "loaded": sum(states[each] for each in (WindowStatus.PUBLISHED, WindowStatus.VERIFIED)),
        "failed": states[WindowStatus.FAILED],
        "holes": len(found["holes"]),
        "lost": found["lost_offsets"],
        "audits": found["audits"],
        "complete_up_to": None if since_ms is None else iso_instant(since_ms),
        "late_s": None if late is None else late / 1000,
    }


def _list_windows(args: Any) -> int:
    """In order of time."""
    ledger = stored_ledger(args)
    state = ledger.state
    found = statuses(ledger, state.windows.values())
    rows = [_window_row(ledger, window, str(found[name])) for name, window in state.windows.items()]
    holes = holes_of(ledger)
    rows += map(_hole_row, holes)
    rows += [_restart_row(restart) for restart in state.restarts]
    rows.sort(key=lambda row: (row["start"], row["end"]))
    print_rows(rows, args, _WINDOWS)
    for hole in holes:
        if hole.unpinned:
            ways = ", or ".join(filled_by(state, hole))
            print_remark(f"To load what no window has from {iso_instant(hole.start_ms)} on: {ways}.")
    return 0


def _window_row(ledger: Ledger, window: Window, state: str) -> Row:
    published = window.publication
    number = published.attempt if published is not None else window.attempts[-1].number if window.attempts else None
    return _row(window.name, window.start_ms, window.end_ms, state, window.offsets) | {
        "lost": sum(each.span for each in window.lost),
        "rows": None if published is None else published.rows,
        "attempt": number,
        "attempts": len(window.attempts),
        "remark": None if published is None or window.loaded is not None else _AGAIN,
        "audits": audit_words(window.audits),
        "output": None if published is None else published.output,
        "manifest": uri_for_spark(ledger.folder / manifest_file(window.name, window.manifest)),
        "sha256": window.manifest,
    }


def _hole_row(hole: Hole) -> Row:
    count = len(hole.pinned)
    words = [f"{number_of(hole.unpinned, 'offset')} in no window"] if hole.unpinned else []
    words += [f"{number_of(count, 'window')} not published"] if count else []
    name = window_id(hole.start_ms, hole.end_ms)
    return _row(name, hole.start_ms, hole.end_ms, "hole", hole.offsets) | {"remark": ", ".join(words)}


def _restart_row(restart: Restarted) -> Row:
    after_ms, lost = restart.at_ms - 1, sum(each.span for each in restart.unloaded)
    return _row(None, after_ms, after_ms, "restart", None) | {"lost": lost, "remark": str(restart)}


def _row(window: str | None, start_ms: int, end_ms: int, state: str, offsets: int | None) -> Row:
    return {
        "window": window,
        "start": iso_instant(start_ms),
        "end": iso_instant(end_ms),
        "state": state,
        "offsets": offsets,
        "lost": 0,
        **dict.fromkeys(("rows", "attempt", "attempts", "output", "manifest", "sha256", "remark", "audits")),
    }


@command
def verify_ledger(args: Any) -> int:
    """Print one row per claim."""
    claims = verify(stored_ledger(args), full=args.full)
    print_rows([asdict(claim) for claim in claims], args, _CLAIMS)
    told = ("hole", "unpublished") if args.on_hole == "warn" else ()
    return 0 if all(claim.holds or claim.claim in told for claim in claims) else 1


@command
def list_files(args: Any) -> int:
    """Print one row per file of the published windows."""
    start_ms, end_ms = (None if given is None else instant(given) for given in (args.start, args.end))
    found = file_lists.published_files(stored_ledger(args), start_ms, end_ms)
    rows = [{"window": window, "file": file} for window, files in found.items() for file in files]
    print_rows(rows, args, _FILES)
    return 0


def named_window(ledger: Ledger, args: Any) -> str:
    """The name of a command's window, from its name or ``--at``.

    :raises ConfigurationError: when not exactly one of them is given, or there is no such window.
    """
    if (args.window is None) == (args.at is None):
        raise ConfigurationError("Name the window, or a time in it with --at: one of them.")
    (found,) = named_windows(ledger, [args.window], []) if args.at is None else named_windows(ledger, [], [args.at])
    return found


def named_windows(ledger: Ledger, names: Sequence[str], times: Sequence[str]) -> list[str]:
    """The names of a command's windows, each once, from their names and ``--at``.

    :raises ConfigurationError: when there is none, or one doesn't exist.
    """
    if not names and not times:
        raise ConfigurationError("Name a window, or a time in it with --at.")
    for name in names:
        if name not in ledger.state.windows:
            raise ConfigurationError(f"{ledger.uri} has no window {name}. {_list_of(ledger)}")
    return list(dict.fromkeys([*names, *(_window_at(ledger, instant(time)) for time in times)]))


def _window_at(ledger: Ledger, at_ms: int) -> str:
    """The name of the window that a time is in; its end isn't."""
    if found := ledger.state.crossing(at_ms, at_ms + 1):
        return found[0].name
    windows = list(ledger.state.windows.values())
    earlier = next((each.name for each in reversed(windows) if each.end_ms <= at_ms), None)
    later = next((each.name for each in windows if each.start_ms > at_ms), None)
    beside = " and ".join(filter(None, (earlier and f"the one before is {earlier}", later and f"the next is {later}")))
    raise ConfigurationError(
        f"{ledger.uri} has no window at {iso_instant(at_ms)}{f': {beside}' if beside else ''}. {_list_of(ledger)}"
    )


def _list_of(ledger: Ledger) -> str:
    return f"kafka-offsets ledger list {ledger.pipeline} shows the windows that it has."


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
        "attempts": [*_attempt_rows(panel), *_refusal_rows(panel)],
        "losses": [{"attempt": each["attempt"], **lost} for each in panel["attempts"] for lost in each["losses"]],
        "audits": [each | {"found": each["found"] or "complete", "who": _who_words(each)} for each in panel["audits"]],
    }


def _attempt_rows(panel: Row) -> Iterator[Row]:
    """A row for each driver of an attempt; one for an attempt of which none has said anything."""
    published = panel["publication"] or {}
    for attempt in panel["attempts"]:
        failure = attempt["failure"] and _failure_words(attempt["failure"])
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


def _refusal_rows(panel: Row) -> Iterator[Row]:
    """The row of a load that was refused before an attempt began."""
    refusal = panel["refusal"]
    if refusal is not None:
        unknown = dict.fromkeys(("attempt", "run", "written", "application_id"))
        who, found = _who_words(refusal), f"refused. {_failure_words(refusal['failure'])}"
        yield unknown | {"lost": 0, "published": False, "who": who, "found": found}


def _failure_words(failure: Mapping[str, Any]) -> str:
    return f"{failure['error']}: {failure['message']}"


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
