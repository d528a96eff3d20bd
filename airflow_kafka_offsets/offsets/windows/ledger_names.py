"""Names in a ledger: those of windows and of pipelines, and its identity.

A window's name is its two instants: ``20261121T050000000Z_20261121T060000000Z``.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError, InstantError, IntervalError, LedgerCorruptError
from airflow_kafka_offsets.offsets.instants import compact_instant, iso_instant, parse_instant

_ID = r"\d{8}T\d{9}Z_\d{8}T\d{9}Z"
_WINDOW = re.compile(_ID, re.ASCII)
_KEPT = 20_000
"""How many windows' extents are cached: more than a year of hourly windows."""


def check_pipeline_name(name: str) -> None:
    """Refuse what can't name a pipeline.

    :raises ConfigurationError: naming it.
    """
    if not isinstance(name, str) or not PIPELINE_NAME.fullmatch(name):
        raise ConfigurationError(
            "A pipeline's name has up to 200 letters, digits, '.', '_' and '-', and begins with a letter or digit, "
            f"because it names a folder; not {name!r}."
        )


def window_id(start_ms: int, end_ms: int) -> str:
    """The name of the window between two instants: ``20261121T050000000Z_20261121T060000000Z``.

    :raises IntervalError: when it is empty or inverted.
    """
    if start_ms >= end_ms:
        raise IntervalError(
            f"A window needs an end after its start; these are {iso_instant(start_ms)} and {iso_instant(end_ms)}."
        )
    return f"{compact_instant(start_ms)}_{compact_instant(end_ms)}"


@lru_cache(_KEPT)
def window_extent(name: str) -> tuple[int, int]:
    """A window's start and end in Unix milliseconds, from its name."""
    start, _, end = name.partition("_")
    return parse_instant(start), parse_instant(end)


def is_window(name: str) -> bool:
    """Whether a name has the form of a window's: two instants, the second one later. Not all digits make an instant."""
    try:
        return _WINDOW.fullmatch(name) is not None and window_id(*window_extent(name)) == name
    except (InstantError, IntervalError):
        return False


PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""Valid names of pipelines: a name becomes a folder, and part of SQL and of table properties."""
LEDGER_ID = re.compile(r"[0-9a-f]{32}")
"""A ledger's id: hexadecimal, which none of Spark's default redaction patterns for secrets matches."""
DRIVERS = "drivers"
"""Folder in the pipeline's folder with what drivers run."""


def json_of(content: bytes) -> dict[str, Any]:
    """A file's JSON object.

    :raises LedgerCorruptError: when it is something else, or half written.
    """
    try:
        fields = json.loads(content)
    except ValueError as error:
        raise LedgerCorruptError(f"It is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise LedgerCorruptError("It isn't a JSON object.")
    return fields
