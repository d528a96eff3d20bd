"""``kafka-offsets ledger resolve``, ``re-resolve`` and ``publish``: the ledger commands that ask Kafka."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.arguments import as_topics
from airflow_kafka_offsets.cli.connections import kafka_client, new_ledger, stored_ledger
from airflow_kafka_offsets.cli.ledger import require_windows
from airflow_kafka_offsets.cli.printing import Column, Row, command, every_column, print_rows, with_progress
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ClusterError, ConfigurationError, KafkaOffsetsError, LedgerError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.leftovers import telling_leftovers
from airflow_kafka_offsets.ledger.pinning import Pinning
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.instants import now_ms, parse_instant
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.boundaries import refuse_future
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent, window_id
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.pipelines.publisher import (
    CountedAttempt,
    counted_attempt,
    handed_over,
    left_to_publish,
    publish,
    take_over,
)
from airflow_kafka_offsets.pipelines.snapshot_maker import SnapshotMaker
from airflow_kafka_offsets.pipelines.window_pinner import Policies, ResolvedWindow, WindowPinner
from airflow_kafka_offsets.runs.interval import RunInterval
from airflow_kafka_offsets.runs.schedule import ticks

_COLUMNS = (
    Column("window"),
    Column("revision", "rev", unless=(1, None)),
    Column("offsets"),
    Column("lost", unless=(0, None)),
    Column("remark", folds=True, unless=(None,)),
    Column("error", folds=True, unless=(None,)),
)
_ANOTHER_PIPELINE = "name another PIPELINE in this command, and as the Dag's pipeline="


@command
def resolve_windows(args: Any) -> int:
    """Pin the windows of a schedule from a start to an end, and print one row per window."""
    interval = RunInterval(parse_instant(args.start), parse_instant(args.end))
    refuse_future(interval.end_ms, now_ms(), "Give a past tick as --end.")
    instants = ticks(args.cron, args.timezone, interval.start_ms, interval.end_ms)
    topics = as_topics(args.topics, args.topic_pattern)
    level, policies = IsolationLevel.of(args.isolation), _policies(args)
    ledger = new_ledger(args.ledger, args.pipeline)
    with kafka_client(args) as client, telling_leftovers(ledger, _ANOTHER_PIPELINE):
        maker = SnapshotMaker(client, ledger, topics, level, args.on_future_record)
        pinner = WindowPinner(maker, policies)
        snapshots = with_progress(maker.snapshots(instants), "windows", len(instants))
        pinning = Pinning(ledger, policies.on_overlap)
        try:
            pinned = [_pin(pinner, ledger, pinning, *ends) for ends in pairwise(snapshots)]
        finally:
            refused = pinning.settle()
    rows = [_refused(name, refused[name]) if (name := row["window"]) in refused else row for row in pinned]
    print_rows(rows, args, _COLUMNS)
    return 1 if any(row["error"] for row in rows) else 0


@command
def re_resolve_windows(args: Any) -> int:
    """Resolve windows again, and print one row per window."""
    ledger = stored_ledger(args)
    require_windows(ledger, args.windows, ledger.window_folders.index().live)
    # What counted before: a newer revision that isn't settled is what an interrupted command has left.
    manifests = [(ledger.settled(window) or ledger.pinned(window)).manifest for window in args.windows]
    topics = sorted({topic for manifest in manifests for topic in manifest.topics})
    with kafka_client(args) as client, telling_leftovers(ledger, _ANOTHER_PIPELINE):
        maker = SnapshotMaker(client, ledger, topics, manifests[0].isolation_level, args.on_future_record)
        pinner = WindowPinner(maker, _policies(args))
        resolved = pinner.re_resolve(*map(window_extent, args.windows))
    rows = [_row(now, before.revision) for now, before in zip(resolved, manifests, strict=True)]
    print_rows(rows, args, _COLUMNS)
    return 0


def _policies(args: Any) -> Policies:
    return Policies(on_data_loss=args.on_data_loss, on_overlap=args.on_overlap)


def _pin(pinner: WindowPinner, ledger: Ledger, pinning: Pinning, start: OffsetSnapshot, end: OffsetSnapshot) -> Row:
    """Pin one window. An error of this window alone becomes its row; an error of the cluster ends the command."""
    try:
        with telling_leftovers(ledger, _ANOTHER_PIPELINE):
            return _row(pinner.pin_between(start, end, pinning))
    except ClusterError:
        raise
    except KafkaOffsetsError as error:
        return _refused(window_id(start.timestamp_ms, end.timestamp_ms), error)


def _refused(window: str, error: KafkaOffsetsError) -> Row:
    return dict.fromkeys(column.name for column in _COLUMNS) | {"window": window, "error": str(error)}


def _row(resolved: ResolvedWindow, before: int = 0) -> Row:
    """A window's row; ``before`` is the revision that it had before."""
    manifest, remarks = resolved.pinned.manifest, resolved.warnings
    if manifest.revision == before:
        remarks = ("unchanged: other windows share its instants, or Kafka's answer is the same", *remarks)
    return {
        "window": manifest.window,
        "revision": manifest.revision,
        "offsets": manifest.span,
        "lost": manifest.lost_offsets,
        "remark": " ".join(remarks) or None,
        "error": None,
    }


@command
def publish_window(args: Any) -> int:
    """Publish a window, and print the publication that counts."""
    ledger = stored_ledger(args)
    require_windows(ledger, [args.window], ledger.window_folders.index().live)
    with kafka_client(args) as client:
        counted = _counted(client, ledger, args)
        found = publish(client, ledger, counted)
    row = {
        "window": args.window,
        "revision": found.revision,
        "published": found.attempt,
        "rows": found.rows,
        "output": found.output,
        "verdict": str(counted.verdict) if found.attempt == counted.result.attempt else None,
    }
    print_rows([row], args, every_column([row]), single=True)
    return 0


def _counted(client: OffsetsClient, ledger: Ledger, args: Any) -> CountedAttempt:
    if args.attempt is not None and args.result is None:
        return _named(ledger, args.window, args.attempt)
    # A newer revision that isn't settled may be taken back.
    wanted = ledger.settled(args.window) or ledger.pinned(args.window)
    if args.result is None:
        left = left_to_publish(ledger, wanted, lambda *_: True)
        if left is None:
            raise _nothing_to_publish(ledger, wanted)
        return left
    result = _read(args.result)
    read = [pinned for pinned in ledger.revisions(args.window, wanted) if pinned.sha256 == result.manifest_sha256]
    return take_over(client, ledger, read[0] if read else wanted, result)


def _nothing_to_publish(ledger: Ledger, wanted: PinnedManifest) -> LedgerError:
    window, revision = wanted.manifest.window, wanted.manifest.revision
    counted = _with_result(ledger, ledger.revisions(window, wanted))
    if not counted:
        return LedgerError(f"Nothing has loaded window {window} yet: no attempt has counted it. Run its load first.")
    return LedgerError(
        f"None of the attempts at window {window} that have counted ({shorten(counted)}) is proved and would count for "
        f"revision {revision}. Load it again, or name an attempt with --attempt to see what it lacks."
    )


def _with_result(ledger: Ledger, revisions: Iterable[PinnedManifest]) -> list[str]:
    return [name for revision in revisions for name in ledger.window_folders.of(revision).listing().results]


def _named(ledger: Ledger, window: str, attempt: str) -> CountedAttempt:
    """A named attempt, at any revision of a window that counts."""
    revisions = ledger.revisions(window)
    for revision in revisions:
        found = counted_attempt(ledger, revision, attempt)
        if found is not None:
            return found
    raise ConfigurationError(
        f"Attempt {attempt} at window {window} has no result. Attempts with a result: "
        f"{shorten(_with_result(ledger, revisions))}."
    )


def _read(place: str) -> RunResult:
    try:
        text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
        fields = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--result {place} can't be read as JSON: {error}.") from error
    return handed_over(fields, f"--result {place}")
