"""How a window is loaded again: by clearing the run that has loaded it. The ledger knows which one that was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_kafka_offsets.compat.airflow_versions import clears_run
from airflow_kafka_offsets.ledger.state import Window


def told_runs(windows: Iterable[Window]) -> Iterator[str]:
    """For each window, what clears the run that made its published attempt, or else its newest one, in words."""
    ways = {window.name: run_of(window) for window in windows}
    for name, way in ways.items():
        if way is None:
            yield f"No run of a Dag has loaded {name}: begin another attempt with kafka-offsets ledger begin."
        else:
            yield f"To load {name} again: {way}"


def run_of(window: Window) -> str | None:
    """What clears the run that made a window's published attempt, or else its newest one; None if no run did."""
    published = window.publication
    attempt = window.newest_attempt if published is None else window.attempt(published.attempt)
    who = {} if attempt is None else attempt.who
    if not who.get("dag_id") or not who.get("run_id"):
        return None
    return clears_run(str(who["dag_id"]), str(who["run_id"]))
