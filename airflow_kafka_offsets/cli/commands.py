"""The commands and their arguments. Imports nothing heavy, so that ``--help`` answers at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, NamedTuple, get_args

from airflow_kafka_offsets.arguments import DataLossPolicy, FuturePolicy, HolePolicy
from airflow_kafka_offsets.cli import values
from airflow_kafka_offsets.offsets.audits.audited_table import PRESETS

FORMS = "'2026-11-20 06:30' (UTC, unless it has a zone), 06:30, or '2h ago'"
"""How a time may be written."""


class Argument(NamedTuple):
    """One argument: its name or flags, and keyword arguments of ``ArgumentParser.add_argument``."""

    flags: tuple[str, ...]
    options: dict[str, Any]


class Command(NamedTuple):
    """One command. Its function is named as module and function in this folder."""

    name: str
    function: str
    help: str
    arguments: tuple[Argument, ...]


class Group(NamedTuple):
    """Commands, and nested groups, whose names follow its own."""

    name: str
    help: str
    commands: Sequence[Command | Group]


def _arg(*flags: str, **options: Any) -> Argument:
    """An argument. What takes any text takes no empty one."""
    takes_text = options.get("action", "append") == "append" and not options.keys() & {"type", "choices"}
    return Argument(flags, options | ({"type": values.given} if takes_text else {}))


def _policy(flag: str, choices: object, what: str) -> Argument:
    """An argument that is one of a policy's words, ``fail`` by default."""
    return _arg(flag, help=what, choices=get_args(choices), default="fail")


def _command(name: str, function: str, what: str, *args: Argument) -> Command:
    """A command that prints rows."""
    return Command(name, function, what, (*args, *_SHOWN))


def _ledger_command(name: str, function: str, what: str, *args: Argument) -> Command:
    return _command(name, function, what, _PIPELINE, *args, _LEDGER)


_SHOWN = (
    _arg(
        "-o",
        "--output",
        help="Output format: table (default), or json",
        choices=("table", "json"),
        default="table",
    ),
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


_WINDOW = (
    _arg("window", help="The window's name, as ledger list shows it", nargs="?"),
    _arg("--at", help=f"Instead of its name: a time in the window, {FORMS}", metavar="TIME"),
)
_WINDOWS = (
    _arg("windows", help="Names of windows, as ledger list shows them", nargs="*", metavar="WINDOW"),
    _arg(
        "--at",
        help=f"Also the window at this time, {FORMS}; may be given several times",
        action="append",
        default=[],
        metavar="TIME",
    ),
)
_PARTITIONS = _arg("--partitions", help="Only these partitions, for example 0,2-5", type=values.partitions)
_LIST = _command(
    "list",
    "offsets.list_offsets",
    "List offsets of topics, one row per partition",
    _arg("topics", help="Topic names", nargs="+", metavar="TOPIC", type=values.name),
    _arg(
        "--at",
        help="latest (default), earliest, max-timestamp, earliest-local, latest-tiered, or a time, for the first "
        f"record at or after it: {FORMS}",
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
        "--age",
        help="Also how old the first unread record is, by its timestamp; reads one record of each partition that is "
        "behind",
        action="store_true",
    ),
    _arg(
        "--zookeeper",
        help="Use the commits that the groups keep in ZooKeeper, on --topics (OffsetFetch version 0: "
        "brokers before Kafka 4.0)",
        action="store_true",
    ),
    _ISOLATION,
    *_CONN_ID,
)
_RESET = _command(
    "reset",
    "offsets.reset",
    "Show where a group's commits would go, and write them with --execute",
    _arg("group", help="Group id", type=values.name),
    _arg(
        "--topics",
        help="These topics, all partitions; default: those of the window, else those that the group has commits on",
        nargs="+",
        metavar="TOPIC",
        type=values.name,
    ),
    _arg("--to", help=f"earliest, latest, or a time, for the first record at or after it: {FORMS}"),
    _arg(
        "--to-window",
        help="The end of a window in a pipeline's ledger, by its name or by --at; see --ledger",
        metavar="PIPELINE[:WINDOW]",
    ),
    _arg("--at", help="With --to-window PIPELINE: a time in the window", metavar="TIME"),
    _arg("--backwards", help="Move back too; without it, commits that are further already stay", action="store_true"),
    _arg("--execute", help="Write the commits; without it, nothing is changed", action="store_true"),
    _arg("--new-group", help="Create the group if it doesn't exist", action="store_true"),
    _LEDGER,
    _ISOLATION,
    *_CONN_ID,
)
_AUDIT = _command(
    "audit",
    "audit.audit_table",
    "Is a table complete that something else has written? Compares it with windows, by Spark on this machine",
    _arg("pipeline", help="The pipeline's name", type=values.name),
    *_WINDOWS,
    _arg("--start", help=f"Instead of names: all windows from this time on, {FORMS}"),
    _arg("--end", help="All windows up to this time"),
    _arg("--table", help="The table's name in one of Spark's catalogs", metavar="NAME"),
    _arg("--path", help="Instead, its folder or URI, with --format", metavar="URI"),
    _arg("--format", help="Its format, as Spark calls it: parquet, orc, json, csv, delta, hudi, jdbc"),
    _arg("--query", help="Instead, a query of Spark's SQL", metavar="SQL"),
    _arg("--option", help="An option of Spark's reader for --format", action="append", metavar="NAME=VALUE"),
    _arg("--where", help="A condition that all rows of the windows fulfil, to read less", metavar="SQL"),
    _arg(
        "--preset",
        help="Whose names the columns for topic, partition and offset have; default: kafka",
        choices=tuple(PRESETS),
        default="kafka",
    ),
    _arg("--topic", help="An expression for the topic instead of the preset's, such as metadata.topic", metavar="SQL"),
    _arg("--partition", help="An expression for the partition", metavar="SQL"),
    _arg("--offset", help="An expression for the offset", metavar="SQL"),
    _arg("--source", help="A condition that only rows of the windows' own cluster and topic fulfil", metavar="SQL"),
    _arg("--writer-group", help="Consumer group of the table's writer: above its commits, nothing is missing yet"),
    _arg(
        "--allow-gaps", help="The topics may have offsets without a record, as with transactions", action="store_true"
    ),
    _arg("--write-missing", help="Write the missing records to this folder, as Parquet", metavar="FOLDER"),
    _arg("--run", help="Record what an audit of that name has found, whose driver something else has submitted"),
    _arg("--spark-submit", help="The program; default: spark-submit", default="spark-submit", metavar="PROGRAM"),
    _arg("--packages", help="Maven packages that the table needs, such as Delta's, separated by commas"),
    _arg("--spark-args", help="Other arguments of spark-submit, in quotes", metavar="WORDS"),
    _LEDGER,
    *_CONN_ID,
)
_BUNDLE = _command(
    "bundle",
    "loads.write_files",
    "Write the driver's part of this package, and the ready-made application, for jobs that something else submits",
    _arg("folder", help="Folder to write to; created if it doesn't exist"),
)
_PIPELINE = _arg("pipeline", help="The pipeline's name", type=values.name)
_DRY_RUN = _arg("--dry-run", help="Show what would change, and change nothing", action="store_true")
_FORCE = _arg("--force", help="Also published windows, whose rows you then have to delete", action="store_true")

_READING = (
    _command(
        "list",
        "ledger.list_ledgers",
        "List pipelines; or a pipeline's windows with state and totals, and the holes and restarts between them",
        _arg("pipeline", help="The pipeline's name; without it, all pipelines are listed", nargs="?", type=values.name),
        _LEDGER,
    ),
    _ledger_command(
        "show",
        "ledger.show_window",
        "Show a window, by default the newest: its state, its attempts and their runs, and its ranges with evidence",
        *_WINDOW,
    ),
    _ledger_command(
        "verify",
        "ledger.verify_ledger",
        "Check hashes, counts and tiling of all windows",
        _arg("--full", help="Also read windows again that were verified before", action="store_true"),
        _policy(
            "--on-hole",
            HolePolicy,
            "If offsets between windows are in none: fail (default), or warn: report them but exit with "
            "0, for example during a backfill",
        ),
    ),
    _ledger_command(
        "find",
        "ledger.find_record",
        "Find the window, attempt and output of a record, by its offset",
        _arg("topic", help="Topic name", type=values.name),
        _arg("partition", help="Partition number", type=values.partition),
        _arg("offset", help="The record's offset", type=values.number),
    ),
    _ledger_command(
        "certificate",
        "certificate.certify",
        "Certify one window: what was loaded or audited, by which rule, and how others check it",
        *_WINDOW,
        _arg("--html", help="Also write it to a file for a browser", metavar="FILE"),
        _arg("--key", help="Sign it with this Ed25519 private key", metavar="PEM"),
    ),
    _ledger_command(
        "files",
        "ledger.list_files",
        "List the files of published windows, for engines that can't read the ledger",
        _arg("--start", help=f"Only windows from this time on, {FORMS}"),
        _arg("--end", help="Only windows up to this time"),
    ),
)
_ASKING_KAFKA = (
    _ledger_command(
        "resolve",
        "loads.resolve_windows",
        "Pin the windows between two instants, as one step, before a backfill or an audit; asks Kafka",
        _arg("--topics", help="The pipeline's topics", nargs="+", metavar="TOPIC", type=values.name),
        _arg("--topic-pattern", help="Instead of --topics: a regular expression that whole topic names must match"),
        _arg("--start", help=f"Where the first window starts, {FORMS}", required=True),
        _arg("--end", help="Where the last one ends", required=True),
        _arg(
            "--split",
            help="How long windows are, such as 15m, 1h or 1d: a day has a whole number of them; default: one window",
            type=values.length,
            metavar="LENGTH",
        ),
        _arg("--timezone", help="By whose clocks days begin; default: UTC", type=values.zone, default=UTC),
        _policy(
            "--on-future-record", FuturePolicy, "If a record from the future is at a boundary: fail (default), or warn"
        ),
        _ISOLATION,
        *_CONN_ID,
    ),
    _ledger_command(
        "begin",
        "loads.begin_attempt",
        "Begin an attempt at a window, for a driver that you start yourself; asks Kafka",
        *_WINDOW,
        _policy(
            "--on-data-loss",
            DataLossPolicy,
            "If records of the window are deleted: fail (default), or load_rest: load the others and record the loss",
        ),
        *_CONN_ID,
    ),
    _ledger_command(
        "publish",
        "loads.publish_window",
        "Publish a window that a driver has loaded and counted, but that isn't published; asks Kafka",
        *_WINDOW,
        _arg(
            "--result",
            help="File with the JSON that PinnedWindow.write(...).to_json() returned, if the driver can't reach "
            "the ledger; - for standard input",
            metavar="FILE",
        ),
        *_CONN_ID,
    ),
)
_CHANGING = (
    _ledger_command(
        "reload",
        "changes.reload_windows",
        "Have windows loaded again, from the same offsets; readers keep the old rows until then; asks Kafka",
        *_WINDOWS,
        _policy(
            "--on-data-loss",
            DataLossPolicy,
            "If records of a window are deleted: fail (default), or load_rest: have it loaded again all the same, by a "
            "load that loads the others",
        ),
        _arg(
            "--take-back",
            help="Take an earlier reload back: the published rows satisfy loads again; doesn't ask Kafka",
            action="store_true",
        ),
        _arg(
            "--over",
            help="For a restored ledger: the attempt and run that a table has of the window, and that this ledger "
            "doesn't know, such as 95-1f2e3d4c; the next load replaces its rows",
            metavar="ATTEMPT-RUN",
        ),
        _DRY_RUN,
        *_CONN_ID,
    ),
    _ledger_command(
        "void",
        "changes.void_windows",
        "Take windows away that should not exist; their time is free for other windows",
        *_WINDOWS,
        _FORCE,
        _DRY_RUN,
    ),
    _ledger_command(
        "rewind",
        "changes.rewind",
        "Take everything away after an instant: snapshots, and the windows that end after it",
        _arg("--to", help=f"The instant, {FORMS}", required=True, metavar="TIME"),
        _FORCE,
        _DRY_RUN,
    ),
    _ledger_command(
        "restart",
        "changes.restart",
        "Begin topics anew that were re-created or truncated, or that are on another cluster now; asks Kafka",
        _DRY_RUN,
        *_CONN_ID,
    ),
)
_LEDGER_COMMANDS = Group("ledger", "Inspect and maintain a pipeline's ledger", (*_READING, *_ASKING_KAFKA, *_CHANGING))
COMMANDS = Group(
    "kafka-offsets",
    "List Kafka offsets and lag, reset groups, inspect ledgers, and write the driver's files",
    (_LIST, _LAG, _RESET, _AUDIT, _LEDGER_COMMANDS, _BUNDLE),
)
