"""Dags: which ones load a pipeline, as the log names them. Users who may not read them can't see it."""

from __future__ import annotations

from itertools import islice

from airflow_kafka_offsets.ledger.state import State, Window

_LATEST = 10
"""How many of the last windows that have an attempt are looked at."""


def dags_of_pipeline(state: State) -> frozenset[str]:
    """The Dags that made the attempts at the last windows; empty if no attempt names a Dag."""
    tried = (window for window in reversed(state.windows.values()) if window.attempts)
    return frozenset().union(*map(dags_of_window, islice(tried, _LATEST)))


def dags_of_window(window: Window) -> frozenset[str]:
    """The Dags that made a window's attempts, the published one among them."""
    return frozenset(str(attempt.who["dag_id"]) for attempt in window.attempts if attempt.who.get("dag_id"))
