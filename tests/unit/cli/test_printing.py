"""How rows look in a terminal of a width, and where there is none."""

from __future__ import annotations

import json
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets.cli.printing import Column, command, print_record, table, telling
from airflow_kafka_offsets.errors import ConfigurationError, FailedWindow, WindowsFailedError

WINDOW = "20261120T060000000Z_20261120T070000000Z"
COLUMNS = (Column("topic", folds=True), Column("partition", "part"), Column("window"), Column("lag", unless=(None, 0)))


def row(**fields: Any) -> dict[str, Any]:
    return {"topic": "flights", "partition": 0, "window": WINDOW, "lag": 1_234_567} | fields


def test_a_row_is_a_line_that_fits() -> None:
    lines = table([row(), row(partition=12, lag=None)], COLUMNS, 80).splitlines()
    assert lines == [
        "topic    part  window                                       lag",
        f"flights     0  {WINDOW}  1234567",
        f"flights    12  {WINDOW}        -",
    ]


@pytest.mark.parametrize("width", [70, 80, 100, 120])
def test_a_long_name_is_folded_and_nothing_else_is_touched(width: int) -> None:
    name = "a-topic-of-" + "x" * 238
    lines = table([row(topic=name)], COLUMNS, width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(WINDOW in line and "1234567" in line for line in lines) == 1
    assert "".join(line.split()[0] for line in lines[1:]) == name


def test_where_the_terminal_is_too_narrow_records_are_upright() -> None:
    assert table([row()], COLUMNS, 40) == f"topic:   flights\npart:    0\nwindow:  {WINDOW}\nlag:     1234567\n"


def test_a_spare_column_is_left_out_where_the_terminal_is_too_narrow_for_it() -> None:
    columns = (*COLUMNS, Column("topic", "spare", spare=True))
    assert [len(table([row()], columns, width).splitlines()[0].split()) for width in (80, 70)] == [5, 4]


def test_a_column_that_says_nothing_is_left_out() -> None:
    assert [each.name for each in telling(COLUMNS, [row(lag=0), row(lag=None)])] == ["topic", "partition", "window"]
    assert len(telling(COLUMNS, [row(lag=0), row()])) == len(COLUMNS)


@pytest.mark.parametrize("width", [None, 200, 60, 20])
def test_what_others_wrote_moves_no_cursor_and_ends_no_line(width: int | None) -> None:
    """Whoever may write to the ledger or name a group would otherwise write to the terminal."""
    hostile = "\x1b]8;;http://x\x1b\\[bold]no[/]\x1b[2J\r\n\u202e\x9b31m[link=http://x]"
    page = table([{"group": hostile}, {"group": "b"}], [Column("group", folds=True)], width)
    assert all(line.isprintable() for line in page.splitlines())
    shown = "".join(page.split())
    assert all(each in shown for each in ("[bold]no[/]", "\\x1b[2J", "\\r\\n\\u202e\\x9b31m", "[link=http://x]"))


def test_windows_that_failed_are_a_table_that_names_each_error_once(capsys: pytest.CaptureFixture[str]) -> None:
    @command
    def fails(args: Any) -> int:
        told = ConfigurationError("ConfigurationError: no group \x1b[1m")
        raise WindowsFailedError([FailedWindow(name, "orders", told) for name in ("w1", "w2")], 3)

    with pytest.raises(SystemExit, match="1"):
        fails(Namespace(verbose=False))
    assert capsys.readouterr().err.splitlines() == [
        "kafka-offsets: 2 of 3 windows failed; the other 1 did not.",
        "window  pipeline  error               why",
        "w1      orders    ConfigurationError  no group \\x1b[1m",
        "w2      orders    ConfigurationError  the same",
    ]


class TestARecordOfParts:
    RECORD = {
        "window": WINDOW,
        "lag": None,
        "attempts": [{"attempt": 7, "rows": 3}],
        "losses": [],
    }
    PARTS = {
        "attempts": (Column("attempt"), Column("rows")),
        "losses": (Column("topic"),),
    }

    def printed(self, capsys: pytest.CaptureFixture[str], output: str) -> str:
        args = SimpleNamespace(output=output)
        print_record(self.RECORD, args, (Column("window"), Column("lag", unless=(None,))), self.PARTS)
        return capsys.readouterr().out

    def test_is_shown_with_a_table_for_each_part_that_has_something(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.printed(capsys, "table") == f"window:  {WINDOW}\n\nattempt  rows\n      7     3\n"

    def test_is_one_object_with_lists(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert json.loads(self.printed(capsys, "json")) == [self.RECORD]
