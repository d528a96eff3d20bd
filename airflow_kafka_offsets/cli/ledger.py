"""``airflow kafka-offsets ledger …``: what a pipeline's ledger says, and what keeps it in order."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.cli.connections import stored_ledger
from airflow_kafka_offsets.cli.printing import command, print_rows
from airflow_kafka_offsets.cli.tables import Column, Row, every_column
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.whereabouts import find
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.manifest import Manifest

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
_FORGOTTEN = (Column("forgotten"), Column("instants", folds=True))


@command
def list_windows(args: Any) -> int:
    """A row a window."""
    print_rows([_row(each) for each in stored_ledger(args).summaries()], args, _WINDOWS)
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
    print_rows(list(_ranges(ledger.pinned(window, args.revision).manifest)), args, _RANGES)
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
    require_windows(ledger, args.windows, [folder.id for folder in ledger.windows()])
    published = [each for each in args.windows if ledger.window_folders.published(each) is not None]
    if published and not args.force:
        raise ConfigurationError(
            f"Window {published[0]} is published: forgotten, its rows count no more, and the next run loads it again. "
            "Pass --force if that is meant."
        )
    instants = ledger.forget(args.windows, f"{getpass.getuser()} at {iso_instant(now_ms())}")
    forgotten = ", ".join(map(iso_instant, instants)) or "none: other windows share them"
    print_rows([{"forgotten": each, "instants": forgotten} for each in args.windows], args, _FORGOTTEN)
    return 0


def require_windows(ledger: Ledger, windows: list[str], known: list[str]) -> None:
    """Make sure that windows exist.

    :raises ConfigurationError: naming one that doesn't.
    """
    unknown = [each for each in windows if each not in known]
    if unknown:
        raise ConfigurationError(f"{ledger.uri} has no window {unknown[0]}; see ledger list.")


def _row(each: WindowSummary) -> Row:
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
    }


def _ranges(manifest: Manifest) -> Iterator[Row]:
    for each in manifest.ranges:
        yield {
            "topic": each.topic,
            "partition": each.partition,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "offsets": each.span,
            "lost": each.lost_offsets,
            "start_evidence": str(each.start_evidence),
            "end_evidence": str(each.end_evidence),
        }
