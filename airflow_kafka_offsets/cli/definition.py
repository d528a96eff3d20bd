"""The commands and their arguments, as Airflow's command line reads them. Imports nothing heavy: it always runs."""

from __future__ import annotations

import argparse

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

_SHOWN = (
    ARG_OUTPUT,
    Arg(("--wide",), help="All fields in the table; JSON and YAML have them anyway", action="store_true"),
    ARG_VERBOSE,
)
_CONN_ID = Arg(
    ("--conn-id",),
    help="Connection id, of type kafka or kafka_offsets; default: kafka_default",
    default="kafka_default",
)
_ISOLATION = Arg(
    ("--isolation",),
    help="Where the log ends: before the first open transaction (read_committed, the default), or at its last record",
    choices=("read_committed", "read_uncommitted"),
    default="read_committed",
)
_LEDGER = Arg(("--ledger",), help="Folder of all ledgers; default: the setting ledger_root of section kafka_offsets")
_WINDOWS = Arg(("windows",), help="Names of windows, as ledger list shows them", nargs="+", metavar="WINDOW")
_POLICIES = (
    Arg(
        ("--on-data-loss",),
        help="Records of a window are gone: fail (default), or load_rest: pin the rest, note the loss",
        choices=("fail", "load_rest"),
        default="fail",
    ),
    Arg(
        ("--on-future-record",),
        help="A record from the future stands at a boundary: fail (default) or warn",
        choices=("fail", "warn"),
        default="fail",
    ),
)
_ON_OVERLAP = Arg(
    ("--on-overlap",),
    help="Another window has some of a window's offsets: fail (default), or allow: pin it anyway",
    choices=("fail", "allow"),
    default="fail",
)
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
        Arg(
            ("--segments",),
            help="Where log segments start that were written before --at, newest first (ListOffsets version 0: brokers "
            "before Kafka 4.0)",
            action="store_true",
        ),
        _ISOLATION,
        _CONN_ID,
        *_SHOWN,
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
        Arg(
            ("--zookeeper",),
            help="By the commits that the groups keep in ZooKeeper, on --topics (OffsetFetch version 0: brokers before "
            "Kafka 4.0)",
            action="store_true",
        ),
        _ISOLATION,
        _CONN_ID,
        *_SHOWN,
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
        Arg(("--shift-by",), help="Move by this many offsets; negative goes back", type=int, metavar="COUNT"),
        Arg(
            ("--to-snapshot",),
            help="A snapshot of a pipeline's ledger, by its number; see --ledger",
            metavar="PIPELINE:NUMBER",
        ),
        Arg(("--forget",), help="Forget the commits", action="store_true"),
        Arg(("--execute",), help="Write it; without this nothing is changed", action="store_true"),
        Arg(("--new-group",), help="Create the group if there is none with that name", action="store_true"),
        _LEDGER,
        _ISOLATION,
        _CONN_ID,
        *_SHOWN,
    ),
)
_LEDGER_GROUP = GroupCommand(
    name="ledger",
    help="Look into a pipeline's ledger, and keep it in order",
    subcommands=(
        ActionCommand(
            name="list",
            help="Windows with state and totals",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.list_windows"),
            args=(_PIPELINE, _LEDGER, *_SHOWN),
        ),
        ActionCommand(
            name="show",
            help="One window's ranges and their evidence",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.show_window"),
            args=(
                _PIPELINE,
                Arg(("window",), help="The window's name; the newest by default", nargs="?"),
                Arg(("--revision",), help="Which revision; the newest by default", type=int),
                _LEDGER,
                *_SHOWN,
            ),
        ),
        ActionCommand(
            name="verify",
            help="Hashes, states, counts and tiling over all windows",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.verify_ledger"),
            args=(
                _PIPELINE,
                Arg(("--full",), help="Also read again what was proved before", action="store_true"),
                Arg(
                    ("--on-hole",),
                    help="Offsets between published windows that are in none: fail (default), or warn: report them and "
                    "exit 0, for example while a backfill is half done",
                    choices=("fail", "warn"),
                    default="fail",
                ),
                _LEDGER,
                *_SHOWN,
            ),
        ),
        ActionCommand(
            name="find",
            help="Which window, run and output a record is in",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.find_record"),
            args=(
                _PIPELINE,
                Arg(("topic",), help="Topic name"),
                Arg(("partition",), help="Partition number", type=int),
                Arg(("offset",), help="The record's offset", type=int),
                _LEDGER,
                *_SHOWN,
            ),
        ),
        ActionCommand(
            name="files",
            help="Files of the published windows, for engines that don't know the ledger",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.list_files"),
            args=(
                _PIPELINE,
                Arg(("--start",), help="Only windows from this instant on, ISO-8601 with a zone"),
                Arg(("--end",), help="Only windows up to this instant, ISO-8601 with a zone"),
                _LEDGER,
                *_SHOWN,
            ),
        ),
        ActionCommand(
            name="resolve",
            help="Pin all windows of a schedule between two instants, before a backfill; asks Kafka",
            func=lazy_load_command("airflow_kafka_offsets.cli.windows.resolve_windows"),
            args=(
                _PIPELINE,
                Arg(("--topics",), help="The pipeline's topics", nargs="+", metavar="TOPIC"),
                Arg(("--topic-pattern",), help="Instead: a regular expression that whole names of topics match"),
                Arg(("--start",), help="First tick, ISO-8601 with a zone", required=True),
                Arg(("--end",), help="Last tick, ISO-8601 with a zone", required=True),
                Arg(("--cron",), help="The schedule that cuts the time into windows", required=True),
                Arg(("--timezone",), help="The schedule's time zone; default: UTC", default="UTC"),
                *_POLICIES,
                _ON_OVERLAP,
                _LEDGER,
                _ISOLATION,
                _CONN_ID,
                *_SHOWN,
            ),
        ),
        ActionCommand(
            name="re-resolve",
            help="Resolve windows again, as their next revisions; asks Kafka",
            func=lazy_load_command("airflow_kafka_offsets.cli.windows.re_resolve_windows"),
            args=(_PIPELINE, _WINDOWS, *_POLICIES, _ON_OVERLAP, _LEDGER, _CONN_ID, *_SHOWN),
        ),
        ActionCommand(
            name="publish",
            help="Publish a window that a driver has loaded and counted, and nobody has published; asks Kafka",
            func=lazy_load_command("airflow_kafka_offsets.cli.publish.publish_window"),
            args=(
                _PIPELINE,
                Arg(("window",), help="The window's name, as ledger list shows it"),
                Arg(("--attempt",), help="Which attempt; default: the one that counted last and is proved"),
                Arg(
                    ("--result",),
                    help="File with the JSON that PinnedWindow.write(...).to_json() gave, where the driver doesn't "
                    "reach the ledger; - for standard input",
                    metavar="FILE",
                ),
                _LEDGER,
                _CONN_ID,
                *_SHOWN,
            ),
        ),
        ActionCommand(
            name="forget",
            help="Stop windows from counting, so that the next run resolves them again",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.forget_windows"),
            args=(
                _PIPELINE,
                _WINDOWS,
                Arg(
                    ("--force",),
                    help="Published ones too, and those that a Spark run may be loading",
                    action="store_true",
                ),
                _LEDGER,
                *_SHOWN,
            ),
        ),
        ActionCommand(
            name="forget-snapshots",
            help="Take back what a machine with a clock that was ahead stored; refused if windows were made from it",
            func=lazy_load_command("airflow_kafka_offsets.cli.ledger.forget_snapshots"),
            args=(
                _PIPELINE,
                Arg(
                    ("--after",),
                    help="Snapshots that stand after this time, ISO-8601 with a zone",
                    required=True,
                    metavar="INSTANT",
                ),
                _LEDGER,
                *_SHOWN,
            ),
        ),
    ),
)
