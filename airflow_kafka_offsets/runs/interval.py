"""The run's interval: which window a Dag run is about.

In this order: the two instants that the task names, the run's partition date, the run's data interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import given_instant, instant_ms, iso_instant, now_ms
from airflow_kafka_offsets.runs.schedule import Schedule, in_sdk, tick_after

_MANUAL = "manual"
"""Airflow's type of a run that somebody started: with the button, the command line, the API or another Dag."""
_HINT = (
    "Schedule the Dag with CronDataIntervalTimetable('0 * * * *', timezone='UTC'), "
    "CronTriggerTimetable('0 * * * *', timezone='UTC', interval=timedelta(hours=1)) or "
    "CronPartitionTimetable('0 * * * *', timezone='UTC', run_offset=-1), each of which gives every run an interval "
    "(a bare cron string doesn't), or pass start= and end=."
)


@dataclass(frozen=True, slots=True)
class RunInterval:
    """The time that a run is about.

    :param start_ms: Unix milliseconds, inclusive.
    :param end_ms: Unix milliseconds, exclusive.
    """

    start_ms: int
    end_ms: int

    def __post_init__(self) -> None:
        if self.start_ms == self.end_ms:
            raise IntervalError(f"This run's interval is empty: {iso_instant(self.start_ms)} is start and end. {_HINT}")
        if self.start_ms > self.end_ms:
            raise IntervalError(
                f"The interval starts at {iso_instant(self.start_ms)}, after its end at {iso_instant(self.end_ms)}."
            )


def run_interval(context: Mapping[str, Any], start: str | datetime | None, end: str | datetime | None) -> RunInterval:
    """The interval of the current run.

    :param context: Airflow's task context.
    :param start: explicit start, inclusive: ISO-8601 with a zone, or an aware datetime; None or empty when not given.
    :param end: explicit end, exclusive.
    :raises IntervalError: when there is no interval, an empty or inverted one, or, of a run by hand, one that the
        schedule doesn't cut.
    :raises InstantError: when a text isn't an instant or has no zone.
    """
    if start or end:
        if not (start and end):
            raise ConfigurationError("start and end go together: give both, or neither to use the run's own interval.")
        return RunInterval(given_instant(start), given_instant(end))
    partition_date = context.get("partition_date")
    if partition_date is not None:
        return RunInterval(instant_ms(partition_date), instant_ms(_next_tick(context["dag"].timetable, partition_date)))
    dag = context.get("dag")
    schedule = Schedule(getattr(dag, "dag_id", "DAG"), getattr(dag, "timetable", None))
    first, last = context.get("data_interval_start"), context.get("data_interval_end")
    if first is None or last is None:
        raise IntervalError(_without_interval(schedule))
    found = RunInterval(instant_ms(first), instant_ms(last))
    if getattr(context.get("dag_run"), "run_type", None) == _MANUAL:
        _refuse_other_cut(schedule, found)
    return found


def _next_tick(timetable: Any, partition_date: datetime) -> datetime:
    """The tick after a partition's date, by the timetable's own cron expression and zone (daylight saving included)."""
    timetable = in_sdk(timetable)
    expression = getattr(timetable, "expression", None)
    if expression is None:
        raise IntervalError(
            f"{type(timetable).__name__} has no cron expression to tell where a partition ends. {_HINT}"
        )
    return tick_after(expression, timetable.timezone, partition_date)


def _without_interval(schedule: Schedule) -> str:
    """What to do about a run that has no interval: its timetable may be the right one."""
    window = schedule.last_window(now_ms())
    if not (schedule.gives_intervals or schedule.by_partition):
        return f"This run has neither a data interval nor a partition date. {_HINT}"
    example = ""
    if window is not None:
        example = f", for the last window that is over ({_between(*window)}): {schedule.backfill(*window)}"
    if schedule.by_partition:
        key = "" if window is None else f" (such as {schedule.partition_key(window[0])})"
        return (
            f"This run was started by hand without a partition key, so that it is about no window. Give it a key{key}; "
            f"or backfill{example}; or pass start= and end=."
        )
    return (
        f"This run was started without a logical date, so that it has no interval. Backfill the schedule's "
        f"windows{example}; {_by_date(schedule, window)}or pass start= and end=."
    )


def _by_date(schedule: Schedule, window: tuple[int, int] | None) -> str:
    """Which logical date gives a window. None does under a trigger's timetable that isn't another run's own."""
    if window is None or schedule.by_end:
        return ""
    return (
        f"or trigger it with a logical date after the window's end, {iso_instant(window[1] + 1000)} for that one (not "
        "the end itself: Airflow would leave out the schedule's own run of that date); "
    )


def _refuse_other_cut(schedule: Schedule, interval: RunInterval) -> None:
    """Refuse an interval that a run by hand has and the schedule never cuts: its window would lie across the
    schedule's, or keep them out."""
    edges = (interval.end_ms,) if schedule.by_end else (interval.start_ms, interval.end_ms)
    if all(map(schedule.cuts_at, edges)):
        return
    window = schedule.last_window(interval.end_ms)
    last = ""
    if window is not None:
        last = f" The last one before it, {_between(*window)}: {schedule.backfill(*window)}."
    raise IntervalError(
        f"This run was started by hand, and its interval, {_between(interval.start_ms, interval.end_ms)}, isn't one "
        "that the schedule cuts: its window would overlap the schedule's own. Backfill those, or clear their runs."
        f"{last} For a window of any other time pass start= and end=, in a pipeline of its own."
    )


def _between(start_ms: int, end_ms: int) -> str:
    return f"{iso_instant(start_ms)} to {iso_instant(end_ms)}"
