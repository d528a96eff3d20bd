"""The run's interval: which window a Dag run is about.

The first of these counts: the two instants that the task names, the run's partition date, the run's data interval. A
run that the schedule didn't make names its interval, unless Airflow gives it one of the schedule's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_offsets.arguments import is_template
from airflow_kafka_offsets.compat.airflow_versions import cron_of
from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import given_instant, instant_ms, iso_instant
from airflow_kafka_offsets.runs.schedule import is_tick, is_window, tick_after

_OF_THE_SCHEDULE = ("scheduled", "backfill")
"""Airflow's types of runs that get the schedule's own intervals. For all other runs, Airflow infers one from the moment
they start, if any: those started by the button, the command line, the API, another Dag, or "Materialize" of an
asset."""
_HINT = (
    "Schedule the Dag with CronDataIntervalTimetable('0 * * * *', timezone='UTC'), CronTriggerTimetable('0 * * * *', "
    "timezone='UTC', interval=timedelta(hours=1)) or, from Airflow 3.3 on, CronPartitionTimetable('0 * * * *', "
    "timezone='UTC', run_offset=-1), each of which gives the schedule's runs an interval (a bare cron string doesn't), "
    "or pass start= and end=, as a run needs that was started without a logical date or a partition key."
)


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

    def __str__(self) -> str:
        return f"{iso_instant(self.start_ms)} to {iso_instant(self.end_ms)}"


def check_interval(start: Any, end: Any) -> None:
    """Check explicit instants that are known when a Dag is parsed. Snapshots are read when the task runs.

    :raises ConfigurationError: as :func:`run_interval`.
    """
    if isinstance(start, Mapping) or isinstance(end, Mapping):
        return
    _require_both(start, end)
    first, last = (given_instant(each) if each and not is_template(each) else None for each in (start, end))
    if first is not None and last is not None:
        RunInterval(first, last)


def _require_both(start: Any, end: Any) -> None:
    if (is_template(start) or bool(start)) != (is_template(end) or bool(end)):
        raise ConfigurationError("start and end go together: give both, or neither to use the run's own interval.")


def run_interval(context: Mapping[str, Any], start: str | datetime | None, end: str | datetime | None) -> RunInterval:
    """The interval of the current run.

    :param context: Airflow's task context.
    :param start: explicit start, inclusive: ISO-8601 with a zone, or an aware datetime; None or empty if not given.
    :param end: explicit end, exclusive.
    :raises IntervalError: when there is no interval, when it is empty or inverted, or when it isn't one of the
        schedule's though the run has no other: a partition that isn't the schedule's, or a run that the schedule didn't
        make.
    :raises InstantError: when a text isn't an instant or has no zone.
    """
    if start or end:
        _require_both(start, end)
        assert start and end, "it was checked"
        return RunInterval(given_instant(start), given_instant(end))
    timetable, partition_date = getattr(context.get("dag"), "timetable", None), context.get("partition_date")
    if partition_date is not None:
        return _partition(timetable, partition_date)
    first, last = context.get("data_interval_start"), context.get("data_interval_end")
    if first is None or last is None:
        raise IntervalError(f"This run has neither a data interval nor a partition date. {_HINT}")
    found, run = RunInterval(instant_ms(first), instant_ms(last)), context.get("dag_run")
    if run is not None and run.run_type not in _OF_THE_SCHEDULE:
        _refuse_other_cut(timetable, found)
    return found


def _partition(timetable: Any, date: datetime) -> RunInterval:
    """From a partition's date to the next tick, by the timetable's own cron expression and zone (including daylight
    saving)."""
    cron, start_ms = cron_of(timetable), instant_ms(date)
    if cron is None:
        raise IntervalError(
            f"{type(timetable).__name__} has no cron expression to tell where a partition ends. {_HINT}"
        )
    if not is_tick(cron, start_ms):
        raise IntervalError(
            f"This run's partition date, {iso_instant(start_ms)}, isn't the start of a partition of the schedule: its "
            "window would cross the schedule's own. Give the run the key of one, or pass start= and end=."
        )
    return RunInterval(start_ms, instant_ms(tick_after(cron, date)))


def _refuse_other_cut(timetable: Any, interval: RunInterval) -> None:
    """Refuse the interval of a run that the schedule didn't make, if it isn't known to be one of the schedule's: its
    window would keep the schedule's own from being loaded."""
    cron = cron_of(timetable)
    if cron is None or not is_window(cron, interval.start_ms, interval.end_ms):
        raise IntervalError(
            f"This run wasn't made by the schedule, and its interval, {interval}, isn't known to be an interval of the "
            "schedule: its window would cross the schedule's own. Backfill those, or clear their runs; or name the "
            "interval of this run with start= and end=."
        )
