"""``kafka-offsets ledger resolve``: pins all windows of a schedule between two of its ticks, as one step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from airflow_kafka_offsets.arguments import as_topics
from airflow_kafka_offsets.cli.connections import kafka_client, new_ledger
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_rows
from airflow_kafka_offsets.offsets.instants import now_ms, parse_instant
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.boundaries import refuse_future
from airflow_kafka_offsets.pipelines.resolver import ResolvedWindow, Resolver
from airflow_kafka_offsets.runs.interval import RunInterval
from airflow_kafka_offsets.runs.schedule import ticks

_COLUMNS = (Column("window"), Column("offsets"), Column("remark", folds=True, unless=(None,)))


@command
def resolve_windows(args: Any) -> int:
    """Pin the windows of a schedule from a start to an end, and print one row per window. Either all are pinned, or
    none."""
    interval = RunInterval(parse_instant(args.start), parse_instant(args.end))
    refuse_future(interval.end_ms, now_ms(), "Give a past tick as --end.")
    instants = ticks(args.cron, args.timezone, interval.start_ms, interval.end_ms)
    topics = as_topics(args.topics, args.topic_pattern)
    ledger = new_ledger(args.ledger, args.pipeline)
    with kafka_client(args) as client:
        resolver = Resolver(client, ledger, topics, IsolationLevel.of(args.isolation), args.on_future_record)
        resolved = resolver.windows(list(pairwise(instants)))
    print_rows([_row(each) for each in resolved], args, _COLUMNS)
    return 0


def _row(resolved: ResolvedWindow) -> Row:
    manifest = resolved.pinned.manifest
    return {
        "window": manifest.window,
        "offsets": manifest.span,
        "manifest": resolved.pinned.uri,
        "sha256": resolved.pinned.sha256,
        "remark": " ".join(resolved.warnings) or None,
    }
