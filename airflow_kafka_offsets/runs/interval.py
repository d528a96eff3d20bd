"""The run's interval: which window a Dag run is about.

The first of these counts: the two instants that the task names, the run's partition date, the run's data interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import given_instant, instant_ms, iso_instant, now_ms
from airflow_kafka_offsets.runs.schedule import Schedule, tick_after

_OF_THE_SCHEDULE = ("scheduled", "backfill")
"""Airflow's types of runs that get the schedule's own intervals. All other runs infer one from the moment they start,
if they have any: those started by the button, the command line, the API, another Dag, or "Materialize" of an asset."""
_HINT = (
    "Schedule the Dag with CronDataIntervalTimetable('0 * * * *', timezone='UTC'), CronTriggerTimetable('0 * * * *', "
    "timezone='UTC', interval=timedelta(hours=1)) or CronPartitionTimetable('0 * * * *', timezone='UTC', "
    "run_offset=-1), each of which gives every run an interval (a bare cron string doesn't), or pass start= and end=."
)
_OTHER_TIME = "To load any other time range, pass start= and end=, in a pipeline of its own."


@dataclass(frozen=True, slots=True)
class RunInterval:
    """The time range of a run.

    :param start_ms: Unix milliseconds, inclusive.
    :param end_ms: Unix milliseconds, exclusive.
    """

    start_ms: int
    end_ms: int

    def __post_init__(self) -> None:
        if self.start_ms == self.end_ms:
            raise IntervalError(
                f"This run's interval is empty: it starts and ends at {iso_instant(self.start_ms)}. {_HINT}"
            )
        if self.start_ms > self.end_ms:
            raise IntervalError(
                f"The interval starts at {iso_instant(self.start_ms)}, after its end at {iso_instant(self.end_ms)}."
            )


def run_interval(context: Mapping[str, Any], start: str | datetime | None, end: str | datetime | None) -> RunInterval:
    """The interval of the current run.

    :param context: Airflow's task context.
    :param start: explicit start, inclusive: ISO-8601 with a zone, or an aware datetime; None or empty if not given.
    :param end: explicit end, exclusive.
    :raises IntervalError: when there is no interval, when it is empty or inverted, or when the schedule doesn't cut it:
        a partition that isn't the schedule's, a run that the schedule didn't make, or an ``interval=`` that doesn't
        match the distance between ticks.
    :raises InstantError: when a text isn't an instant or has no zone.
    """
    if start or end:
        if not (start and end):
            raise ConfigurationError("start and end go together: give both, or neither to use the run's own interval.")
        return RunInterval(given_instant(start), given_instant(end))
    dag = context.get("dag")
    schedule = Schedule.of(getattr(dag, "dag_id", "DAG"), getattr(dag, "timetable", None))
    partition_date = context.get("partition_date")
    if partition_date is not None:
        return _partition(schedule, partition_date)
    first, last = context.get("data_interval_start"), context.get("data_interval_end")
    if first is None or last is None:
        if schedule.by_partition and "partition_date" not in context:
            raise IntervalError(
                f"Airflow passes a run's partition date to its tasks from 3.3 on; this Airflow is older. {_HINT}"
            )
        raise IntervalError(_without_interval(schedule))
    found = RunInterval(instant_ms(first), instant_ms(last))
    _refuse_cut_off(schedule, found)
    if getattr(context.get("dag_run"), "run_type", None) not in _OF_THE_SCHEDULE:
        _refuse_other_cut(schedule, found)
    return found


def _partition(schedule: Schedule, date: datetime) -> RunInterval:
    """From a partition's date to the next tick, by the timetable's own cron expression and zone (including daylight
    saving)."""
    cron = schedule.cron
    if cron is None:
        kind = "A Dag without a schedule" if schedule.timetable is None else schedule.timetable.kind
        raise IntervalError(f"{kind} has no cron expression to tell where a partition ends. {_HINT}")
    start_ms = instant_ms(date)
    if not schedule.cuts_at(start_ms):
        key = (
            f" It lies in the partition with the key {_key_around(schedule, start_ms)}."
            if schedule.by_partition
            else ""
        )
        raise IntervalError(
            f"This run's partition date, {iso_instant(start_ms)}, isn't the start of a partition of the schedule: its "
            f"window would overlap the schedule's own.{key} {_OTHER_TIME}"
        )
    return RunInterval(start_ms, instant_ms(tick_after(*cron, date)))


def _key_around(schedule: Schedule, timestamp_ms: int) -> str:
    window = schedule.last_window(timestamp_ms)
    assert window is not None, "a partition's schedule has ticks"
    return schedule.partition_key(window[1])


def _without_interval(schedule: Schedule) -> str:
    """What to do about a run without an interval; its timetable may be the right one."""
    window = schedule.last_window(now_ms())
    if not (schedule.gives_intervals or schedule.by_partition):
        return f"This run has neither a data interval nor a partition date. {_HINT}"
    example = ""
    if window is not None:
        example = f", for the last window that is over ({_between(*window)}): {schedule.backfill(*window)}"
    if schedule.by_partition:
        key = "" if window is None else f" (such as {schedule.partition_key(window[0])})"
        return (
            f"This run was triggered without a partition key, so it has no window. Give it a key{key}; "
            f"or backfill{example}; or pass start= and end=."
        )
    return (
        f"This run was started without a logical date, so it has no interval. Backfill the schedule's "
        f"windows{example}; {_by_date(schedule, window)}or pass start= and end=."
    )


def _by_date(schedule: Schedule, window: tuple[int, int] | None) -> str:
    """Which logical date gives a window. Empty for a trigger timetable: there, only another run's own date does."""
    if window is None or schedule.by_end:
        return ""
    return (
        f"or trigger it with a logical date after the window's end, {iso_instant(window[1] + 1000)} for that one (not "
        "the end itself: Airflow would leave out the schedule's own run of that date); "
    )


def _refuse_cut_off(schedule: Schedule, interval: RunInterval) -> None:
    """Refuse an interval of a fixed length that doesn't start at a tick: records between it and the previous run's
    interval would be in no window, or in two."""
    if not schedule.cuts_off(interval.start_ms, interval.end_ms):
        return
    way = "CronDataIntervalTimetable, whose windows reach from tick to tick"
    ticking = schedule.by_ticks()
    if ticking is not None and (window := ticking.last_window(interval.end_ms)) is not None:
        expression, zone = ticking.cron or ("", "")
        way = (
            f"CronDataIntervalTimetable({expression!r}, timezone={str(zone)!r}), whose windows reach "
            f"from tick to tick. Then don't clear this run, but load {_between(*window)}: {ticking.backfill(*window)}"
        )
    raise IntervalError(
        f"This run's interval, {_between(interval.start_ms, interval.end_ms)}, has the length of the timetable's "
        "interval=, but doesn't start at a tick of the schedule, as happens when clocks change. Its window would leave "
        f"out records, or overlap the one before. Schedule the Dag with {way}. If windows should leave out time, pass "
        "start='{{ data_interval_start }}' and end='{{ data_interval_end }}'."
    )


def _refuse_other_cut(schedule: Schedule, interval: RunInterval) -> None:
    """Refuse the interval of a run that the schedule didn't make, if it isn't one of the schedule's intervals: its
    window would overlap the schedule's windows, or keep them from being loaded. So would several intervals in one."""
    if schedule.cuts_out(interval.start_ms, interval.end_ms):
        return
    window = schedule.last_window(interval.end_ms)
    last = ""
    if window is not None:
        last = f" The last one before it, {_between(*window)}: {schedule.backfill(*window)}."
    raise IntervalError(
        f"This run wasn't made by the schedule, and its interval, {_between(interval.start_ms, interval.end_ms)}, "
        "isn't an interval of the schedule: its window would overlap the schedule's own. Backfill those, or clear "
        f"their runs.{last} {_OTHER_TIME}"
    )


def _between(start_ms: int, end_ms: int) -> str:
    return f"{iso_instant(start_ms)} to {iso_instant(end_ms)}"
