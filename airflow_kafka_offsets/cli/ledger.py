"""``kafka-offsets ledger list``, ``verify`` and ``files``: what a pipeline's ledger says about all of its windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_rows
from airflow_kafka_offsets.errors import ConfigurationError, number_of
from airflow_kafka_offsets.ledger import file_lists
from airflow_kafka_offsets.ledger.audits import audit_words
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.files import manifest_file
from airflow_kafka_offsets.ledger.holes import Hole, holes_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import uri_for_spark
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_status import statuses
from airflow_kafka_offsets.offsets.instants import iso_instant, parse_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id

_WINDOWS = (
    *(Column("window"), Column("status"), Column("offsets"), Column("rows"), Column("lost", unless=(0, None))),
    Column("attempt", unless=(None,), spare=True),
    Column("remark", folds=True, unless=(None,)),
    Column("audits", folds=True, unless=(None,)),
)
_AGAIN = "to be loaded again; its published rows count until then"
_CLAIMS = (Column("claim"), Column("window", unless=(None,)), Column("holds", "in order"), Column("found", folds=True))
_FILES = (Column("window"), Column("file", folds=True))


@command
def list_windows(args: Any) -> int:
    """Print one row per window, hole and restart, in order of time."""
    ledger = stored_ledger(args)
    state = ledger.state
    found = statuses(ledger, state.windows.values())
    rows = [_window_row(ledger, window, str(found[name])) for name, window in state.windows.items()]
    rows += map(_hole_row, holes_of(ledger))
    rows += [_restart_row(restart) for _, restart in state.restarts]
    rows.sort(key=lambda row: (row["start"], row["end"]))
    print_rows(rows, args, _WINDOWS)
    return 0


def _window_row(ledger: Ledger, window: Window, status: str) -> Row:
    published = window.publication
    number = published.attempt if published is not None else window.attempts[-1].number if window.attempts else None
    return _row(window.name, window.start_ms, window.end_ms, status, window.offsets) | {
        "lost": sum(each.span for each in window.lost),
        "rows": None if published is None else published.rows,
        "attempt": number,
        "attempts": len(window.attempts),
        "remark": None if published is None or window.loaded is not None else _AGAIN,
        "audits": audit_words(window.audits),
        "output": None if published is None else published.outputs[0].output,
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


def _row(window: str | None, start_ms: int, end_ms: int, status: str, offsets: int | None) -> Row:
    return {
        "window": window,
        "start": iso_instant(start_ms),
        "end": iso_instant(end_ms),
        "status": status,
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
    start_ms, end_ms = (None if given is None else parse_instant(given) for given in (args.start, args.end))
    found = file_lists.published_files(stored_ledger(args), start_ms, end_ms)
    rows = [{"window": window, "file": file} for window, files in found.items() for file in files]
    print_rows(rows, args, _FILES)
    return 0


def require_windows(ledger: Ledger, windows: Sequence[str]) -> None:
    """Refuse windows that don't exist.

    :raises ConfigurationError: naming the first one.
    """
    unknown: Iterator[str] = (window for window in windows if window not in ledger.state.windows)
    for window in unknown:
        raise ConfigurationError(
            f"{ledger.uri} has no window {window}. kafka-offsets ledger list {ledger.pipeline} shows the windows that "
            "it has."
        )
