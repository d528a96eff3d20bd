"""Printing rows, and turning errors into one line, or a table of windows, and an exit code. Tables have a few short
columns, to fit a terminal. If they don't fit, each record is printed with one field per line; without a terminal, every
row is one line.

Exit codes: 0 for success, 1 if a partition, group or window is in error, 2 for wrong usage.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from io import StringIO
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NoReturn

from airflow_kafka_offsets.cli.connections import as_server, asks_airflow, store_failure
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError, WindowsFailedError

Command = Callable[[Any], int]
Row = dict[str, Any]

_GAP = 2
"""Spaces between two columns."""
_NARROWEST = 12
"""Least width of a folded column."""


def command(function: Command) -> Callable[[Any], None]:
    """Turn a function that returns an exit code into a command for Airflow."""

    @wraps(function)
    def run(args: Any) -> None:
        try:
            with as_server():
                code = _with_airflow(function, args) if asks_airflow(args) else _alone(function, args)
        except KafkaOffsetsError as error:
            _end_with(error)
        except Exception as error:
            failure = store_failure(error, getattr(args, "ledger", None))
            if failure is None:
                raise
            _end_with(failure)
        if code:
            sys.exit(code)

    return run


def _alone(function: Command, args: Any) -> int:
    """Run a command without the log messages and warnings of libraries, which ``--verbose`` shows."""
    if args.verbose:
        return function(args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            return function(args)
        finally:
            logging.disable(logging.NOTSET)


def _with_airflow(function: Command, args: Any) -> int:
    """The same when Airflow is loaded, whose log would go to stdout, among the rows."""
    from airflow.utils.cli import suppress_logs_and_warning

    codes: list[int] = []
    suppress_logs_and_warning(lambda args: codes.append(function(args)))(args)
    return codes[0]


def _end_with(error: KafkaOffsetsError) -> NoReturn:
    lines = str(error).splitlines() if isinstance(error, WindowsFailedError) else [str(error)]
    print("kafka-offsets:", "\n".join(map(printable, lines)), file=sys.stderr)
    sys.exit(2 if isinstance(error, ConfigurationError) else 1)


def print_remark(text: str) -> None:
    """Print a remark on the answer, to stderr."""
    print(f"kafka-offsets: {printable(text)}", file=sys.stderr)


def print_rows(rows: Sequence[Row], args: Any, columns: Sequence[Column]) -> None:
    """Print rows in the format of ``--output``. JSON has all fields; numbers are numbers, and unknown values are null.
    Tables have the given columns.

    :param columns: the table's columns, which fit 80 characters.
    """
    if args.output == "json":
        print(json.dumps(rows, indent=2))
    elif not rows:
        print("No data found")
    else:
        width = get_terminal_size().columns if sys.stdout.isatty() else None
        shown = telling(columns, rows)
        print(table([_for_people(row, shown) for row in rows], shown, width), end="")


def print_record(
    record: Row, args: Any, columns: Sequence[Column], parts: Mapping[str, Sequence[Column]] | None = None
) -> None:
    """Print one record, in a table with one field per line. Its fields may be lists of records, each of which is shown
    as a table of its own below.

    :param columns: the record's own columns.
    :param parts: the columns of its lists, by field.
    """
    if args.output == "json":
        print_rows([record], args, columns)
        return
    shown = telling(columns, [record])
    print(upright(_for_people(record, shown), shown), end="")
    for name, part in (parts or {}).items():
        if record[name]:
            print()
            print_rows(record[name], args, part)


def write_file(path: str, text: str) -> None:
    """Write a text to a file that the user has named."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error.strerror or error}.") from error


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a narrow table.

    :param name: the row's key.
    :param label: its heading; None for the key.
    :param folds: whether its texts, such as names of any length, may take several lines. Others are never cut.
    :param unless: values that say nothing: if all rows have one of them, the column is left out.
    :param spare: whether it is left out where the terminal is too narrow for the whole table.
    :param as_text: how its values are shown to people; None to show them as they are.
    """

    name: str
    label: str | None = None
    folds: bool = False
    unless: tuple[Any, ...] = ()
    spare: bool = False
    as_text: Callable[[Any], str] | None = None

    @property
    def title(self) -> str:
        return self.label or self.name


def _for_people(row: Row, columns: Iterable[Column]) -> Row:
    texts = {each.name: each.as_text(row[each.name]) for each in columns if each.as_text and row[each.name] is not None}
    return row | texts if texts else row


def row_of(element: Any, *names: str) -> Row:
    """Fields of an object as JSON values: errors and outcomes become strings."""
    return {name: _plain(getattr(element, name)) for name in names}


def _plain(value: Any) -> Any:
    if value is None or type(value) in (int, str):
        return value
    return list(value) if isinstance(value, tuple) else str(value)


def telling(columns: Iterable[Column], rows: Sequence[Row]) -> list[Column]:
    """The columns that say something about these rows."""
    return [
        column for column in columns if not column.unless or any(row[column.name] not in column.unless for row in rows)
    ]


def table(rows: Sequence[Row], columns: Sequence[Column], width: int | None) -> str:
    """A table with one line per row. If the terminal is too narrow, texts that may fold are folded, and spare columns
    left out; if that isn't enough, each record is printed with one field per line.

    :param width: the terminal's width in characters; None when there is no terminal.
    """
    widths = [max(len(column.title), *(len(_text(row[column.name])) for row in rows)) for column in columns]
    if width is None:
        return _lines(rows, columns, widths)
    least = [
        min(natural, _NARROWEST) if column.folds else natural for column, natural in zip(columns, widths, strict=True)
    ]
    if sum(least) + _GAP * (len(columns) - 1) <= width:
        return _folded(rows, columns, least, width)
    kept = [column for column in columns if not column.spare]
    return table(rows, kept, width) if len(kept) < len(columns) else "\n".join(upright(row, columns) for row in rows)


def upright(row: Row, columns: Sequence[Column]) -> str:
    """One record, with one field per line."""
    indent = max(len(column.title) for column in columns) + len(":") + _GAP
    return "".join(f"{column.title + ':':<{indent}}{_text(row[column.name])}\n" for column in columns)


def _lines(rows: Sequence[Row], columns: Sequence[Column], widths: Sequence[int]) -> str:
    """The same as rich's table prints, in a twentieth of the time: there may be ten thousand rows."""
    pads = [
        f">{width}" if _is_number(column, rows) else f"<{width}" for column, width in zip(columns, widths, strict=True)
    ]
    cells = [[column.title for column in columns], *([_text(row[column.name]) for column in columns] for row in rows)]
    lines = ((" " * _GAP).join(map(format, line, pads)) for line in cells)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _folded(rows: Sequence[Row], columns: Sequence[Column], least: Sequence[int], width: int) -> str:
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=None)
    for column, narrowest in zip(columns, least, strict=True):
        justify = "right" if _is_number(column, rows) else "left"
        grid.add_column(column.title, justify=justify, no_wrap=not column.folds, overflow="fold", min_width=narrowest)  # type: ignore[arg-type]
    for row in rows:
        grid.add_row(*(_text(row[column.name]) for column in columns))
    page = StringIO()
    Console(file=page, width=width, markup=False, highlight=False, emoji=False, color_system=None).print(grid)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def _is_number(column: Column, rows: Sequence[Row]) -> bool:
    found = [row[column.name] for row in rows if row[column.name] is not None]
    return bool(found) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)


def printable(text: str) -> str:
    """A text that others wrote, made safe for a terminal. Anyone who names a group, or writes to a ledger, chooses its
    letters, but must not control colors, links, the cursor or line ends."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return printable(", ".join(map(str, value))) or "-"
    return printable(str(value))
