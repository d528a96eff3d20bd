"""The loader: the Dag that loads a pipeline's windows; the holes that it is loading right now, as tasks report them;
and the command with which it loads the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.errors import HoleError, shorten
from airflow_kafka_offsets.ledger.holes import Hole, Stretch, Surroundings
from airflow_kafka_offsets.offsets.instants import iso_instant, to_datetime
from airflow_kafka_offsets.runs.schedule import Schedule

_AT_A_TIME = 100
"""How many logical dates Airflow is asked about in one request."""
_ACTIVE = ["queued", "running"]


@dataclass(frozen=True, slots=True)
class Loader:
    """The Dag that loads a pipeline's windows, as seen from one of its own tasks or from another Dag's task. Another
    Dag's schedule is unknown. ``ti`` is the running task instance, through which Airflow is asked."""

    schedule: Schedule
    ti: Any

    @classmethod
    def of(cls, context: Mapping[str, Any], attempt: Mapping[str, Any]) -> Loader:
        """The Dag that made an attempt, from the attempt's note in the ledger; the running Dag if the note doesn't
        say."""
        ti = context["ti"]
        dag_id = (attempt.get("airflow") or {}).get("dag_id") or ti.dag_id
        timetable = getattr(context.get("dag"), "timetable", None) if dag_id == ti.dag_id else None
        return cls(Schedule.of(dag_id, timetable), ti)

    def loads(self, stretch: Stretch) -> bool:
        """Whether Airflow has a queued or running run for each window that the schedule cuts from this stretch."""
        if stretch.start_ms is None:
            return False
        windows = self.schedule.windows(stretch.start_ms, stretch.end_ms)
        count = getattr(self.ti, "get_dr_count", None)
        if not windows or count is None:
            return False
        dates = [to_datetime(start_ms) for start_ms, _ in windows]
        parts = (dates[first : first + _AT_A_TIME] for first in range(0, len(dates), _AT_A_TIME))
        return all(count(self.schedule.dag_id, logical_dates=part, states=_ACTIVE) == len(part) for part in parts)

    def earlier_run(self) -> str | None:
        """An earlier run of this Dag that isn't over, so that its window may not be pinned yet. None if there is none,
        or if another Dag loads the windows."""
        previous = getattr(self.ti, "get_previous_dagrun", None)
        if previous is None or self.schedule.dag_id != self.ti.dag_id:
            return None
        found = filter(None, (previous(state=state) for state in _ACTIVE))
        return next((str(run.run_id) for run in found), None)

    def command(self, stretch: Stretch) -> str:
        """The command, or the action in words, that loads it."""
        schedule = self.schedule
        if stretch.start_ms is None:
            return (
                f"earlier runs of {schedule.dag_id}, up to {iso_instant(stretch.end_ms)}; or, if the group "
                "should skip these offsets, move it with kafka-offsets reset"
            )
        if stretch.start_ms == stretch.end_ms:
            end = iso_instant(stretch.end_ms)
            return f"the window that ends at {end}, after kafka-offsets ledger re-resolve"
        cut = schedule.cuts_at(stretch.start_ms) and schedule.cuts_at(stretch.end_ms)
        if cut and (schedule.timetable is None or schedule.gives_intervals or schedule.by_partition):
            return schedule.backfill(stretch.start_ms, stretch.end_ms)
        return (
            f"a run of {schedule.dag_id} with start={iso_instant(stretch.start_ms)} and "
            f"end={iso_instant(stretch.end_ms)}"
        )


@dataclass(frozen=True, slots=True)
class SeenHoles:
    """The holes around a window that was loaded.

    :param before: the hole between it and the nearest earlier published window; None if there is none.
    :param after: the hole between it and the nearest later published window; None if there is none.
    :param missing: the parts of ``before`` that nobody loads.
    :param alone: no other window is published.
    """

    before: Hole | None
    after: Hole | None
    missing: tuple[Stretch, ...]
    alone: bool

    @classmethod
    def around(cls, seen: Surroundings, loader: Loader) -> SeenHoles:
        """Look around a window. If parts seem to be missing, look again: a run that was loading them may have ended
        after the ledger was read and before Airflow was asked."""
        found = cls._as_seen(seen, loader)
        return cls._as_seen(seen.again(), loader) if found.missing else found

    @classmethod
    def _as_seen(cls, seen: Surroundings, loader: Loader) -> SeenHoles:
        before = seen.before()
        unpinned = () if before is None else before.unpinned
        missing = tuple(stretch for stretch in unpinned if not loader.loads(stretch))
        return cls(before, seen.after(), missing, seen.alone)

    def told(self) -> list[str]:
        """What to log, one item per line."""
        kind = "hole" if self.missing else "still being loaded"
        lines = [] if self.before is None else [f"{kind} before it: {self.before}"]
        return lines if self.after is None else [*lines, f"hole after it: {self.after}"]


def refusal(window: str, holes: Sequence[Hole], loader: Loader) -> HoleError:
    """The error for a window that comes after holes."""
    ways = [f"load what is missing: {loader.command(stretch)}" for hole in holes for stretch in hole.unpinned]
    pinned = [window for hole in holes for window in hole.pinned]
    if pinned:
        ways.append(
            f"load what is pinned: wait for the runs of {shorten(pinned)}, or clear them; take back a window "
            "that no run will load any more with kafka-offsets ledger forget"
        )
    return HoleError(
        f"Before window {window} there are offsets that no published window has: {shorten(map(str, holes))}. "
        f"To go on, {'; '.join(ways)}. "
        "Then clear this task, unless it is retried automatically. on_hole='warn' continues without them."
    )
