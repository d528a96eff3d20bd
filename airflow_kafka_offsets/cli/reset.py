"""``kafka-offsets reset``: shows where a group's commits would go, and writes them with ``--execute``."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client, stored_ledger
from airflow_kafka_offsets.cli.instants import place
from airflow_kafka_offsets.cli.ledger import named_windows
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_remark, print_rows, row_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.groups.resets import ResetPlan, ResetStep
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.pipelines.resetter import Resetter, Target, members_of

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
    target = _target(args)
    with kafka_client(args) as client:
        resetter = Resetter(client, args.group, args.topics, IsolationLevel.of(args.isolation), args.backwards)
        plan = resetter.plan(target)
        print_rows([_row(step) for step in plan], args, _COLUMNS)
        if args.execute:
            resetter.execute(plan, new_group=args.new_group)
            print_remark(f"group {args.group}: commits on {len(plan.commits())} of {len(plan)} partitions written.")
        else:
            print_remark(f"nothing was changed: {_what_next(resetter, plan)}.")
    return 1 if len(plan.errors()) else 0


def _target(args: Any) -> Target:
    if (args.to is None) == (args.to_window is None):
        raise ConfigurationError("Say where the group goes with --to or --to-window: exactly one of them.")
    if args.to is not None:
        return place(args.to)
    pipeline, colon, window = args.to_window.partition(":")
    if bool(colon) == (args.at is not None):
        raise ConfigurationError(
            f"--to-window takes PIPELINE:WINDOW, or PIPELINE with --at for the window at a time; not {args.to_window!r}"
            f"{' with --at' if args.at is not None else ' alone'}."
        )
    ledger = stored_ledger(args, pipeline)
    (name,) = named_windows(ledger, [window] if colon else [], [] if colon else [args.at])
    return FixedOffsets.of_window_end(ledger.pinned(ledger.window(name)).manifest)


def _what_next(resetter: Resetter, plan: ResetPlan) -> str:
    described = resetter.describe()
    if why := members_of(described):
        return f"the group {why}, which have to be stopped first"
    if len(plan.errors()):
        return "nor would --execute change anything, because some partitions are in error"
    if described.no_such_group:
        return "there is no such group: check its name, or create it by --execute with --new-group"
    return "add --execute to write this"


def _row(step: ResetStep) -> Row:
    moved = None if None in (step.committed_offset, step.new_offset) else step.new_offset - step.committed_offset  # type: ignore[operator]
    row = row_of(step, "topic", "partition", "committed_offset", "new_offset") | {"moves_by": moved}
    return row | row_of(step, "leader_epoch") | {"remark": step.remark or None} | row_of(step, "error")
