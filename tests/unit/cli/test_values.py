"""What the commands' arguments accept: a text that means nothing is refused, with what it should be."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets.cli import values
from airflow_kafka_offsets.cli.commands import COMMANDS, Group
from airflow_kafka_offsets.errors import ConfigurationError

NO_NUMBERS = ["", " 1", "1 ", "1_0", "+1", "1.0", "1e3", "0x1", "\u00b2", "\u0663", "\uff11", "nan", "9" * 30]
"""Python reads most of them."""


class TestNumbers:
    def test_are_read_within_their_bounds(self) -> None:
        assert [values.number("0"), values.number(str(2**63 - 1))] == [0, 2**63 - 1]

    @pytest.mark.parametrize("text", NO_NUMBERS)
    @pytest.mark.parametrize("read", [values.number, values.partition])
    def test_are_digits_alone(self, read: Callable[[str], int], text: str) -> None:
        with pytest.raises(ArgumentTypeError, match="give a whole number"):
            read(text)

    @pytest.mark.parametrize(
        ("read", "text"),
        [
            (values.number, "-1"),
            (values.number, str(2**63)),
            (values.partition, "100001"),
        ],
    )
    def test_are_refused_out_of_bounds(self, read: Callable[[str], int], text: str) -> None:
        with pytest.raises(ArgumentTypeError, match=f"not '{text}'"):
            read(text)


class TestPartitions:
    @pytest.mark.parametrize(
        ("text", "numbers"), [("0", [0]), ("0,2-5", [0, 2, 3, 4, 5]), ("5, 2-2 ,2", [2, 5]), ("3-4,4-5", [3, 4, 5])]
    )
    def test_are_numbers_and_ranges(self, text: str, numbers: list[int]) -> None:
        assert values.partitions(text) == numbers

    @pytest.mark.parametrize("text", ["", ",", "0,", "x", "-1", "2-", "-", "1-2-3", "\u00b2", "0-\u0663", "0-99999999"])
    def test_are_nothing_else(self, text: str) -> None:
        with pytest.raises(ArgumentTypeError, match="give partitions like 0,2-5"):
            values.partitions(text)

    @pytest.mark.parametrize("text", ["5-2", "0,5-2"])
    def test_do_not_run_backwards(self, text: str) -> None:
        with pytest.raises(ArgumentTypeError, match="5-2 is no range of partitions"):
            values.partitions(text)


class TestLengths:
    @pytest.mark.parametrize(("text", "seconds"), [("15m", 900), ("1h", 3600), ("1d", 86_400), ("90s", 90)])
    def test_are_a_number_and_a_unit(self, text: str, seconds: int) -> None:
        assert values.length(text).total_seconds() == seconds

    @pytest.mark.parametrize("text", ["", "1", "h", "1 h", "-1h", "1w", "1.5h", "\u0663h"])
    def test_are_nothing_else(self, text: str) -> None:
        with pytest.raises(ArgumentTypeError, match="give a length like"):
            values.length(text)


@pytest.mark.parametrize("text", ["", "Mars/Base", "../etc/passwd", "Europe"])
def test_a_time_zone_is_one_that_there_is(text: str) -> None:
    assert str(values.zone("Europe/Berlin")) == "Europe/Berlin"
    with pytest.raises(ArgumentTypeError, match="there is no time zone"):
        values.zone(text)


class TestLimits:
    def test_are_numbers_to_exceed(self) -> None:
        assert [values.above(text) for text in (">0", "> 10")] == [0, 10]

    @pytest.mark.parametrize("text", ["", "0", ">", ">-1", ">=1", "<1", ">x", ">\u0663"])
    def test_are_nothing_else(self, text: str) -> None:
        with pytest.raises(ArgumentTypeError, match="give a limit like '>0'"):
            values.above(text)


@pytest.mark.parametrize("text", ["", " "])
def test_a_name_is_not_empty(text: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="a name is empty"):
        values.name(text)


@pytest.mark.parametrize("text", [os.fsdecode(b"caf\xe9"), "x" * 32_768, "\u00e9" * 16_384])
def test_a_name_is_one_that_kafka_can_be_asked_for(text: str) -> None:
    """Otherwise, the request fails as if no broker answered."""
    with pytest.raises(ArgumentTypeError, match="a name must be UTF-8, of 32767 bytes at most, not '"):
        values.name(text)


@pytest.mark.parametrize("text", ["caf\u00e9", "x" * 32_767])
def test_a_name_may_be_any_other_text(text: str) -> None:
    assert values.name(text) == text


def texts(group: Group, names: tuple[str, ...] = ()) -> Iterator[Any]:
    """Each argument that takes a text, with what reads it."""
    for each in group.commands:
        if isinstance(each, Group):
            yield from texts(each, (*names, each.name))
            continue
        for argument in each.arguments:
            if argument.options.get("action", "append") == "append" and "choices" not in argument.options:
                yield pytest.param(argument.options["type"], id=" ".join((*names, each.name, argument.flags[-1])))


@pytest.mark.parametrize("text", ["", " "])
@pytest.mark.parametrize("read", list(texts(COMMANDS)))
def test_no_argument_takes_an_empty_text(read: Callable[[str], object], text: str) -> None:
    """As a shell makes it of a variable that isn't set: without its brokers, a command would ask another cluster."""
    with pytest.raises(ArgumentTypeError):
        read(text)


@pytest.mark.parametrize("beside", [{"at": "06:30"}, {"ledger": "/ledgers"}])
def test_what_means_nothing_beside_another_argument_is_refused(beside: dict[str, str]) -> None:
    args = SimpleNamespace(**{"at": None, "ledger": None} | beside)
    (name,) = beside
    with pytest.raises(ConfigurationError, match=f"^--{name} means nothing beside --to: leave it out"):
        values.refuse_beside(args, "--to", "--at", "--ledger")
    values.refuse_beside(SimpleNamespace(at=None, ledger=None), "--to", "--at", "--ledger")
