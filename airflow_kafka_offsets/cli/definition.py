"""The commands and their arguments: for Airflow's command line, and for the script ``kafka-offsets``."""

from __future__ import annotations

from airflow_kafka_offsets.cli import values
from airflow_kafka_offsets.cli.commands import CONN_ID, FORMS, ISOLATION, LEDGER, WINDOWS, Group, arg, command
from airflow_kafka_offsets.cli.ledger_commands import LEDGER_GROUP
from airflow_kafka_offsets.offsets.audits.audited_table import PRESETS

_PARTITIONS = arg("--partitions", help="Only these partitions, for example 0,2-5", type=values.partitions)
_LIST = command(
    "list",
    "offsets.list_offsets",
    "List offsets of topics, one row per partition",
    arg("topics", help="Topic names", nargs="+", metavar="TOPIC", type=values.name),
    arg(
        "--at",
        help="latest (default), earliest, max-timestamp, earliest-local, latest-tiered, or a time, for the first "
        f"record at or after it: {FORMS}",
        default="latest",
    ),
    _PARTITIONS,
    arg(
        "--segments",
        help="Show the start offsets of the log segments written before --at, newest first (ListOffsets version 0: "
        "brokers before Kafka 4.0)",
        action="store_true",
    ),
    ISOLATION,
    *CONN_ID,
)
_LAG = command(
    "lag",
    "offsets.measure_lag",
    "Measure the lag of consumer groups, one row per partition",
    arg("groups", help="Group ids", nargs="*", metavar="GROUP", type=values.name),
    arg("--all-groups", help="Every group of the cluster", action="store_true"),
    arg("--topics", help="Only these topics; give them after the groups", nargs="+", metavar="TOPIC", type=values.name),
    arg(
        "--lag",
        help="Only rows with a higher lag, for example '>0'; rows with an unknown lag are always shown",
        type=values.above,
        metavar="'>COUNT'",
    ),
    arg(
        "--by",
        help="One row per partition (default), or the sums: one row per group, or per group and topic",
        choices=("partition", "topic", "group"),
        default="partition",
    ),
    arg(
        "--age",
        help="Also how old the first unread record is, by its timestamp; reads one record of each partition that is "
        "behind",
        action="store_true",
    ),
    arg(
        "--zookeeper",
        help="Use the commits that the groups keep in ZooKeeper, on --topics (OffsetFetch version 0: "
        "brokers before Kafka 4.0)",
        action="store_true",
    ),
    ISOLATION,
    *CONN_ID,
)
_RESET = command(
    "reset",
    "reset.reset",
    "Show where a group's commits would go, and write them with --execute",
    arg("group", help="Group id", type=values.name),
    arg(
        "--topics",
        help="These topics, all partitions; default: those of the window, else those that the group has commits on",
        nargs="+",
        metavar="TOPIC",
        type=values.name,
    ),
    arg("--to", help=f"earliest, latest, or a time, for the first record at or after it: {FORMS}"),
    arg(
        "--to-window",
        help="The end of a window in a pipeline's ledger, by its name or by --at; see --ledger",
        metavar="PIPELINE[:WINDOW]",
    ),
    arg("--at", help="With --to-window PIPELINE: a time in the window", metavar="TIME"),
    arg("--backwards", help="Move back too; without it, commits that are further already stay", action="store_true"),
    arg("--execute", help="Write the commits; without it, nothing is changed", action="store_true"),
    arg("--new-group", help="Create the group if it doesn't exist", action="store_true"),
    LEDGER,
    ISOLATION,
    *CONN_ID,
)
_AUDIT = command(
    "audit",
    "audit.audit_table",
    "Is a table complete that something else has written? Compares it with windows, by Spark on this machine",
    arg("pipeline", help="The pipeline's name", type=values.name),
    *WINDOWS,
    arg("--start", help=f"Instead of names: all windows from this time on, {FORMS}"),
    arg("--end", help="All windows up to this time"),
    arg("--table", help="The table's name in one of Spark's catalogs", metavar="NAME"),
    arg("--path", help="Instead, its folder or URI, with --format", metavar="URI"),
    arg("--format", help="Its format, as Spark calls it: parquet, orc, json, csv, delta, hudi, jdbc"),
    arg("--query", help="Instead, a query of Spark's SQL", metavar="SQL"),
    arg("--option", help="An option of Spark's reader for --format", action="append", metavar="NAME=VALUE"),
    arg("--where", help="A condition that all rows of the windows fulfil, to read less", metavar="SQL"),
    arg(
        "--preset",
        help="Whose names the columns for topic, partition and offset have; default: kafka",
        choices=tuple(PRESETS),
        default="kafka",
    ),
    arg("--topic", help="An expression for the topic instead of the preset's, such as metadata.topic", metavar="SQL"),
    arg("--partition", help="An expression for the partition", metavar="SQL"),
    arg("--offset", help="An expression for the offset", metavar="SQL"),
    arg("--source", help="A condition that only rows of the windows' own cluster and topic fulfil", metavar="SQL"),
    arg("--writer-group", help="Consumer group of the table's writer: above its commits, nothing is missing yet"),
    arg("--allow-gaps", help="The topics may have offsets without a record, as with transactions", action="store_true"),
    arg("--write-missing", help="Write the missing records to this folder, as Parquet", metavar="FOLDER"),
    arg("--run", help="Record what an audit of that name has found, whose driver something else has submitted"),
    arg("--spark-submit", help="The program; default: spark-submit", default="spark-submit", metavar="PROGRAM"),
    arg("--packages", help="Maven packages that the table needs, such as Delta's, separated by commas"),
    arg("--spark-args", help="Other arguments of spark-submit, in quotes", metavar="WORDS"),
    LEDGER,
    *CONN_ID,
)
_BUNDLE = command(
    "bundle",
    "loads.write_files",
    "Write the driver's part of this package, and the ready-made application, for jobs that something else submits",
    arg("folder", help="Folder to write to; created if it doesn't exist"),
)
COMMANDS = Group(
    "kafka-offsets",
    "List Kafka offsets and lag, reset groups, inspect ledgers, and write the driver's files",
    (_LIST, _LAG, _RESET, _AUDIT, LEDGER_GROUP, _BUNDLE),
)
