"""Tables for people: few short columns that fit a terminal, records upright where they don't, else one line a row.

Not its job: JSON and YAML, which have everything (:mod:`~airflow_kafka_offsets.cli.printing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]

_GAP = 2
"""Blanks between two columns."""
_NARROWEST = 12
"""A column of long texts is folded to no less."""
_LONG = 40
"""From so many characters on a text of a wide table may be folded."""


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
    return bool(found) and all(isinstance(value, int) and not isinstance(value, bool) for value in found)


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
