"""A table as a sink: a window's rows are replaced in place, by one rule for all sinks. They are replaced in one step,
which records the attempt's number, unless they are of a higher number; the same number again changes nothing.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from airflow_kafka_offsets.errors import CommitConflictError


def replace(place: Path, number: int, rows: Mapping[str, list[int]]) -> None:
    """Replace a window's rows.

    :param place: the window's file.
    :param number: the attempt's number.
    :raises CommitConflictError: when they are of a higher number.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with _locked(place.with_suffix(".lock")):
        there = held_by(place)
        if there is not None and there > number:
            raise CommitConflictError(f"{place} has the rows of attempt {there}, which is later than {number}.")
        if there == number:
            return
        draft = place.with_suffix(".draft")
        draft.write_text(json.dumps({"attempt": number, "rows": rows}))
        draft.replace(place)


def held_by(place: Path) -> int | None:
    """Number of the attempt whose rows are there; None when there are none."""
    return int(json.loads(place.read_text())["attempt"]) if place.exists() else None


def rows_in(place: Path) -> Mapping[str, list[int]]:
    """The rows that are there."""
    found: Mapping[str, list[int]] = json.loads(place.read_text())["rows"] if place.exists() else {}
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; the lock of a process that dies is free."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
