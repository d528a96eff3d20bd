"""The parts of a command's definition, and the arguments that several commands share.

Imports nothing heavy, because every ``airflow`` command loads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args


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


def arg(*flags: str, **options: Any) -> Argument:
    return Argument(flags, options)


SHOWN = (
    arg(
        "-o",
        "--output",
        help="Output format: table (default), or json",
        choices=("table", "json"),
        default="table",
    ),
    arg("--wide", help="Show all fields in the table; JSON always has them", action="store_true"),
    arg("-v", "--verbose", help="Show the log messages of libraries", action="store_true"),
)
CONN_ID = (
    arg(
        "--conn-id",
        help="Airflow connection id, of type kafka or kafka_offsets; default: kafka_default",
        default="kafka_default",
    ),
    arg("--bootstrap-servers", help="Bootstrap brokers, host:port,host:port, instead of a connection"),
    arg(
        "--config",
        help="A librdkafka key and its value, or a file with one such pair per line (put passwords there), instead of "
        "a connection",
        action="append",
        metavar="KEY=VALUE|FILE",
    ),
)
ISOLATION = arg(
    "--isolation",
    help="Where the log ends: before the first open transaction (read_committed, the default), or after the last "
    "record (read_uncommitted)",
    choices=("read_committed", "read_uncommitted"),
    default="read_committed",
)
LEDGER = arg("--ledger", help="Folder of all ledgers; default: the setting ledger_root of section kafka_offsets")


FORMS = "'2026-11-20 06:30' (UTC, unless it has a zone), 06:30, or '2h ago'"
"""How a time may be written."""


WINDOW = (
    arg("window", help="The window's name, as ledger list shows it", nargs="?"),
    arg("--at", help=f"Instead of its name: a time in the window, {FORMS}", metavar="TIME"),
)
WINDOWS = (
    arg("windows", help="Names of windows, as ledger list shows them", nargs="*", metavar="WINDOW"),
    arg(
        "--at",
        help=f"Also the window at this time, {FORMS}; may be given several times",
        action="append",
        default=[],
        metavar="TIME",
    ),
)


def policy(flag: str, choices: object, what: str) -> Argument:
    """An argument that is one of a policy's words, ``fail`` by default."""
    return arg(flag, help=what, choices=get_args(choices), default="fail")


def command(name: str, function: str, what: str, *args: Argument) -> Command:
    """A command that prints rows."""
    return Command(name, function, what, (*args, *SHOWN))
