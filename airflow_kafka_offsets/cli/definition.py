"""The commands and their arguments: for Airflow's command line, and for the script ``kafka-offsets``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from airflow_kafka_offsets.cli import values
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy, FuturePolicy, HolePolicy, OverlapPolicy


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    :param flags: its name, or its flags.
    :param options: keyword arguments of ``ArgumentParser.add_argument``.
    """

    flags: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    :param name: its name.
    :param function: its implementation, as module and function in this folder.
    :param help: what it does.
    :param arguments: its arguments.
    """

    name: str
    function: str
    help: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands.

    :param name: its name, which precedes theirs.
    :param help: what they are for.
    :param commands: the commands, and nested groups.
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
        help="Output format: table (default), json, yaml, or plain: a table as wide as it needs",
        choices=("table", "json", "yaml", "plain"),
        default="table",
    ),
    _arg("--wide", help="Show all fields in the table; JSON and YAML always have them", action="store_true"),
    _arg("-v", "--verbose", help="Show the log messages of libraries", action="store_true"),
)
_CONN_ID = (
    _arg(
        "--conn-id",
        help="Airflow connection id, of type kafka or kafka_offsets; default: kafka_default",
        default="kafka_default",
    ),
    _arg("--bootstrap-servers", help="Bootstrap brokers, host:port,host:port, instead of a connection"),
    _arg(
        "--config",
        help="A librdkafka key and its value, or a file with one such pair per line (put passwords there), instead of "
        "a connection",
        action="append",
        metavar="KEY=VALUE|FILE",
    ),
)
_ISOLATION = _arg(
    "--isolation",
    help="Where the log ends: before the first open transaction (read_committed, the default), or after the last "
    "record (read_uncommitted)",
    choices=("read_committed", "read_uncommitted"),
    default="read_committed",
)
_LEDGER = _arg("--ledger", help="Folder of all ledgers; default: the setting ledger_root of section kafka_offsets")
_WINDOWS = _arg("windows", help="Names of windows, as ledger list shows them", nargs="+", metavar="WINDOW")
_PIPELINE = _arg("pipeline", help="The pipeline's name", type=values.name)


def _policy(flag: str, policy: object, what: str) -> Argument:
    """An argument that is one of a policy's words, ``fail`` by default."""
    return _arg(flag, help=what, choices=get_args(policy), default="fail")


_POLICIES = (
    _policy(
        "--on-data-loss",
        DataLossPolicy,
        "If records of a window are deleted: fail (default), or load_rest: pin the rest and record the loss",
    ),
    _policy(
        "--on-future-record", FuturePolicy, "If a record from the future is at a boundary: fail (default), or warn"
    ),
    _policy(
        "--on-overlap",
        OverlapPolicy,
        "If another window has some of a window's offsets: fail (default), or allow: pin it anyway",
    ),
)


_PARTITIONS = _arg("--partitions", help="Only these partitions, for example 0,2-5", type=values.partitions)


def _command(name: str, function: str, what: str, *args: Argument) -> Command:
    return Command(name, function, what, (*args, *_SHOWN))


_LIST = _command(
    "list",
    "offsets.list_offsets",
    "List offsets of topics, one row per partition",
    _arg("topics", help="Topic names", nargs="+", metavar="TOPIC", type=values.name),
    _arg(
        "--at",
        help="latest (default), earliest, max-timestamp, earliest-local, latest-tiered, or an instant in ISO-8601 "
        "with a zone: the first record at or after it",
        default="latest",
    ),
    _PARTITIONS,
    _arg(
        "--segments",
        help="Show the start offsets of the log segments written before --at, newest first (ListOffsets version 0: "
        "brokers before Kafka 4.0)",
        action="store_true",
    ),
    _ISOLATION,
    *_CONN_ID,
)
_LAG = _command(
    "lag",
    "offsets.measure_lag",
    "Measure the lag of consumer groups, one row per partition",
    _arg("groups", help="Group ids", nargs="*", metavar="GROUP", type=values.name),
    _arg("--all-groups", help="Every group of the cluster", action="store_true"),
    _arg(
        "--topics", help="Only these topics; give them after the groups", nargs="+", metavar="TOPIC", type=values.name
    ),
    _arg(
        "--lag",
        help="Only rows with a higher lag, for example '>0'; rows with an unknown lag are always shown",
        type=values.above,
        metavar="'>COUNT'",
    ),
    _arg(
        "--by",
        help="One row per partition (default), or the sums: one row per group, or per group and topic",
        choices=("partition", "topic", "group"),
        default="partition",
    ),
    _arg(
        "--zookeeper",
        help="Use the commits that the groups keep in ZooKeeper, on --topics (OffsetFetch version 0: "
        "brokers before Kafka 4.0)",
        action="store_true",
    ),
    _arg(
        "--pace",
        help="Measure again after this many seconds, and show how fast partitions are written and read; must be longer "
        "than the groups take between two commits",
        type=values.seconds(3_600),
        metavar="SECONDS",
    ),
    _ISOLATION,
    *_CONN_ID,
)
_RESET = _command(
    "reset",
    "reset.reset",
    "Show where a group's commits would go, and write them with --execute",
    _arg("group", help="Group id", type=values.name),
    _arg(
        "--topics",
        help="These topics, all partitions; default: the topics that the group has commits on",
        nargs="+",
        metavar="TOPIC",
        type=values.name,
    ),
    _PARTITIONS,
    _arg("--to", help="earliest, latest, or an instant in ISO-8601 with a zone: the first record at or after it"),
    _arg("--to-offset", help="This offset on every partition", type=values.number, metavar="OFFSET"),
    _arg("--shift-by", help="Move by this many offsets; negative goes back", type=values.shift, metavar="COUNT"),
    _arg(
        "--to-snapshot",
        help="A snapshot of a pipeline's ledger, by its number; see --ledger",
        metavar="PIPELINE:NUMBER",
    ),
    _arg("--delete-offsets", help="Delete the commits", action="store_true"),
    _arg("--execute", help="Write the commits; without it, nothing is changed", action="store_true"),
    _arg("--new-group", help="Create the group if it doesn't exist", action="store_true"),
    _LEDGER,
    _ISOLATION,
    *_CONN_ID,
)
_LEDGER_GROUP = Group(
    "ledger",
    "Inspect and maintain a pipeline's ledger",
    (
        _command("list", "ledger.list_windows", "List windows with state and totals", _PIPELINE, _LEDGER),
        _command(
            "show",
            "ledger.show_window",
            "Show one window's ranges and their evidence",
            _PIPELINE,
            _arg("window", help="The window's name; default: the newest", nargs="?"),
            _arg("--revision", help="The revision's number; default: the newest", type=values.positive),
            _arg(
                "--html",
                help="Also write this window and the pipeline's newest ones to a file for a browser, for example to "
                "attach to a ticket",
                metavar="FILE",
            ),
            _LEDGER,
        ),
        _command(
            "verify",
            "ledger.verify_ledger",
            "Check hashes, states, counts and tiling of all windows",
            _PIPELINE,
            _arg("--full", help="Also read windows again that were verified before", action="store_true"),
            _policy(
                "--on-hole",
                HolePolicy,
                "If offsets between windows are in none: fail (default), or warn: report them but exit with "
                "0, for example during a backfill",
            ),
            _LEDGER,
        ),
        _command(
            "find",
            "find.find_record",
            "Find the window, run and output of a record, by its offset, its key, or an instant",
            _PIPELINE,
            _arg("topic", help="Topic name", type=values.name),
            _arg(
                "partition", help="Partition number; without it, see --key and --at", type=values.partition, nargs="?"
            ),
            _arg("offset", help="The record's offset", type=values.number, nargs="?"),
            _arg(
                "--key",
                help="The record's key, instead of a partition, which Kafka's default partitioner, murmur2, computes. "
                "Alone, it shows the partition",
            ),
            _arg("--key-hex", help="The key as bytes in hex, for keys that aren't text", metavar="HEX"),
            _arg(
                "--offset",
                help="With a key: the record's offset",
                type=values.number,
                dest="offset_of_key",
                metavar="OFFSET",
            ),
            _arg(
                "--at",
                help="Instead of an offset: show the windows that contain this instant, ISO-8601 with a zone; on all "
                "partitions, or on the given one",
                metavar="INSTANT",
            ),
            _LEDGER,
        ),
        _command(
            "files",
            "ledger.list_files",
            "List the files of published windows, for engines that can't read the ledger",
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
            _arg("--topics", help="The pipeline's topics", nargs="+", metavar="TOPIC", type=values.name),
            _arg("--topic-pattern", help="Instead of --topics: a regular expression that whole topic names must match"),
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
            "Publish a window that a driver has loaded and counted, but that isn't published; asks Kafka",
            _PIPELINE,
            _arg("window", help="The window's name, as ledger list shows it"),
            _arg(
                "--attempt",
                help="The attempt to publish; default: the proved one that a retry would publish",
            ),
            _arg(
                "--result",
                help="File with the JSON that PinnedWindow.write(...).to_json() returned, if the driver can't reach "
                "the ledger; - for standard input",
                metavar="FILE",
            ),
            _LEDGER,
            *_CONN_ID,
        ),
        _command(
            "forget",
            "ledger.forget_windows",
            "Forget windows, so that they no longer count and the next run resolves them again",
            _PIPELINE,
            _WINDOWS,
            _arg(
                "--force",
                help="Also windows that are published, or that a Spark run may be loading",
                action="store_true",
            ),
            _LEDGER,
        ),
        _command(
            "forget-snapshots",
            "ledger.forget_snapshots",
            "Forget snapshots that a machine stored with its clock ahead; refused if windows were made from them",
            _PIPELINE,
            _arg(
                "--after",
                help="Forget the snapshots after this time, ISO-8601 with a zone",
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
    "Write the driver's part of this package, and the ready-made application, for jobs that something else submits",
    _arg("folder", help="Folder to write to; created if it doesn't exist"),
)
COMMANDS = Group(
    "kafka-offsets",
    "List Kafka offsets and lag, reset groups, inspect ledgers, and write the driver's files",
    (_LIST, _LAG, _RESET, _LEDGER_GROUP, _BUNDLE),
)
