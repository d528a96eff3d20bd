"""``kafka-offsets ledger …``: inspects and maintains a pipeline's ledger."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_rows, range_row, row_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger import forgetting
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms, parse_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import revisions_of
from airflow_kafka_offsets.page.file import page_file

_LOST = Column("lost", unless=(0, None))
_REVISION = Column("revision", "rev", unless=(1, None))
_WINDOWS = (Column("window"), _REVISION, Column("state"), Column("offsets"), Column("rows"), _LOST)
_RANGES = (
    Column("topic", folds=True),
    Column("partition", "part"),
    Column("start_offset", "start"),
    Column("end_offset", "end"),
    Column("offsets"),
    _LOST,
    Column("start_evidence", "start is"),
    Column("end_evidence", "end is"),
)
_CLAIMS = (Column("claim"), Column("window", unless=(None,)), Column("holds", "in order"), Column("found", folds=True))
_FILES = (Column("window"), Column("file", folds=True))
_FORGOTTEN = (Column("forgotten"), Column("instants", folds=True))
_SNAPSHOTS = (Column("forgotten"), Column("at"), Column("as_of", "as of"))


@command
def list_windows(args: Any) -> int:
    """Print one row per window."""
    ledger = stored_ledger(args)
    print_rows([_summary_row(ledger, window) for window in ledger.summaries()], args, _WINDOWS, drawn="rows")
    return 0


@command
def show_window(args: Any) -> int:
    """Print one row per partition."""
    ledger = stored_ledger(args)
    live = ledger.window_folders.index().live
    if not live:
        raise ConfigurationError(f"{ledger.uri} has no window yet.")
    window = args.window or next(reversed(live))
    require_windows(ledger, [window], live)
    known = live[window]
    if args.revision is not None and args.revision not in known:
        raise ConfigurationError(
            f"Window {window} has no revision {args.revision}; it has {', '.join(map(str, known))}."
        )
    print_rows(_range_rows(ledger.pinned(window, args.revision)), args, _RANGES, drawn="offsets")
    if args.html is not None:
        _write_page(ledger, window, Path(args.html))
    return 0


def _write_page(ledger: Ledger, window: str, file: Path) -> None:
    try:
        file.write_text(page_file(ledger, window), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} can't be written: {error.strerror or error}.") from error
    print(f"Wrote the newest windows of {ledger.pipeline} to {file}: open it in a browser.", file=sys.stderr)


@command
def verify_ledger(args: Any) -> int:
    """Print one row per claim."""
    claims = verify(stored_ledger(args), full=args.full)
    print_rows([asdict(claim) for claim in claims], args, _CLAIMS)
    told = ("hole", "unpublished") if args.on_hole == "warn" else ()
    return 0 if all(claim.holds or claim.claim in told for claim in claims) else 1


@command
def forget_windows(args: Any) -> int:
    """Forget windows, and print one row for each."""
    ledger = stored_ledger(args)
    require_windows(ledger, args.windows, revisions_of(ledger.window_folders.names()))
    if not args.force:
        for window in args.windows:
            _refuse_in_use(ledger, window)
    instants = forgetting.forget_windows(ledger, args.windows, f"{getpass.getuser()} at {iso_instant(now_ms())}")
    forgotten = ", ".join(map(iso_instant, instants)) or "none"
    print_rows([{"forgotten": window, "instants": forgotten} for window in args.windows], args, _FORGOTTEN)
    return 0


def _refuse_in_use(ledger: Ledger, window: str) -> None:
    if ledger.window_folders.publication(window) is not None:
        raise ConfigurationError(
            f"Window {window} is published: if you forget it, its rows no longer count, and the next run "
            "loads it again. Pass --force to do that."
        )
    for folder in ledger.window_folders.live(window):
        if (loading := folder.loading()) is not None:
            raise ConfigurationError(
                f"Window {window} may be loading at this moment: {loading}. If you forget it, what that run "
                "publishes won't count, though its rows may remain in a table. Clear or stop that run, make sure "
                "that its Spark application has ended, and then pass --force."
            )


@command
def list_files(args: Any) -> int:
    """Print one row per file of the published windows."""
    start_ms, end_ms = (None if given is None else parse_instant(given) for given in (args.start, args.end))
    found = stored_ledger(args).file_lists.between(start_ms, end_ms)
    rows = [{"window": window, "file": file} for window, files in found.items() for file in files]
    print_rows(rows, args, _FILES)
    return 0


@command
def forget_snapshots(args: Any) -> int:
    """Forget snapshots, and print one row for each."""
    forgotten = forgetting.forget_snapshots(stored_ledger(args), parse_instant(args.after))
    rows = [
        {"forgotten": entry.number, "at": iso_instant(entry.timestamp_ms), "as_of": entry.kind} for entry in forgotten
    ]
    print_rows(rows, args, _SNAPSHOTS)
    return 0


def require_windows(ledger: Ledger, windows: list[str], known: Collection[str]) -> None:
    """Refuse windows that don't exist.

    :raises ConfigurationError: naming the first one.
    """
    unknown = [window for window in windows if window not in known]
    if unknown:
        raise ConfigurationError(
            f"{ledger.uri} has no window {unknown[0]}. kafka-offsets ledger list {ledger.pipeline} "
            "shows the windows that it has."
        )


def _summary_row(ledger: Ledger, window: WindowSummary) -> Row:
    return {
        "window": window.window,
        "revision": window.revision,
        "start": iso_instant(window.start_ms),
        "end": iso_instant(window.end_ms),
        "state": str(window.state),
        "offsets": window.offsets,
        "lost": window.lost_offsets,
        **row_of(window, "rows", "attempts", "output"),
        "manifest": ledger.window_folders.folder(window.window, window.revision).manifest_uri,
        "sha256": window.sha256,
    }


def _range_rows(pinned: PinnedManifest) -> list[Row]:
    return [
        {"topic": pinned_range.topic} | range_row(pinned_range) | {"manifest": pinned.uri, "sha256": pinned.sha256}
        for pinned_range in pinned.manifest.ranges
    ]
