"""The run's interval: which window a Dag run is about.

In this order: the two instants that the task names, the run's partition date, the run's data interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import given_instant, instant_ms, iso_instant, to_datetime

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
    :raises IntervalError: when there is no interval, or an empty or inverted one.
    :raises InstantError: when a text isn't an instant or has no zone.
    """
    if start or end:
        if not (start and end):
            raise ConfigurationError("start and end go together: give both, or neither to use the run's own interval.")
        return RunInterval(given_instant(start), given_instant(end))
    partition_date = context.get("partition_date")
    if partition_date is not None:
        return RunInterval(instant_ms(partition_date), instant_ms(_next_tick(context["dag"].timetable, partition_date)))
    interval = (context.get("data_interval_start"), context.get("data_interval_end"))
    if interval[0] is None or interval[1] is None:
        raise IntervalError(f"This run has neither a data interval nor a partition date. {_HINT}")
    return RunInterval(instant_ms(interval[0]), instant_ms(interval[1]))


def _next_tick(timetable: Any, partition_date: datetime) -> datetime:
    """The tick after a partition's date, by the timetable's own cron expression and zone (daylight saving included)."""
    expression = getattr(timetable, "expression", None)
    if expression is None:
        raise IntervalError(
            f"{type(timetable).__name__} has no cron expression to tell where a partition ends. {_HINT}"
        )
    return _tick_after(expression, timetable.timezone, partition_date)


def ticks(expression: str, timezone: str, start_ms: int, end_ms: int) -> list[int]:
    """The ticks of a schedule from its start to its end, both included, Unix milliseconds: daylight saving as Airflow's
    own timetables have it.

    :param expression: cron expression.
    :param timezone: name of its time zone.
    :raises IntervalError: when the two aren't ticks of the schedule, in order: windows would be cut short there.
    """
    from airflow.exceptions import AirflowTimetableInvalid

    RunInterval(start_ms, end_ms)
    found = [start_ms]
    try:
        first = instant_ms(_tick_after(expression, timezone, to_datetime(start_ms - 1000)))
        while found[-1] < end_ms:
            found.append(instant_ms(_tick_after(expression, timezone, to_datetime(found[-1]))))
    except (AirflowTimetableInvalid, ValueError) as error:
        raise ConfigurationError(f"{expression!r} in {timezone} is no schedule: {error}.") from error
    wrong = start_ms if first != start_ms else end_ms if found[-1] != end_ms else None
    if wrong is not None:
        raise IntervalError(f"{iso_instant(wrong)} is no tick of {expression!r} in {timezone}.")
    return found


def _tick_after(expression: str, timezone: Any, moment: datetime) -> datetime:
    import pendulum
    from airflow.timetables.base import DataInterval, TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable

    tick = pendulum.instance(moment)
    following = CronDataIntervalTimetable(expression, timezone=timezone).next_dagrun_info(
        # Airflow goes on from the tick at or before the last interval's end, if that lies behind the interval's start.
        last_automated_data_interval=DataInterval(start=tick.subtract(years=100), end=tick),
        restriction=TimeRestriction(earliest=None, latest=None, catchup=True),
    )
    if following is None or following.data_interval is None:
        raise IntervalError(f"The schedule {expression!r} has no tick after {moment.isoformat()}.")
    end: datetime = following.data_interval.end
    return end
