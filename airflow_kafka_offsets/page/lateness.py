"""What a pipeline should load next, and when it is due: by the pace of its windows, whether a schedule makes them or
they are increments.

A window's usual delay is from its end to its publication. It counts at most as long as a window is: else a backfill, or
a Dag that catches up, would pass as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.ledger.counted import WindowStatus
from airflow_kafka_offsets.ledger.state import State, Window

Json = dict[str, Any]
_MINUTE_MS = 60_000
_RECENT = 20
"""How many windows the pace is taken from: the last published ones; all, if none is."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a pipeline's windows.

    :param length_ms: how long a window usually is, milliseconds; at least a minute.
    :param delay_ms: how long after its end it is usually published, milliseconds; at most its length.
    """

    length_ms: int
    delay_ms: int

    @classmethod
    def of(cls, state: State) -> Self | None:
        """The pace of a pipeline; None without windows. The first increment tells it only where there is no other: it
        starts where the pipeline begins, which may be a moment or a month before."""
        known = [each for each in state.windows.values() if not _begins(state, each)] or list(state.windows.values())
        recent = [each for each in known if each.publication is not None][-_RECENT:]
        lengths = [each.end_ms - each.start_ms for each in recent or known[-_RECENT:]]
        if not lengths:
            return None
        length_ms = max(_MINUTE_MS, median_low(lengths))
        delays = [each.publication.published_ms - each.end_ms for each in recent if each.publication is not None]
        return cls(length_ms, max(0, min(length_ms, median_low(delays) if delays else length_ms)))


def _begins(state: State, window: Window) -> bool:
    """Whether it is an increment that starts where its pipeline begins."""
    return window.by is not None and state.snapshots[window.start_ms].is_origin


def next_window(state: State, status: Mapping[str, WindowStatus]) -> Json | None:
    """What is to be loaded next: the first window that isn't published; or else the one that is to follow the last, as
    long as windows usually are. A window whose tables were audited is loaded by something else. Without windows, None::

        window      its name; None if it isn't pinned yet
        state       its status; None likewise
        start_ms, end_ms
        increments  whether a run loads all that is new, however long that takes
        length_ms   how long windows usually are
        delay_ms    how long after its end a window is usually published
        backfills   how many windows of a backfill aren't published

    What no window has is no window's delay, but a hole; and what a backfill pins isn't late, however long ago it was.

    :param status: that of each window.
    """
    pace = Pace.of(state)
    if pace is None or state.last_window is None:
        return None
    backfills = backfilling(state)
    increments = state.last_window.by is not None
    usual = {
        "increments": increments,
        "length_ms": pace.length_ms,
        "delay_ms": pace.delay_ms,
        "backfills": len(backfills),
    }
    unpublished = (each for each in state.windows.values() if each.publication is None and not each.audits)
    waiting = next((each for each in unpublished if each.name not in backfills), None)
    if waiting is None:
        start_ms = state.last_window.end_ms
        return {"window": None, "state": None, "start_ms": start_ms, "end_ms": start_ms + pace.length_ms} | usual
    extent = {"start_ms": waiting.start_ms, "end_ms": waiting.end_ms}
    return {"window": waiting.name, "state": status[waiting.name]} | extent | usual


def late_ms(following: Json, now_ms: int) -> int | None:
    """By how much what :func:`next_window` found is late, milliseconds after it was due; None if it isn't: it has to
    take more than twice the usual delay. The page's script (``static/lateness.js``) says the same, and also asks what
    Airflow schedules."""
    late = now_ms - following["end_ms"] - following["delay_ms"]
    return late if late > max(_MINUTE_MS, following["delay_ms"]) else None


def backfilling(state: State) -> frozenset[str]:
    """The unpublished windows that were pinned when a later one was there, as a backfill does it."""
    found, lowest = [], state.number + 1
    for each in reversed(state.windows.values()):
        if each.publication is None and not each.audits and each.number > lowest:
            found.append(each.name)
        lowest = min(lowest, each.number)
    return frozenset(found)
