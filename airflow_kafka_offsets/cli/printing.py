"""Printing rows, and turning errors into one line and an exit code.

0: fine. 1: some partition, group or window is in error. 2: wrong usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from shutil import get_terminal_size
from typing import Any, NoReturn, TypeVar

from airflow.utils.cli import suppress_logs_and_warning

from airflow_kafka_offsets.cli.connections import as_server, store_failure
from airflow_kafka_offsets.cli.tables import Column, Row, every_column, printable, table, telling, upright
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError

Command = Callable[[Any], int]
T = TypeVar("T")


def command(function: Command) -> Callable[[Any], None]:
    """Make a function that returns an exit code a command of Airflow's."""

    # What libraries log goes to stdout, among the rows: --verbose alone shows it.
    @suppress_logs_and_warning
    def exit_with(args: Any) -> None:
        if code := function(args):
            sys.exit(code)

    @wraps(function)
    def run(args: Any) -> None:
        try:
            with as_server():
                exit_with(args)
        except KafkaOffsetsError as error:
            _end_with(error)
        except Exception as error:
            failure = store_failure(error, getattr(args, "ledger", None))
            if failure is None:
                raise
            _end_with(failure)

    return run


def _end_with(error: KafkaOffsetsError) -> NoReturn:
    print(f"airflow kafka-offsets: {printable(str(error))}", file=sys.stderr)
    sys.exit(2 if isinstance(error, ConfigurationError) else 1)


def print_rows(rows: Sequence[Row], args: Any, columns: Sequence[Column], *, single: bool = False) -> None:
    """Print rows as ``--output`` asks. In JSON and YAML all fields are there, numbers are numbers and unknown is null;
    tables have the columns, or all fields with ``--wide``.

    :param columns: of a table that fits 80 columns.
    :param single: there is one record, which a terminal gets upright.
    """
    if args.output == "json":
        print(json.dumps(rows, indent=2))
    elif args.output == "yaml":
        from airflow.utils import yaml

        print(yaml.dump([dict(row) for row in rows], sort_keys=False), end="")
    elif not rows:
        print("No data found")
    else:
        _print_table(rows, every_column(rows) if args.wide else telling(columns, rows), args.output, single)


def _print_table(rows: Sequence[Row], columns: Sequence[Column], output: str, single: bool) -> None:
    if output == "plain" or not sys.stdout.isatty():
        print(table(rows, columns, None), end="")
    elif single:
        print(upright(rows[0], columns), end="")
    else:
        print(table(rows, columns, get_terminal_size().columns), end="")


def with_progress(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items as they come, with a bar on stderr where that is a terminal."""
    from rich.console import Console
    from rich.progress import track

    return iter(track(items, what, total=total, console=Console(stderr=True), disable=not sys.stderr.isatty()))
