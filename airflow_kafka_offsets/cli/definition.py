"""The commands and their arguments, as Airflow's command line reads them. Imports nothing heavy: it always runs."""

from __future__ import annotations

import argparse

from airflow.cli.cli_config import ARG_OUTPUT, ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

_CONN_ID = Arg(
    ("--conn-id",),
    help="Connection id, of type kafka or kafka_offsets; default: kafka_default",
    default="kafka_default",
)
_ISOLATION = Arg(
    ("--isolation",),
    help="Where the log ends: before the first open transaction (read_committed, the default) or not",
    choices=("read_committed", "read_uncommitted"),
    default="read_committed",
)
_LEDGER = Arg(("--ledger",), help="Folder of all ledgers; default: the setting ledger_root of section kafka_offsets")
_PIPELINE = Arg(("pipeline",), help="The pipeline's name")


def partition_numbers(text: str) -> list[int]:
    """Read ``0,2-5``."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise argparse.ArgumentTypeError(f"partitions look like 0,2-5; not {text!r}")
        numbers.update(range(int(first), int(last or first) + 1))
    return sorted(numbers)


_PARTITIONS = Arg(("--partitions",), help="Only these, for example 0,2-5", type=partition_numbers)


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its commands."""
    return [
        GroupCommand(
            name="kafka-offsets",
            help="List Kafka offsets and lag, reset groups, and look into ledgers",
            subcommands=(_LIST, _LAG, _RESET, _LEDGER_GROUP),
        )
    ]


_LIST = ActionCommand(
    name="list",
    help="List offsets of topics, a row a partition",
    func=lazy_load_command("airflow_kafka_offsets.cli.offsets.list_offsets"),
    args=(
        Arg(("topics",), help="Topic names", nargs="+", metavar="TOPIC"),
        Arg(
            ("--at",),
            help="latest (default), earliest, max-timestamp, earliest-local, latest-tiered, or an instant in ISO-8601 "
            "with a zone: the first record at or after it",
            default="latest",
        ),
        _PARTITIONS,
        _ISOLATION,
        _CONN_ID,
        ARG_OUTPUT,
    ),
)
_LAG = ActionCommand(
    name="lag",
    help="Measure the lag of consumer groups, a row a partition",
    func=lazy_load_command("airflow_kafka_offsets.cli.lag.lag"),
    args=(
        Arg(("groups",), help="Group ids", nargs="*", metavar="GROUP"),
        Arg(("--all-groups",), help="Every group of the cluster", action="store_true"),
        Arg(("--topics",), help="Judge these topics alone; write them after the groups", nargs="+", metavar="TOPIC"),
        _ISOLATION,
        _CONN_ID,
        ARG_OUTPUT,
    ),
)
_RESET = ActionCommand(
    name="reset",
    help="Show where a group's commits would go, and write them with --execute",
    func=lazy_load_command("airflow_kafka_offsets.cli.reset.reset"),
    args=(
        Arg(("group",), help="Group id"),
        Arg(
            ("--topics",),
            help="These topics, all partitions; default: the topics that the group has commits on",
            nargs="+",
            metavar="TOPIC",
        ),
        _PARTITIONS,
        Arg(("--to",), help="earliest, latest, or an instant in ISO-8601 with a zone: the first record at or after it"),
        Arg(("--to-offset",), help="This offset on every partition", type=int, metavar="OFFSET"),
        Arg(("--shift-by",), help="So many offsets on; negative goes back", type=int, metavar="COUNT"),
        Arg(
            ("--to-snapshot",),
            help="A snapshot of a pipeline's ledger, by its number; see --ledger",
            metavar="PIPELINE:NUMBER",
        ),
        Arg(("--forget",), help="Forget the commits", action="store_true"),
        Arg(("--execute",), help="Write it; without this nothing is changed", action="store_true"),
        Arg(("--new-group",), help="Create the group when there is none of that name", action="store_true"),
        _LEDGER,
        _ISOLATION,
        _CONN_ID,
        ARG_OUTPUT,
    ),
)
_LEDGER_GROUP = GroupCommand(
    name="ledger",
    help="Look into a pipeline's ledger; Kafka isn't asked",
    subcommands=(
        ActionCommand(
            name="list",
            help="Windows with state and totals",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.list_windows"),
            args=(_PIPELINE, _LEDGER, ARG_OUTPUT),
        ),
        ActionCommand(
            name="show",
            help="One window's ranges and their evidence",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.show_window"),
            args=(
                _PIPELINE,
                Arg(("window",), help="The window's name; the newest by default", nargs="?"),
                _LEDGER,
                ARG_OUTPUT,
            ),
        ),
        ActionCommand(
            name="verify",
            help="Tiling and counts over all windows",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.verify"),
            args=(_PIPELINE, _LEDGER, ARG_OUTPUT),
        ),
    ),
)
