"""``airflow kafka-offsets ledger …``: what a pipeline's ledger says, and what keeps it in order."""

from __future__ import annotations

import getpass
from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.printing import command, print_rows
from airflow_kafka_offsets.cli.tables import Column, Row, every_column
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.future_snapshots import forget_after
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.snapshot_index import Entry
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.whereabouts import find
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms, parse_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import revisions_of

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
_CLAIMS = (Column("claim"), Column("window", unless=(None,)), Column("holds"), Column("found", folds=True))
_FILES = (Column("window"), Column("file", folds=True))
_FORGOTTEN = (Column("forgotten"), Column("instants", folds=True))
_SNAPSHOTS = (Column("forgotten"), Column("at"), Column("as_of", "as of"))


@command
def list_windows(args: Any) -> int:
    """A row a window."""
    ledger = stored_ledger(args)
    print_rows([_row(ledger, each) for each in ledger.summaries()], args, _WINDOWS)
    return 0


@command
def show_window(args: Any) -> int:
    """A row a partition."""
    ledger = stored_ledger(args)
    names = [folder.id for folder in ledger.windows()]
    if not names:
        raise ConfigurationError(f"{ledger.uri} has no window yet.")
    window = args.window or names[-1]
    require_windows(ledger, [window], names)
    known = [each.revision for each in ledger.window_folders.live(window)]
    if args.revision is not None and args.revision not in known:
        raise ConfigurationError(
            f"Window {window} has no revision {args.revision}; it has {', '.join(map(str, known)) or 'none'}."
        )
    print_rows(list(_ranges(ledger.pinned(window, args.revision))), args, _RANGES)
    return 0


@command
def verify_ledger(args: Any) -> int:
    """A row a claim."""
    claims = verify(stored_ledger(args), full=args.full)
    print_rows([asdict(each) for each in claims], args, _CLAIMS)
    told = ("hole",) if args.on_hole == "warn" else ()
    return 0 if all(each.holds or each.claim in told for each in claims) else 1


@command
def find_record(args: Any) -> int:
    """One row: where a record is."""
    ledger = stored_ledger(args)
    found = find(ledger, args.topic, args.partition, args.offset)
    windows = ledger.windows()
    topics = ledger.pinned(windows[-1].id).manifest.topics if windows and found.window is None else {}
    if topics and args.topic not in topics:
        raise ConfigurationError(f"{ledger.uri} has no topic {args.topic!r}; it has {', '.join(sorted(topics))}.")
    record = {"topic": args.topic, "partition": args.partition, "offset": args.offset}
    print_rows([record | asdict(found)], args, every_column([record | asdict(found)]), single=True)
    return 0 if found.window is not None else 1


@command
def forget_windows(args: Any) -> int:
    """A row a window that doesn't count any more."""
    ledger = stored_ledger(args)
    require_windows(ledger, args.windows, revisions_of(ledger.window_folders.names()))
    if not args.force:
        for each in args.windows:
            _refuse_in_use(ledger, each)
    instants = ledger.forget(args.windows, f"{getpass.getuser()} at {iso_instant(now_ms())}")
    forgotten = ", ".join(map(iso_instant, instants)) or "none: other windows share them"
    print_rows([{"forgotten": each, "instants": forgotten} for each in args.windows], args, _FORGOTTEN)
    return 0


def _refuse_in_use(ledger: Ledger, window: str) -> None:
    if ledger.window_folders.published(window) is not None:
        raise ConfigurationError(
            f"Window {window} is published: forgotten, its rows count no more, and the next run loads it again. Pass "
            "--force if that is meant."
        )
    for folder in ledger.window_folders.live(window):
        if (loading := folder.loading()) is not None:
            raise ConfigurationError(
                f"Window {window} may be loading at this moment: {loading}. Once it is forgotten, what that publishes "
                "counts nowhere, though its rows may stand in a table. Clear or end that run, and see that its Spark "
                "application is gone; --force forgets the window then."
            )


@command
def list_files(args: Any) -> int:
    """A row a file of the published windows."""
    start_ms, end_ms = (None if each is None else parse_instant(each) for each in (args.start, args.end))
    found = stored_ledger(args).file_lists.between(start_ms, end_ms)
    rows = [{"window": window, "file": each} for window, files in found.items() for each in files]
    print_rows(rows, args, _FILES)
    return 0


@command
def forget_snapshots(args: Any) -> int:
    """A row a snapshot that doesn't count any more."""
    forgotten = forget_after(stored_ledger(args), parse_instant(args.after))
    print_rows([_entry_row(each) for each in forgotten], args, _SNAPSHOTS)
    return 0


def require_windows(ledger: Ledger, windows: list[str], known: Collection[str]) -> None:
    """Make sure that windows exist.

    :raises ConfigurationError: naming one that doesn't.
    """
    unknown = [each for each in windows if each not in known]
    if unknown:
        raise ConfigurationError(
            f"{ledger.uri} has no window {unknown[0]}: airflow kafka-offsets ledger list {ledger.pipeline} "
            "shows those that it has."
        )


def _row(ledger: Ledger, each: WindowSummary) -> Row:
    return {
        "window": each.window,
        "revision": each.revision,
        "start": iso_instant(each.start_ms),
        "end": iso_instant(each.end_ms),
        "state": str(each.state),
        "offsets": each.offsets,
        "lost": each.lost_offsets,
        "rows": each.rows,
        "attempts": each.attempts,
        "output": each.output,
        "manifest": ledger.window_folders.revision(each.window, each.revision).manifest_uri,
        "sha256": each.sha256,
    }


def _entry_row(each: Entry) -> Row:
    return {"forgotten": each.number, "at": iso_instant(each.timestamp_ms), "as_of": each.kind}


def _ranges(pinned: PinnedManifest) -> Iterator[Row]:
    for each in pinned.manifest.ranges:
        yield {
            "topic": each.topic,
            "partition": each.partition,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "offsets": each.span,
            "lost": each.lost_offsets,
            "start_evidence": str(each.start_evidence),
            "end_evidence": str(each.end_evidence),
            "manifest": pinned.uri,
            "sha256": pinned.sha256,
        }
