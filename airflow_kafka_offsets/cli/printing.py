"""Printing rows, and turning errors into one line and an exit code.

0: fine. 1: some partition, group or window is in error. 2: wrong usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from airflow.utils.cli import suppress_logs_and_warning

from airflow_kafka_offsets.cli.connections import as_server
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError

Row = Mapping[str, Any]
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
            print(f"airflow kafka-offsets: {error}", file=sys.stderr)
            sys.exit(2 if isinstance(error, ConfigurationError) else 1)

    return run


def print_rows(rows: Sequence[Row], output: str) -> None:
    """Print rows as Airflow's commands do; in JSON and YAML numbers stay numbers and unknown is null."""
    if output == "json":
        print(json.dumps(rows, indent=2))
    elif output == "yaml":
        from airflow.utils import yaml

        print(yaml.dump([dict(row) for row in rows], sort_keys=False), end="")
    else:
        from airflow.cli.simple_table import AirflowConsole

        texts = [{name: "-" if value is None else value for name, value in row.items()} for row in rows]
        AirflowConsole().print_as(texts, output=output)


def with_progress(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items as they come, with a bar on stderr where that is a terminal."""
    from rich.console import Console
    from rich.progress import track

    return iter(track(items, what, total=total, console=Console(stderr=True), disable=not sys.stderr.isatty()))
