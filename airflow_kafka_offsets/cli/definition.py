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
_PIPELINE = Arg(("pipeline",), help="The pipeline's name")


def _policy(flag: str, other: str, what: str) -> Arg:
    """An argument that is ``fail``, by default, or another word."""
    return Arg((flag,), help=what, choices=("fail", other), default="fail")


_POLICIES = (
    _policy(
        "--on-data-loss",
        "load_rest",
        "Records of a window are gone: fail (default), or load_rest: pin the rest and note the loss",
    ),
    _policy("--on-future-record", "warn", "A record from the future is at a boundary: fail (default) or warn"),
    _policy(
        "--on-overlap",
        "allow",
        "Another window has some of a window's offsets: fail (default), or allow: pin it anyway",
    ),
)


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


def _command(name: str, function: str, what: str, *args: Arg) -> ActionCommand:
    """A command, and the function of this folder that does it."""
    func = lazy_load_command(f"airflow_kafka_offsets.cli.{function}")
    return ActionCommand(name=name, help=what, func=func, args=(*args, *_SHOWN))


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its commands."""
    return [
        GroupCommand(
            name="kafka-offsets",
            help="List Kafka offsets and lag, reset groups, and look into ledgers",
            subcommands=(_LIST, _LAG, _RESET, _LEDGER_GROUP),
        )
    ]


_LIST = _command(
    "list",
    "offsets.list_offsets",
    "List offsets of topics, a row a partition",
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
)
_LAG = _command(
    "lag",
    "offsets.measure_lag",
    "Measure the lag of consumer groups, a row a partition",
    Arg(("groups",), help="Group ids", nargs="*", metavar="GROUP"),
    Arg(("--all-groups",), help="Every group of the cluster", action="store_true"),
    Arg(("--topics",), help="Judge only these topics; write them after the groups", nargs="+", metavar="TOPIC"),
    Arg(
        ("--zookeeper",),
        help="Use the commits that the groups keep in ZooKeeper, on --topics (OffsetFetch version 0: "
        "brokers before Kafka 4.0)",
        action="store_true",
    ),
    _ISOLATION,
    _CONN_ID,
)
_RESET = _command(
    "reset",
    "reset.reset",
    "Show where a group's commits would go, and write them with --execute",
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
)
_LEDGER_GROUP = GroupCommand(
    name="ledger",
    help="Look into a pipeline's ledger, and keep it in order",
    subcommands=(
        _command("list", "ledger.list_windows", "Windows with state and totals", _PIPELINE, _LEDGER),
        _command(
            "show",
            "ledger.show_window",
            "One window's ranges and their evidence",
            _PIPELINE,
            Arg(("window",), help="The window's name; the newest by default", nargs="?"),
            Arg(("--revision",), help="Which revision; the newest by default", type=int),
            _LEDGER,
        ),
        _command(
            "verify",
            "ledger.verify_ledger",
            "Hashes, states, counts and tiling over all windows",
            _PIPELINE,
            Arg(("--full",), help="Also read again what was proved before", action="store_true"),
            _policy(
                "--on-hole",
                "warn",
                "Offsets between published windows that are in none: fail (default), or warn: report them and exit "
                "0, for example while a backfill is half done",
            ),
            _LEDGER,
        ),
        _command(
            "find",
            "ledger.find_record",
            "Which window, run and output a record is in",
            _PIPELINE,
            Arg(("topic",), help="Topic name"),
            Arg(("partition",), help="Partition number", type=int),
            Arg(("offset",), help="The record's offset", type=int),
            _LEDGER,
        ),
        _command(
            "files",
            "ledger.list_files",
            "Files of the published windows, for engines that don't know the ledger",
            _PIPELINE,
            Arg(("--start",), help="Only windows from this instant on, ISO-8601 with a zone"),
            Arg(("--end",), help="Only windows up to this instant, ISO-8601 with a zone"),
            _LEDGER,
        ),
        _command(
            "resolve",
            "windows.resolve_windows",
            "Pin all windows of a schedule between two instants, before a backfill; asks Kafka",
            _PIPELINE,
            Arg(("--topics",), help="The pipeline's topics", nargs="+", metavar="TOPIC"),
            Arg(("--topic-pattern",), help="Instead: a regular expression that whole names of topics match"),
            Arg(("--start",), help="First tick, ISO-8601 with a zone", required=True),
            Arg(("--end",), help="Last tick, ISO-8601 with a zone", required=True),
            Arg(("--cron",), help="The schedule that cuts the time into windows", required=True),
            Arg(("--timezone",), help="The schedule's time zone; default: UTC", default="UTC"),
            *_POLICIES,
            _LEDGER,
            _ISOLATION,
            _CONN_ID,
        ),
        _command(
            "re-resolve",
            "windows.re_resolve_windows",
            "Resolve windows again, as their next revisions; asks Kafka",
            _PIPELINE,
            _WINDOWS,
            *_POLICIES,
            _LEDGER,
            _CONN_ID,
        ),
        _command(
            "publish",
            "windows.publish_window",
            "Publish a window that a driver has loaded and counted, and nobody has published; asks Kafka",
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
        ),
        _command(
            "forget",
            "ledger.forget_windows",
            "Stop windows from counting, so that the next run resolves them again",
            _PIPELINE,
            _WINDOWS,
            Arg(
                ("--force",), help="Published ones too, and those that a Spark run may be loading", action="store_true"
            ),
            _LEDGER,
        ),
        _command(
            "forget-snapshots",
            "ledger.forget_snapshots",
            "Take back what a machine whose clock was ahead stored; refused if windows were made from it",
            _PIPELINE,
            Arg(
                ("--after",),
                help="Snapshots that stand after this time, ISO-8601 with a zone",
                required=True,
                metavar="INSTANT",
            ),
            _LEDGER,
        ),
    ),
)
