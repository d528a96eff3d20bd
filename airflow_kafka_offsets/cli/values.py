"""What the commands' arguments accept: each reads a text, and refuses one that means nothing with what it should be.

Python's own readers accept too much: ``int`` takes ``1_000`` and the digits of all scripts.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from contextlib import suppress
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_kafka_offsets.arguments import LONGEST_NAME, can_be_sent
from airflow_kafka_offsets.errors import ConfigurationError

MOST_PARTITIONS = 100_000
"""More than any topic has."""
_MOST = 2**63 - 1
"""The highest offset."""
_SHOWN = 100
_NUMBER = re.compile(r"[0-9]{1,19}")
_LENGTH = re.compile(r"([0-9]{1,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def given(text: str) -> str:
    """Any text but an empty one. That is what a shell makes of a variable that isn't set, and in place of no argument
    it would mean another cluster, ledger or folder."""
    if not text.strip():
        raise ArgumentTypeError("it is empty: is a variable not set?")
    return text


def refuse_beside(args: Any, flag: str, *others: str) -> None:
    """Refuse arguments that mean nothing beside another one, where they would be ignored.

    :param flag: the one that is given.
    :raises ConfigurationError: naming both.
    """
    for other in others:
        if getattr(args, other.removeprefix("--").replace("-", "_")) is not None:
            raise ConfigurationError(f"{other} means nothing beside {flag}: leave it out.")


def number(text: str, least: int = 0, most: int = _MOST) -> int:
    """A whole number within bounds."""
    if _NUMBER.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    bounds = {_MOST: f", {least} or more"}.get(most, f" from {least} to {most}")
    raise ArgumentTypeError(f"give a whole number{bounds}, not {text!r}")


def partition(text: str) -> int:
    """The number of a partition."""
    return number(text, 0, MOST_PARTITIONS)


def partitions(text: str) -> list[int]:
    """Partition numbers such as ``0,2-5``, in order."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            start, end = partition(first), partition(last if dash else first)
        except ArgumentTypeError:
            raise ArgumentTypeError(f"give partitions like 0,2-5, up to {MOST_PARTITIONS}, not {text!r}") from None
        if end < start:
            raise ArgumentTypeError(f"{part.strip()} is no range of partitions: it ends before it starts")
        numbers.update(range(start, end + 1))
    return sorted(numbers)


def length(text: str) -> timedelta:
    """The length of windows, such as ``1h``."""
    if found := _LENGTH.fullmatch(text):
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    raise ArgumentTypeError(f"give a length like 15m, 1h or 1d, not {text!r}")


def zone(text: str) -> ZoneInfo:
    """A time zone, by its name."""
    try:
        return ZoneInfo(text)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise ArgumentTypeError(f"there is no time zone {text!r}") from None


def above(text: str) -> int:
    """A limit such as ``>0``: the number that has to be exceeded."""
    if text.startswith(">"):
        with suppress(ArgumentTypeError):
            return number(text[1:].strip())
    raise ArgumentTypeError(f"give a limit like '>0', in quotes, not {text!r}")


def name(text: str) -> str:
    """The name of a topic, group or pipeline."""
    if not text.strip():
        raise ArgumentTypeError("a name is empty: is a variable not set?")
    if can_be_sent(text):
        return text
    raise ArgumentTypeError(f"a name must be UTF-8, of {LONGEST_NAME} bytes at most, not {text[:_SHOWN]!r}")
