"""Tables for people: few short columns that fit a terminal, records upright where they don't, else one line a row.

Not its job: JSON and YAML, which have everything (:mod:`~airflow_kafka_offsets.cli.printing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

Row = Mapping[str, Any]

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


def telling(columns: Iterable[Column], rows: Sequence[Row]) -> list[Column]:
    """The columns that say something of these rows."""
    return [each for each in columns if not each.unless or any(row[each.name] not in each.unless for row in rows)]


def every_column(rows: Sequence[Row]) -> list[Column]:
    """All that the rows have, for ``--wide``."""
    return [Column(name, folds=any(len(_text(row[name])) > _LONG for row in rows)) for name in rows[0]]


def table(rows: Sequence[Row], columns: Sequence[Column], width: int | None) -> str:
    """A table, a line a row; where a terminal is too narrow for that, texts that fold are folded, and where that isn't
    enough each record is upright.

    :param width: columns of the terminal; None where there is none.
    """
    widths = [max(len(each.title), *(len(_text(row[each.name])) for row in rows)) for each in columns]
    if width is None:
        return _lines(rows, columns, widths)
    least = [min(natural, _NARROWEST) if each.folds else natural for each, natural in zip(columns, widths, strict=True)]
    if sum(least) + _GAP * (len(columns) - 1) > width:
        return "\n".join(upright(row, columns) for row in rows)
    return _folded(rows, columns, least, width)


def upright(row: Row, columns: Sequence[Column]) -> str:
    """One record, a field a line."""
    indent = max(len(each.title) for each in columns) + len(":") + _GAP
    return "".join(f"{each.title + ':':<{indent}}{_text(row[each.name])}\n" for each in columns)


def _lines(rows: Sequence[Row], columns: Sequence[Column], widths: Sequence[int]) -> str:
    right = [_is_number(each, rows) for each in columns]
    cells = [[each.title for each in columns], *([_text(row[each.name]) for each in columns] for row in rows)]
    lines = (
        (" " * _GAP).join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        )
        for line in cells
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _folded(rows: Sequence[Row], columns: Sequence[Column], least: Sequence[int], width: int) -> str:
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=None)
    for each, narrowest in zip(columns, least, strict=True):
        justify = "right" if _is_number(each, rows) else "left"
        grid.add_column(each.title, justify=justify, no_wrap=not each.folds, overflow="fold", min_width=narrowest)  # type: ignore[arg-type]
    for row in rows:
        grid.add_row(*(_text(row[each.name]) for each in columns))
    page = StringIO()
    Console(file=page, width=width, markup=False, highlight=False, emoji=False, color_system=None).print(grid)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def _is_number(column: Column, rows: Sequence[Row]) -> bool:
    found = [row[column.name] for row in rows if row[column.name] is not None]
    return bool(found) and all(isinstance(each, int) and not isinstance(each, bool) for each in found)


def printable(text: str) -> str:
    """A text that others wrote, as a terminal may show it: whoever names a group, or writes to a ledger, decides on its
    letters, and not on colours, links, the cursor, or where a line ends."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return printable(", ".join(map(str, value))) or "-"
    return printable(str(value))
