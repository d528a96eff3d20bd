"""Checkpoints: what the commits up to a number add up to, as a file that may be deleted at any time.

A commit names the checkpoint that it rests on by its number and its hash. So one that is missing, torn, or forged is
found out, and costs time alone: the commits before it are read instead.
"""

from __future__ import annotations

import gc
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import (
    Attempted,
    Audited,
    Created,
    Output,
    Published,
    Restarted,
    Snapshotted,
    entry_from_json,
    entry_to_json,
)
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.partitions import LogRange

FORMAT = 1


def to_bytes(state: State) -> bytes:
    """A state as compressed JSON: rows without names, because a year has many."""
    fields = {
        "format": FORMAT,
        "number": state.number,
        "entries": [entry_to_json(each) for each in (state.created, *state.restarts) if each is not None],
        "snapshots": list(state.snapshots.values()),
        "windows": list(state.windows.values()),
        "turned": state.turned,
        "rows_left": sorted(state.rows_left),
    }
    return gzip.compress(json.dumps(fields, separators=(",", ":")).encode(), mtime=0)


def from_bytes(content: bytes) -> State:
    """The inverse of :func:`to_bytes`.

    :raises LedgerCorruptError: when it is something else.
    """
    try:
        with _uncollected():
            return _from_json(json.loads(gzip.decompress(content)))
    except (EOFError, OSError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise LedgerCorruptError(f"This is not a checkpoint: {error!r}.") from error


@contextmanager
def _uncollected() -> Iterator[None]:
    """Python's collector would look through all rows again and again while they are made, for most of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _from_json(fields: dict[str, Any]) -> State:
    if fields["format"] != FORMAT:
        raise ValueError(f"format {fields['format']!r}")
    entries = list(map(entry_from_json, fields["entries"]))
    return State(
        number=fields["number"],
        created=next((each for each in entries if isinstance(each, Created)), None),
        snapshots={row[0]: Snapshotted._make(row) for row in fields["snapshots"]},
        windows={row[0]: _window(row) for row in fields["windows"]},
        turned=fields["turned"],
        rows_left=frozenset(fields["rows_left"]),
        restarts=tuple(each for each in entries if isinstance(each, Restarted)),
    )


def _window(row: list[Any]) -> Window:
    *plain, reloaded_by, attempts, published, audits, census = row
    made = tuple(Attempted(name, who, tuple(map(LogRange._make, lost)), *rest) for name, who, lost, *rest in attempts)
    publication = None
    if published is not None:
        name, attempt, run, result, outputs, *rest = published
        publication = Published(name, attempt, run, result, tuple(map(Output._make, outputs)), *rest)
    return Window._make((*plain, tuple(reloaded_by), made, publication, tuple(map(Audited._make, audits)), census))
