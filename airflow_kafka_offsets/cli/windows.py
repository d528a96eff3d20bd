"""``airflow kafka-offsets ledger resolve``: windows pinned ahead of their runs, many at once; or one of them anew."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from airflow_kafka_offsets.arguments import as_topics
from airflow_kafka_offsets.cli.connections import kafka_client, new_ledger, stored_ledger
from airflow_kafka_offsets.cli.ledger import require_windows
from airflow_kafka_offsets.cli.printing import command, print_rows, with_progress
from airflow_kafka_offsets.cli.tables import Column, Row
from airflow_kafka_offsets.errors import ClusterError, KafkaOffsetsError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.leftovers import telling_leftovers
from airflow_kafka_offsets.ledger.pinning import Pinning
from airflow_kafka_offsets.offsets.instants import now_ms, parse_instant
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.boundaries import refuse_future
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent, window_id
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
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
    """A row a window, from a start to an end, as a schedule cuts it."""
    interval = RunInterval(parse_instant(args.start), parse_instant(args.end))
    refuse_future(interval.end_ms, now_ms(), "Give --end a tick that has passed.")
    instants = ticks(args.cron, args.timezone, interval.start_ms, interval.end_ms)
    topics = as_topics(args.topics, args.topic_pattern)
    level, policies = (
        IsolationLevel.of(args.isolation),
        Policies(args.on_data_loss, args.on_future_record, args.on_overlap),
    )
    ledger = new_ledger(args.ledger, args.pipeline)
    with kafka_client(args) as client, telling_leftovers(ledger, _ANOTHER_PIPELINE):
        pinner = WindowPinner(client, ledger, topics, level, policies)
        snapshots = with_progress(pinner.maker.snapshots(instants), "windows", len(instants))
        pinning = pinner.pinning()
        try:
            pinned = [_pin(pinner, ledger, pinning, *each) for each in pairwise(snapshots)]
        finally:
            refused = pinning.settle()
    rows = [_refused(name, refused[name]) if (name := row["window"]) in refused else row for row in pinned]
    print_rows(rows, args, _COLUMNS)
    return 1 if any(row["error"] for row in rows) else 0


@command
def re_resolve_windows(args: Any) -> int:
    """A row a window, resolved anew."""
    ledger = stored_ledger(args)
    require_windows(ledger, args.windows, [folder.id for folder in ledger.windows()])
    manifests = [ledger.pinned(each).manifest for each in args.windows]
    topics = sorted({topic for each in manifests for topic in each.topics})
    policies = Policies(args.on_data_loss, args.on_future_record, args.on_overlap)
    with kafka_client(args) as client, telling_leftovers(ledger, _ANOTHER_PIPELINE):
        pinner = WindowPinner(client, ledger, topics, manifests[0].isolation_level, policies)
        resolved = pinner.re_resolve(*map(window_extent, args.windows))
    revisions = [each.revision for each in manifests]
    print_rows([_row(each, before) for each, before in zip(resolved, revisions, strict=True)], args, _COLUMNS)
    return 0


def _pin(pinner: WindowPinner, ledger: Ledger, pinning: Pinning, start: OffsetSnapshot, end: OffsetSnapshot) -> Row:
    """A window that can't be pinned doesn't sink the others; a cluster that can't be asked concerns all of them."""
    try:
        with telling_leftovers(ledger, _ANOTHER_PIPELINE):
            return _row(pinner.pinned_by(pinning, start, end))
    except ClusterError:
        raise
    except KafkaOffsetsError as error:
        return _refused(window_id(start.timestamp_ms, end.timestamp_ms), error)


def _refused(window: str, error: KafkaOffsetsError) -> Row:
    return {"window": window, "revision": None, "offsets": None, "lost": None, "remark": None, "error": str(error)}


def _row(resolved: ResolvedWindow, before: int = 0) -> Row:
    """A row; ``before`` is the window's revision until now."""
    manifest, remarks = resolved.pinned.manifest, resolved.remarks
    if manifest.revision == before:
        remarks = ("unchanged: other windows share its instants, or nothing else was found", *remarks)
    return {
        "window": manifest.window,
        "revision": manifest.revision,
        "offsets": manifest.span,
        "lost": manifest.lost_offsets,
        "remark": " ".join(remarks) or None,
        "error": None,
    }
