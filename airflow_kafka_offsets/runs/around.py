"""What is around a window: the published windows that it meets, holes, and restarts; and the command that loads a hole.

Only the ledger says what a hole is. What Dag runs will do about it isn't guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.errors import HoleError, shorten
from airflow_kafka_offsets.ledger import holes
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.holes import Missing
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.instants import iso_instant


@dataclass(frozen=True, slots=True)
class Around:
    """What is around a published window.

    :param before: what no published window has between it and the nearest earlier one; None if there is nothing.
    :param after: the same for the nearest later one.
    :param restarts: the restarts of its topics within it, or between it and the nearest earlier one.
    :param alone: no other window is published.
    """

    before: Missing | None
    after: Missing | None
    restarts: tuple[Restarted, ...]
    alone: bool

    @classmethod
    def of(cls, ledger: Ledger, window: Window) -> Around:
        """Look around a window. If a hole is found, look again: a window may have been pinned in it meanwhile."""
        found = cls._as_seen(ledger, window)
        if found.holes:
            ledger.read()
            found = cls._as_seen(ledger, window)
        return found

    @classmethod
    def _as_seen(cls, ledger: Ledger, window: Window) -> Around:
        state = ledger.state
        hole = holes.before(state, window)
        since_ms = window.start_ms if hole is None else hole.start_ms
        restarts = tuple(each for _, each in state.restarts if since_ms < each.at_ms <= window.end_ms)
        after = holes.missing(ledger, holes.after(state, window))
        alone = all(each.name == window.name for each in state.published)
        return cls(holes.missing(ledger, hole), after, restarts, alone)

    @property
    def holes(self) -> tuple[str, ...]:
        """The hole before the window, if no window has some of it, in words."""
        return (str(self.before),) if self.before is not None and self.before.unpinned else ()

    def told(self) -> list[str]:
        """What to log, one item per line."""
        lines = []
        if self.before is not None:
            kind = "hole" if self.before.unpinned else "not loaded yet"
            lines.append(f"{kind} before it: {self.before}")
        if self.after is not None:
            kind = "hole" if self.after.unpinned else "not loaded yet"
            lines.append(f"{kind} after it: {self.after}")
        return [*lines, *map(str, self.restarts)]

    def __str__(self) -> str:
        return "; ".join(self.told()) or ("no neighbour yet" if self.alone else "tiles")


def refusal(context: Mapping[str, Any], who: Mapping[str, Any], window: str, missing: Sequence[Missing]) -> HoleError:
    """The error for a window that comes after holes.

    :param context: Airflow's task context.
    :param who: who made the window's published attempt: the Dag that loads the pipeline.
    """
    dag_id = str(who.get("dag_id") or context["ti"].dag_id)
    ways = [f"load what is missing: {_command(dag_id, each)}" for each in missing if each.unpinned]
    pinned = [window.name for each in missing for window in each.hole.pinned if window.offsets]
    if pinned:
        ways.append(
            f"load what is pinned: wait for the runs of {shorten(pinned)}, or clear them; a window that no run will "
            "load any more is taken away with kafka-offsets ledger void"
        )
    return HoleError(
        f"Before window {window} there are offsets that no published window has: {shorten(map(str, missing))}. "
        f"To go on, {'; '.join(ways)}. "
        "Then clear this task, unless it is retried automatically. on_hole='warn' continues without them."
    )


def _command(dag_id: str, missing: Missing) -> str:
    """How to load a hole. A neighbour that the dates take in as well is published, and so left alone."""
    start, end = iso_instant(missing.hole.start_ms), iso_instant(missing.hole.end_ms)
    return (
        f"airflow backfill create --dag-id {dag_id} --from-date {start} --to-date {end} --reprocess-behavior failed, "
        f"or a run of {dag_id} with start={start} and end={end}"
    )
