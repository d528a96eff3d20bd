"""The commands and their arguments: for Airflow's command line, and for the script ``kafka-offsets``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    :param flags: its name, or its flags.
    :param options: as ``ArgumentParser.add_argument`` takes them.
    """

    flags: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    :param name: its name.
    :param function: what does it: module and function of this folder.
    :param help: what it does.
    :param arguments: its arguments.
    """

    name: str
    function: str
    help: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Commands of one name.

    :param name: what stands before theirs.
    :param help: what they are for.
    :param commands: the commands, and groups of them.
    """

    name: str
    help: str
    commands: Sequence[Command | Group]


def _arg(*flags: str, **options: Any) -> Argument:
    return Argument(flags, options)


_SHOWN = (
    _arg(
        "-o",
        "--output",
        help="How to print: table (default), json, yaml, or plain, a table without a terminal's width",
        choices=("table", "json", "yaml", "plain"),
        default="table",
    ),
    _arg("--wide", help="All fields in the table; JSON and YAML have them anyway", action="store_true"),
    _arg("-v", "--verbose", help="Show what libraries log", action="store_true"),
)
_CONN_ID = (
    _arg(
        "--conn-id",
        help="Airflow connection id, of type kafka or kafka_offsets; default: kafka_default",
        default="kafka_default",
    ),
    _arg("--bootstrap-servers", help="Brokers to ask first, host:port,host:port, instead of a connection"),
    _arg(
        "--config",
        help="With --bootstrap-servers: a key of librdkafka's with its value, or a file with one such line for each "
        "(passwords belong there)",
        action="append",
        metavar="KEY=VALUE|FILE",
    ),
)
_ISOLATION = _arg(
    "--isolation",
    help="Where the log ends: before the first open transaction (read_committed, the default), or at its last record",
    choices=("read_committed", "read_uncommitted"),
    default="read_committed",
)
_LEDGER = _arg("--ledger", help="Folder of all ledgers; default: the setting ledger_root of section kafka_offsets")
_WINDOWS = _arg("windows", help="Names of windows, as ledger list shows them", nargs="+", metavar="WINDOW")
_PIPELINE = _arg("pipeline", help="The pipeline's name")


def _policy(flag: str, other: str, what: str) -> Argument:
    """An argument that is ``fail``, by default, or another word."""
    return _arg(flag, help=what, choices=("fail", other), default="fail")


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


_PARTITIONS = _arg("--partitions", help="Only these, for example 0,2-5", type=partition_numbers)


def _command(name: str, function: str, what: str, *args: Argument) -> Command:
    return Command(name, function, what, (*args, *_SHOWN))


_LIST = _command(
    "list",
    "offsets.list_offsets",
    "List offsets of topics, a row a partition",
    _arg("topics", help="Topic names", nargs="+", metavar="TOPIC"),
    _arg(
        "--at",
        help="latest (default), earliest, max-timestamp, earliest-local, latest-tiered, or an instant in ISO-8601 "
        "with a zone: the first record at or after it",
        default="latest",
    ),
    _PARTITIONS,
    _arg(
        "--segments",
        help="Where log segments start that were written before --at, newest first (ListOffsets version 0: brokers "
        "before Kafka 4.0)",
        action="store_true",
    ),
    _ISOLATION,
    *_CONN_ID,
)
_LAG = _command(
    "lag",
    "offsets.measure_lag",
    "Measure the lag of consumer groups, a row a partition",
    _arg("groups", help="Group ids", nargs="*", metavar="GROUP"),
    _arg("--all-groups", help="Every group of the cluster", action="store_true"),
    _arg("--topics", help="Judge only these topics; write them after the groups", nargs="+", metavar="TOPIC"),
    _arg(
        "--zookeeper",
        help="Use the commits that the groups keep in ZooKeeper, on --topics (OffsetFetch version 0: "
        "brokers before Kafka 4.0)",
        action="store_true",
    ),
    _arg(
        "--pace",
        help="Measure again after so many seconds, and show how fast partitions are written and read; "
        "more than the groups take between two commits",
        type=float,
        metavar="SECONDS",
    ),
    _ISOLATION,
    *_CONN_ID,
)
_RESET = _command(
    "reset",
    "reset.reset",
    "Show where a group's commits would go, and write them with --execute",
    _arg("group", help="Group id"),
    _arg(
        "--topics",
        help="These topics, all partitions; default: the topics that the group has commits on",
        nargs="+",
        metavar="TOPIC",
    ),
    _PARTITIONS,
    _arg("--to", help="earliest, latest, or an instant in ISO-8601 with a zone: the first record at or after it"),
    _arg("--to-offset", help="This offset on every partition", type=int, metavar="OFFSET"),
    _arg("--shift-by", help="Move by this many offsets; negative goes back", type=int, metavar="COUNT"),
    _arg(
        "--to-snapshot",
        help="A snapshot of a pipeline's ledger, by its number; see --ledger",
        metavar="PIPELINE:NUMBER",
    ),
    _arg("--forget", help="Forget the commits", action="store_true"),
    _arg("--execute", help="Write it; without this nothing is changed", action="store_true"),
    _arg("--new-group", help="Create the group if there is none with that name", action="store_true"),
    _LEDGER,
    _ISOLATION,
    *_CONN_ID,
)
_LEDGER_GROUP = Group(
    "ledger",
    "Look into a pipeline's ledger, and keep it in order",
    (
        _command("list", "ledger.list_windows", "Windows with state and totals", _PIPELINE, _LEDGER),
        _command(
            "show",
            "ledger.show_window",
            "One window's ranges and their evidence",
            _PIPELINE,
            _arg("window", help="The window's name; the newest by default", nargs="?"),
            _arg("--revision", help="Which revision; the newest by default", type=int),
            _arg(
                "--html",
                help="Also write this window and the pipeline's newest ones to a file for a browser, such as a "
                "ticket's attachment",
                metavar="FILE",
            ),
            _LEDGER,
        ),
        _command(
            "verify",
            "ledger.verify_ledger",
            "Hashes, states, counts and tiling over all windows",
            _PIPELINE,
            _arg("--full", help="Also read again what was proved before", action="store_true"),
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
            "find.find_record",
            "Which window, run and output a record is in, by its offset, its key, or an instant",
            _PIPELINE,
            _arg("topic", help="Topic name"),
            _arg("partition", help="Partition number; without it, see --key and --at", type=int, nargs="?"),
            _arg("offset", help="The record's offset", type=int, nargs="?"),
            _arg(
                "--key",
                help="The record's key, instead of a partition: where Kafka's default partitioner, murmur2, puts it. "
                "Alone, it shows the partition",
            ),
            _arg("--key-hex", help="The same, as bytes in hex, for keys that aren't text", metavar="HEX"),
            _arg("--offset", help="With a key: the record's offset", type=int, dest="offset_of_key", metavar="OFFSET"),
            _arg(
                "--at",
                help="Instead of an offset: the windows that have this instant, ISO-8601 with a zone; on all "
                "partitions, or on the given one",
                metavar="INSTANT",
            ),
            _LEDGER,
        ),
        _command(
            "files",
            "ledger.list_files",
            "Files of the published windows, for engines that don't know the ledger",
            _PIPELINE,
            _arg("--start", help="Only windows from this instant on, ISO-8601 with a zone"),
            _arg("--end", help="Only windows up to this instant, ISO-8601 with a zone"),
            _LEDGER,
        ),
        _command(
            "resolve",
            "windows.resolve_windows",
            "Pin all windows of a schedule between two instants, before a backfill; asks Kafka",
            _PIPELINE,
            _arg("--topics", help="The pipeline's topics", nargs="+", metavar="TOPIC"),
            _arg("--topic-pattern", help="Instead: a regular expression that whole names of topics match"),
            _arg("--start", help="First tick, ISO-8601 with a zone", required=True),
            _arg("--end", help="Last tick, ISO-8601 with a zone", required=True),
            _arg("--cron", help="The schedule that cuts the time into windows", required=True),
            _arg("--timezone", help="The schedule's time zone; default: UTC", default="UTC"),
            *_POLICIES,
            _LEDGER,
            _ISOLATION,
            *_CONN_ID,
        ),
        _command(
            "re-resolve",
            "windows.re_resolve_windows",
            "Resolve windows again, as their next revisions; asks Kafka",
            _PIPELINE,
            _WINDOWS,
            *_POLICIES,
            _LEDGER,
            *_CONN_ID,
        ),
        _command(
            "publish",
            "windows.publish_window",
            "Publish a window that a driver has loaded and counted, and nobody has published; asks Kafka",
            _PIPELINE,
            _arg("window", help="The window's name, as ledger list shows it"),
            _arg("--attempt", help="Which attempt; default: the one that counted last and is proved"),
            _arg(
                "--result",
                help="File with the JSON that PinnedWindow.write(...).to_json() gave, where the driver doesn't "
                "reach the ledger; - for standard input",
                metavar="FILE",
            ),
            _LEDGER,
            *_CONN_ID,
        ),
        _command(
            "forget",
            "ledger.forget_windows",
            "Stop windows from counting, so that the next run resolves them again",
            _PIPELINE,
            _WINDOWS,
            _arg("--force", help="Published ones too, and those that a Spark run may be loading", action="store_true"),
            _LEDGER,
        ),
        _command(
            "forget-snapshots",
            "ledger.forget_snapshots",
            "Take back what a machine whose clock was ahead stored; refused if windows were made from it",
            _PIPELINE,
            _arg(
                "--after",
                help="Snapshots that stand after this time, ISO-8601 with a zone",
                required=True,
                metavar="INSTANT",
            ),
            _LEDGER,
        ),
    ),
)
_BUNDLE = _command(
    "bundle",
    "bundle.write_files",
    "Write what a Spark driver needs of this package, and the ready-made application, for jobs that others submit",
    _arg("folder", help="Where to write them; made if it isn't there"),
)
COMMANDS = Group(
    "kafka-offsets",
    "List Kafka offsets and lag, reset groups, look into ledgers, and write the driver's files",
    (_LIST, _LAG, _RESET, _LEDGER_GROUP, _BUNDLE),
)
