"""Printing rows, and turning errors into one line and an exit code. Tables have few short columns that fit a terminal;
records are upright where they don't, and without a terminal one line a row.

0: fine. 1: some partition, group or window is in error. 2: wrong usage.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from io import StringIO
from shutil import get_terminal_size
from typing import Any, NoReturn, TypeVar

from airflow_kafka_offsets.cli.connections import as_server, asks_airflow, store_failure
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange

Command = Callable[[Any], int]
T = TypeVar("T")
Row = dict[str, Any]

_GAP = 2
"""Blanks between two columns."""
_NARROWEST = 12
"""A column of long texts is folded to no less."""
_WIDEST = 100
"""Bars end here, however wide the terminal is."""
_BLOCKS = " ▏▎▍▌▋▊▉█"
"""Bars of no eighth to eight eighths of a letter."""
_LONG = 40
"""From so many characters on a text of a wide table may be folded."""


def command(function: Command) -> Callable[[Any], None]:
    """Make a function that returns an exit code a command of Airflow's."""

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
    """Without what libraries log and warn of; ``--verbose`` shows it."""
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
    """The same where Airflow's own log goes to stdout, among the rows."""
    from airflow.utils.cli import suppress_logs_and_warning

    codes: list[int] = []
    suppress_logs_and_warning(lambda args: codes.append(function(args)))(args)
    return codes[0]


def _end_with(error: KafkaOffsetsError) -> NoReturn:
    print(f"kafka-offsets: {printable(str(error))}", file=sys.stderr)
    sys.exit(2 if isinstance(error, ConfigurationError) else 1)


def print_remark(text: str) -> None:
    """Say beside the answer what it leaves open."""
    print(f"kafka-offsets: {printable(text)}", file=sys.stderr)


def print_rows(
    rows: Sequence[Row], args: Any, columns: Sequence[Column], *, single: bool = False, drawn: str | None = None
) -> None:
    """Print rows as ``--output`` asks. In JSON and YAML all fields are there, numbers are numbers and unknown is null;
    tables have the columns, or all fields with ``--wide``.

    :param columns: of a table that fits 80 columns.
    :param single: there is one record, which a terminal gets upright.
    :param drawn: the field that a terminal gets a bar of, beside the table, where there is room.
    """
    if args.output == "json":
        print(json.dumps(rows, indent=2))
    elif args.output == "yaml":
        import yaml  # type: ignore[import-untyped]

        print(yaml.safe_dump(list(rows), sort_keys=False), end="")
    elif not rows:
        print("No data found")
    else:
        shown = every_column(rows) if args.wide else telling(columns, rows)
        _print_table(rows, shown, args.output, single, None if args.wide else drawn)


def _print_table(rows: Sequence[Row], columns: Sequence[Column], output: str, single: bool, drawn: str | None) -> None:
    if output == "plain" or not sys.stdout.isatty():
        print(table(rows, columns, None), end="")
    elif single:
        print(upright(rows[0], columns), end="")
    else:
        width = get_terminal_size().columns
        text = table(rows, columns, width)
        if drawn is not None and _has_blocks():
            text = with_bars(text, [row[drawn] for row in rows], width)
        print(text, end="")


def with_progress(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items as they come, with a bar on stderr where that is a terminal."""
    from rich.console import Console
    from rich.progress import track

    return iter(track(items, what, total=total, console=Console(stderr=True), disable=not sys.stderr.isatty()))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a narrow table.

    :param name: the row's key.
    :param label: what stands above it; None for the key.
    :param folds: its texts may take several lines, as names of any length do. Others are never cut.
    :param unless: values that say nothing: where all rows have one of them, the column is left out.
    """

    name: str
    label: str | None = None
    folds: bool = False
    unless: tuple[Any, ...] = ()

    @property
    def title(self) -> str:
        return self.label or self.name


def row_of(element: Any, *names: str) -> Row:
    """Fields of something, as JSON has them: errors and outcomes are texts."""
    return {name: _plain(getattr(element, name)) for name in names}


def range_row(pinned: OffsetRange) -> Row:
    """A range, as every row with one has it."""
    return (
        row_of(pinned, "partition", "start_offset", "end_offset")
        | {"offsets": pinned.span, "lost": pinned.lost_offsets}
        | row_of(pinned, "start_evidence", "end_evidence")
    )


def _plain(value: Any) -> Any:
    if value is None or type(value) in (int, str):
        return value
    return list(value) if isinstance(value, tuple) else str(value)


def telling(columns: Iterable[Column], rows: Sequence[Row]) -> list[Column]:
    """The columns that say something of these rows."""
    return [
        column for column in columns if not column.unless or any(row[column.name] not in column.unless for row in rows)
    ]


def every_column(rows: Sequence[Row]) -> list[Column]:
    """All that the rows have, for ``--wide``."""
    return [Column(name, folds=any(len(_text(row[name])) > _LONG for row in rows)) for name in rows[0]]


def table(rows: Sequence[Row], columns: Sequence[Column], width: int | None) -> str:
    """A table, a line a row; where a terminal is too narrow for that, texts that fold are folded, and where that isn't
    enough each record is upright.

    :param width: columns of the terminal; None where there is none.
    """
    widths = [max(len(column.title), *(len(_text(row[column.name])) for row in rows)) for column in columns]
    if width is None:
        return _lines(rows, columns, widths)
    least = [
        min(natural, _NARROWEST) if column.folds else natural for column, natural in zip(columns, widths, strict=True)
    ]
    if sum(least) + _GAP * (len(columns) - 1) > width:
        return "\n".join(upright(row, columns) for row in rows)
    return _folded(rows, columns, least, width)


def with_bars(text: str, values: Sequence[int | None], width: int) -> str:
    """A table with a bar at the end of each line, as long as the line's value is of the greatest one; the table alone
    where there is no room, or nothing to compare.

    :param values: what each row is to be drawn by; None has no bar.
    """
    title, *lines = text.splitlines()
    start = max(map(len, (title, *lines))) + _GAP
    room, most = min(width, _WIDEST) - start, max((value or 0 for value in values), default=0)
    if len(lines) != len(values) or room < _NARROWEST or len(values) < 2 or most <= 0:
        return text
    drawn = (f"{line:<{start}}{_bar(value, most, room)}".rstrip() for line, value in zip(lines, values, strict=True))
    return "".join(f"{line}\n" for line in (title, *drawn))


def _has_blocks() -> bool:
    """Whether the terminal's letters are those that bars are made of."""
    try:
        _BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _bar(value: int | None, most: int, room: int) -> str:
    """Whole blocks, and one of an eighth or more for the rest: what isn't 0 is seen."""
    if not value or value < 0:
        return ""
    whole, rest = divmod(max(1, round(value / most * room * 8)), 8)
    return _BLOCKS[8] * whole + _BLOCKS[rest].strip()


def upright(row: Row, columns: Sequence[Column]) -> str:
    """One record, a field a line."""
    indent = max(len(column.title) for column in columns) + len(":") + _GAP
    return "".join(f"{column.title + ':':<{indent}}{_text(row[column.name])}\n" for column in columns)


def _lines(rows: Sequence[Row], columns: Sequence[Column], widths: Sequence[int]) -> str:
    """What rich's table would print, in a twentieth of the time: there may be ten thousand rows."""
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
    """A text that others wrote, as a terminal may show it: whoever names a group, or writes to a ledger, decides on its
    letters, and not on colours, links, the cursor, or where a line ends."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return printable(", ".join(map(str, value))) or "-"
    return printable(str(value))
