"""The commands of ``kafka-offsets ledger``, and their arguments."""

from __future__ import annotations

from airflow_kafka_offsets.cli import values
from airflow_kafka_offsets.cli.commands import (
    CONN_ID,
    FORMS,
    ISOLATION,
    LEDGER,
    WINDOW,
    WINDOWS,
    Argument,
    Command,
    Group,
    arg,
    command,
    policy,
)
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy, FuturePolicy, HolePolicy

_PIPELINE = arg("pipeline", help="The pipeline's name", type=values.name)
_DRY_RUN = arg("--dry-run", help="Show what would change, and change nothing", action="store_true")
_FORCE = arg("--force", help="Also published windows, whose rows you then have to delete", action="store_true")


def _ledger_command(name: str, function: str, what: str, *args: Argument) -> Command:
    return command(name, function, what, _PIPELINE, *args, LEDGER)


_READING = (
    command(
        "list",
        "ledger.list_ledgers",
        "List pipelines; or a pipeline's windows with state and totals, and the holes and restarts between them",
        arg("pipeline", help="The pipeline's name; without it, all pipelines are listed", nargs="?", type=values.name),
        LEDGER,
    ),
    _ledger_command(
        "show",
        "show.show_window",
        "Show a window, by default the newest: its state, its attempts and their runs, and its ranges with evidence",
        *WINDOW,
    ),
    _ledger_command(
        "verify",
        "ledger.verify_ledger",
        "Check hashes, counts and tiling of all windows",
        arg("--full", help="Also read windows again that were verified before", action="store_true"),
        policy(
            "--on-hole",
            HolePolicy,
            "If offsets between windows are in none: fail (default), or warn: report them but exit with "
            "0, for example during a backfill",
        ),
    ),
    _ledger_command(
        "find",
        "show.find_record",
        "Find the window, attempt and output of a record, by its offset",
        arg("topic", help="Topic name", type=values.name),
        arg("partition", help="Partition number", type=values.partition),
        arg("offset", help="The record's offset", type=values.number),
    ),
    _ledger_command(
        "certificate",
        "certificate.certify",
        "Certify one window: what was loaded or audited, by which rule, and how others check it",
        *WINDOW,
        arg("--html", help="Also write it to a file for a browser", metavar="FILE"),
        arg("--key", help="Sign it with this Ed25519 private key", metavar="PEM"),
    ),
    _ledger_command(
        "files",
        "ledger.list_files",
        "List the files of published windows, for engines that can't read the ledger",
        arg("--start", help=f"Only windows from this time on, {FORMS}"),
        arg("--end", help="Only windows up to this time"),
    ),
)
_ASKING_KAFKA = (
    _ledger_command(
        "resolve",
        "loads.resolve_windows",
        "Pin all windows of a schedule between two instants, before a backfill, as one step; asks Kafka",
        arg("--topics", help="The pipeline's topics", nargs="+", metavar="TOPIC", type=values.name),
        arg("--topic-pattern", help="Instead of --topics: a regular expression that whole topic names must match"),
        arg("--start", help=f"First tick, {FORMS}", required=True),
        arg("--end", help="Last tick", required=True),
        arg("--cron", help="The schedule that cuts the time into windows", required=True),
        arg("--timezone", help="The schedule's time zone; default: UTC", default="UTC"),
        policy(
            "--on-future-record", FuturePolicy, "If a record from the future is at a boundary: fail (default), or warn"
        ),
        ISOLATION,
        *CONN_ID,
    ),
    _ledger_command(
        "begin",
        "loads.begin_attempt",
        "Begin an attempt at a window, for a driver that you start yourself; asks Kafka",
        *WINDOW,
        policy(
            "--on-data-loss",
            DataLossPolicy,
            "If records of the window are deleted: fail (default), or load_rest: load the others and record the loss",
        ),
        *CONN_ID,
    ),
    _ledger_command(
        "publish",
        "loads.publish_window",
        "Publish a window that a driver has loaded and counted, but that isn't published; asks Kafka",
        *WINDOW,
        arg(
            "--attempt",
            help="Number of the attempt to publish; default: the proved one that a retry would publish",
            type=values.positive,
            metavar="NUMBER",
        ),
        arg(
            "--result",
            help="File with the JSON that PinnedWindow.write(...).to_json() returned, if the driver can't reach "
            "the ledger; - for standard input",
            metavar="FILE",
        ),
        *CONN_ID,
    ),
)
_CHANGING = (
    _ledger_command(
        "reload",
        "changes.reload_windows",
        "Have windows loaded again, from the same offsets; readers keep the old rows until then; asks Kafka",
        *WINDOWS,
        policy(
            "--on-data-loss",
            DataLossPolicy,
            "If records of a window are deleted: fail (default), or load_rest: have it loaded again all the same, by a "
            "load that loads the others",
        ),
        arg(
            "--take-back",
            help="Take an earlier reload back: the published rows satisfy loads again; doesn't ask Kafka",
            action="store_true",
        ),
        arg(
            "--over",
            help="For a restored ledger: the attempt and run that a table has of the window, and that this ledger "
            "doesn't know, such as 95-1f2e3d4c; the next load replaces its rows",
            metavar="ATTEMPT-RUN",
        ),
        _DRY_RUN,
        *CONN_ID,
    ),
    _ledger_command(
        "void",
        "changes.void_windows",
        "Take windows away that should not exist; their time is free for other windows",
        *WINDOWS,
        _FORCE,
        _DRY_RUN,
    ),
    _ledger_command(
        "rewind",
        "changes.rewind",
        "Take everything away after an instant: snapshots, and the windows that end after it",
        arg("--to", help=f"The instant, {FORMS}", required=True, metavar="TIME"),
        _FORCE,
        _DRY_RUN,
    ),
    _ledger_command(
        "restart",
        "changes.restart",
        "Begin topics anew that were re-created or truncated, or that are on another cluster now; asks Kafka",
        _DRY_RUN,
        *CONN_ID,
    ),
)
LEDGER_GROUP = Group("ledger", "Inspect and maintain a pipeline's ledger", (*_READING, *_ASKING_KAFKA, *_CHANGING))
