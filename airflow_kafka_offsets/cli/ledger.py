"""``kafka-offsets ledger list``, ``verify`` and ``files``: what a pipeline's ledger says about all of its windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.cli.connections import new_ledger, pipelines_in, stored_ledger
from airflow_kafka_offsets.cli.instants import instant
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_remark, print_rows
from airflow_kafka_offsets.errors import ConfigurationError, LedgerError, number_of
from airflow_kafka_offsets.hooks.ledger import ledger_root
from airflow_kafka_offsets.ledger import file_lists
from airflow_kafka_offsets.ledger.audits import audit_words
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.files import manifest_file
from airflow_kafka_offsets.ledger.holes import Hole, holes_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel, uri_for_spark
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_status import WindowStatus, statuses
from airflow_kafka_offsets.offsets.instants import duration_text, iso_instant, now_ms
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.page.lateness import late_ms
from airflow_kafka_offsets.page.overview import overview
from airflow_kafka_offsets.runs.around import filled_by

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
