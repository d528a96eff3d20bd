"""What is around a window: the published windows that it meets, holes, and restarts; and the commands that load a hole,
or a window again.

Only the ledger says what a hole is, and which run has loaded a window. What Dag runs will do isn't guessed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.compat.airflow_versions import clears_run
from airflow_kafka_offsets.errors import HoleError, shorten
from airflow_kafka_offsets.ledger.holes import Hole, between_published, hole_between, skipped_by
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.instants import iso_instant


@dataclass(frozen=True, slots=True)
class Around:
    """What is around a published window.

    :param skipped: the holes that it answers for.
    :param before: what no published window has between it and the nearest earlier one; None if there is nothing.
    :param after: the same for the nearest later one.
    :param restarts: the restarts within it, or between it and the nearest earlier one, in words.
    :param alone: no other window is published.
    """

    skipped: tuple[Hole, ...]
    before: Hole | None
    after: Hole | None
    restarts: tuple[str, ...]
    alone: bool

    @classmethod
    def of(cls, ledger: Ledger, window: Window) -> Around:
        """Look around a window. If a hole is found, look again: a window may have been pinned in it meanwhile."""
        around = cls._as_seen(ledger, window)
        if around.skipped:
            ledger.read()
            around = cls._as_seen(ledger, window)
        return around

    @classmethod
    def _as_seen(cls, ledger: Ledger, window: Window) -> Around:
        state, times = ledger.state, between_published(ledger.state)
        before = next((each for each in times if each[1] == window.start_ms), None)
        after = next((each for each in times if each[0] == window.end_ms), None)
        since_ms = window.start_ms if before is None else before[0]
        return cls(
            tuple(skipped_by(ledger, window)),
            None if before is None else hole_between(ledger, *before),
            None if after is None else hole_between(ledger, *after),
            tuple(str(each) for each in state.restarts if since_ms < each.at_ms <= window.end_ms),
            all(each.name == window.name for each in state.published),
        )

    @property
    def holes(self) -> tuple[str, ...]:
        """The hole before the window, if no window has some of it, in words."""
        return (str(self.before),) if self.before is not None and self.before.unpinned else ()

    def told(self) -> list[str]:
        """What to log, one item per line."""
        beside = (("before", self.before), ("after", self.after))
        lines = [
            f"{'hole' if hole.unpinned else 'not loaded yet'} {side} it: {hole}"
            for side, hole in beside
            if hole is not None
        ]
        return [*lines, *self.restarts]

    def __str__(self) -> str:
        return "; ".join(self.told()) or ("no neighbour yet" if self.alone else "tiles")


def is_backfill(context: Mapping[str, Any]) -> bool:
    """Whether a task belongs to a run of a backfill."""
    return getattr(context.get("dag_run"), "run_type", None) == "backfill"


def refusal(context: Mapping[str, Any], who: Mapping[str, Any], window: str, missing: Sequence[Hole]) -> HoleError:
    """The error for a window that comes after holes.

    :param context: Airflow's task context.
    :param who: who made the window's published attempt: the Dag that loads the pipeline.
    """
    dag_id = str(who.get("dag_id") or context["ti"].dag_id)
    commands = [", or ".join(_ways(dag_id, each)) for each in missing if each.unpinned]
    ways = [f"load what is missing: {shorten(commands)}"] if commands else []
    pinned = [window for each in missing for window in each.pinned if window.offsets]
    if pinned:
        runs = shorten(dict.fromkeys(filter(None, map(run_of, pinned))))
        ways.append(
            f"load what is pinned: wait for the runs of {shorten(window.name for window in pinned)}, or clear them"
            f"{f' ({runs})' if runs else ''}; a window that no run will load any more is taken away with kafka-offsets "
            "ledger void"
        )
    return HoleError(
        f"Before window {window} there are offsets that no published window has: {shorten(map(str, missing))}. "
        f"To go on, {'; '.join(ways)}. "
        "Then clear this task, unless it is retried automatically. on_hole='warn' continues without them."
    )


def filled_by(state: State, hole: Hole, shown: Collection[str] | None = None) -> list[str]:
    """Ways to load a hole: by the Dag that has loaded the window before it, or else the first one after it.

    :param shown: the Dags that may be named; None for all.
    """
    published = list(state.published)
    before = bisect_right(published, hole.start_ms, key=lambda window: window.end_ms)
    near = published[max(0, before - 1) : before + 1]
    found = (window.attempt(window.publication.attempt) for window in near if window.publication is not None)
    dag_ids = [str(attempt.who["dag_id"]) for attempt in found if attempt is not None and attempt.who.get("dag_id")]
    return _ways(next((each for each in dag_ids if shown is None or each in shown), "DAG_ID"), hole)


def _ways(dag_id: str, missing: Hole) -> list[str]:
    """How to load a hole; a command comes first. A neighbour that its dates take in is published, and so left alone."""
    start, end = iso_instant(missing.start_ms), iso_instant(missing.end_ms)
    if missing.before_first:
        return [f"a backfill of {dag_id} over the time before {end}, from the group's commits on"]
    backfill = f"airflow backfill create --dag-id {dag_id} --from-date {start} --to-date {end}"
    return [f"{backfill} --reprocess-behavior failed", f"a run of {dag_id} with start={start} and end={end}"]


def told_runs(windows: Iterable[Window]) -> Iterator[str]:
    """For each window, what clears the run that made its published attempt, or else its newest one, in words."""
    ways = {window.name: run_of(window) for window in windows}
    for name, way in ways.items():
        if way is None:
            yield f"No run of a Dag has loaded {name}: begin another attempt with kafka-offsets ledger begin."
        else:
            yield f"To load {name} again: {way}"


def run_of(window: Window) -> str | None:
    """What clears the run that made a window's published attempt, or else its newest one, or was refused one since;
    None if there is none."""
    published = window.publication
    made = (window.refused or window.newest_attempt) if published is None else window.attempt(published.attempt)
    who = {} if made is None else made.who
    if not who.get("dag_id") or not who.get("run_id"):
        return None
    return clears_run(str(who["dag_id"]), str(who["run_id"]))
