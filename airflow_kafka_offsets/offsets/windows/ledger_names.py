"""Names in a ledger: those of windows and of pipelines, and its identity.

A window's name is its two instants: ``20261121T050000000Z_20261121T060000000Z``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from airflow_kafka_offsets.errors import ConfigurationError, InstantError, IntervalError, shorten
from airflow_kafka_offsets.offsets.instants import compact_instant, iso_instant, parse_instant

_ID = r"\d{8}T\d{9}Z_\d{8}T\d{9}Z"
_WINDOW = re.compile(_ID, re.ASCII)
_KEPT = 20_000
"""How many windows' extents are cached: more than a year of hourly windows."""
_FAR_FUTURE_MS = 253_402_300_799_000
"""End of the year 9999, the last instant that a name can have."""


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


def whole_windows(published: Iterable[str], start_ms: int | None, end_ms: int | None) -> list[str]:
    """The windows between two instants. Windows are read whole, and never cross, so their names alone say which.

    :param published: names of windows, in order.
    :param start_ms: the first instant, Unix milliseconds; None for no bound.
    :param end_ms: the other one, exclusive; None for no bound.
    :raises IntervalError: when nothing lies between the two, or a window crosses one of them.
    """
    low, high = 0 if start_ms is None else start_ms, _FAR_FUTURE_MS if end_ms is None else end_ms
    if low >= high:
        raise IntervalError(f"Nothing lies between the start {iso_instant(low)} and the end {iso_instant(high)}.")
    extents = {window: window_extent(window) for window in published}
    found = [window for window, (start, end) in extents.items() if start < high and end > low]
    crossing = [window for window in found if extents[window][0] < low or extents[window][1] > high]
    if crossing:
        raise IntervalError(
            f"The bounds cut through {shorten(crossing)}. Give the start and the end of whole windows, and "
            "filter rows by their timestamp if that is what you mean."
        )
    return found


PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""Valid names of pipelines: a name becomes a folder, and part of SQL and of table properties."""
LEDGER_ID = re.compile(r"[0-9a-f]{32}")
"""A ledger's id: hexadecimal, which none of Spark's default redaction patterns for secrets matches."""
DRIVERS = "drivers"
"""Folder in the pipeline's folder with what drivers run."""
