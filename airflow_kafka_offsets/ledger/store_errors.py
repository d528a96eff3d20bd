"""Telling errors of a ledger's store from others. Stores raise errors of their own, without a common class."""

from __future__ import annotations

from traceback import walk_tb

from airflow_kafka_offsets.ledger import storage

_LONGEST = 200
"""How much is shown of an error."""


def is_from_store(error: BaseException) -> bool:
    """Whether the store failed: the last module of this package in the traceback is the one that accesses files."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    ours = [name for name in modules if name.startswith("airflow_kafka_offsets.")]
    return bool(ours) and ours[-1] == storage.__name__


def first_line(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:_LONGEST].removesuffix(": ").rstrip(".")
