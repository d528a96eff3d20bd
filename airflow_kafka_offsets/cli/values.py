"""What the commands' arguments accept: each reads a text, and refuses one that means nothing with what it should be.

Python's own readers accept too much: ``int`` takes ``1_000`` and the digits of all scripts.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from contextlib import suppress

from airflow_kafka_offsets.arguments import LONGEST_NAME, can_be_sent

MOST_PARTITIONS = 100_000
"""More than any topic has."""
_MOST = 2**63 - 1
"""The highest offset."""
_SHOWN = 100
_NUMBER = re.compile(r"[0-9]{1,19}")


def number(text: str, least: int = 0, most: int = _MOST) -> int:
    """A whole number within bounds."""
    if _NUMBER.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    bounds = {_MOST: f", {least} or more"}.get(most, f" from {least} to {most}")
    raise ArgumentTypeError(f"give a whole number{bounds}, not {text!r}")


def positive(text: str) -> int:
    """A whole number, 1 or more."""
    return number(text, 1)


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
