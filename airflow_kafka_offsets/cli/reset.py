"""``kafka-offsets reset``: shows where a group's commits would go, and writes them with ``--execute``."""

from __future__ import annotations

import sys
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client, new_ledger
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_rows, printable, row_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.groups.resets import ResetPlan, ResetStep
from airflow_kafka_offsets.offsets.instants import iso_instant, parse_instant
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.pipelines.resetter import Destination, Resetter

_COLUMNS = (
    Column("topic", folds=True),
    Column("partition", "part"),
    Column("committed_offset", "committed"),
    Column("new_offset", "new"),
    Column("moves_by", "by"),
    Column("remark", folds=True, unless=(None,)),
    Column("error", folds=True, unless=(None,)),
)


@command
def reset(args: Any) -> int:
    """Print one row per partition, and a line on stderr that says what was done."""
    destination = Destination(
        spec=None if args.to is None else OffsetSpec.parse(args.to),
        shift_by=args.shift_by,
        offset=args.to_offset,
        snapshot=None if args.to_snapshot is None else _snapshot(args.ledger, args.to_snapshot),
        nothing=args.delete_offsets,
    )
    with kafka_client(args) as client:
        resetter = Resetter(
            client,
            args.group,
            topics=args.topics,
            numbers=args.partitions,
            isolation_level=IsolationLevel.of(args.isolation),
        )
        plan = resetter.plan(destination)
        print_rows([_row(step) for step in plan], args, _COLUMNS)
        if args.execute:
            resetter.execute(plan, new_group=args.new_group)
            done = "deleted" if args.delete_offsets else "written"
            _say(f"Group {args.group}: commits on {len(plan)} partitions {done}.")
        else:
            _say(_dry_run(resetter, plan))
    return 1 if len(plan.errors()) else 0


def _dry_run(resetter: Resetter, plan: ResetPlan) -> str:
    described = resetter.describe()
    if described.members:
        return f"Nothing was changed. The group has {len(described.members)} active members now: stop them first."
    if described.may_have_members:
        return f"Nothing was changed. The {described.kind} group is {described.state}: stop its members first."
    if len(plan.errors()):
        return "Nothing was changed, and --execute would change nothing: some partitions are in error."
    if described.no_such_group:
        return "Nothing was changed. There is no such group; --execute with --new-group would create it."
    return "Nothing was changed: add --execute to write this."


def _snapshot(ledger_root: str | None, name: str) -> OffsetSnapshot:
    """The snapshot of a pipeline at an instant."""
    pipeline, _, instant = name.partition(":")
    if not instant:
        raise ConfigurationError(f"--to-snapshot takes PIPELINE:INSTANT, not {name!r}.")
    at_ms = parse_instant(instant)
    ledger = new_ledger(ledger_root, pipeline)
    if not ledger.exists:
        raise ConfigurationError(f"There is no ledger at {ledger.uri}.")
    stored = ledger.state.snapshots.get(at_ms)
    if stored is None:
        raise ConfigurationError(
            f"{ledger.uri} has no snapshot at {iso_instant(at_ms)}. Windows start and end at snapshots: kafka-offsets "
            f"ledger list {pipeline} shows them."
        )
    return ledger.contents.snapshot(stored.offsets)


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr)


def _row(step: ResetStep) -> Row:
    moved = None if None in (step.committed_offset, step.new_offset) else step.new_offset - step.committed_offset  # type: ignore[operator]
    row = row_of(step, "topic", "partition", "committed_offset", "new_offset") | {"moves_by": moved}
    return row | row_of(step, "leader_epoch") | {"remark": step.remark or None} | row_of(step, "error")
