"""Reading: which published windows are read together. Windows are read whole, and those of a pipeline never cross, so
their names alone say which.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.errors import IntervalError, shorten
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent

_FAR_FUTURE_MS = 253_402_300_799_000
"""End of the year 9999, the last instant that a name can have."""


def whole_windows(published: Iterable[str], start_ms: int | None, end_ms: int | None) -> list[str]:
    """The windows between two instants.

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
