"""The ticks of a cron schedule, with Airflow's own handling of daylight saving, and the windows between them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_kafka_offsets.compat.airflow_versions import Cron
from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import instant_ms, iso_instant, to_datetime

_LEADS_MS = (1000, 3 * 3_600_000)
"""How long before an instant the search for its tick starts. Airflow computes each tick from an earlier instant. When
clocks change, some ticks are found only from the last tick before the change, not from an instant right before them."""
_MOST_TICKS = 100_000
"""More than anybody means: Airflow takes minutes to list them."""
_SAMPLE = 1_000
"""So many ticks tell how many there will be."""


def is_window(cron: Cron, start_ms: int, end_ms: int) -> bool:
    """Whether an interval is exactly one of a schedule's."""
    if cron.interval is not None:
        return is_tick(cron, end_ms) and to_datetime(start_ms) == to_datetime(end_ms) - cron.interval
    if not is_tick(cron, start_ms):
        return False
    following = _tick_after_or_none(cron, to_datetime(start_ms))
    return following is not None and instant_ms(following) == end_ms


def is_tick(cron: Cron, timestamp_ms: int) -> bool:
    """Whether an instant is one of a schedule's ticks."""
    moment = to_datetime(timestamp_ms)
    return any(_next_tick(cron, to_datetime(timestamp_ms - lead_ms), moment) == moment for lead_ms in _LEADS_MS)


def ticks(expression: str, timezone: Any, start_ms: int, end_ms: int) -> list[int]:
    """The ticks of a schedule between two instants, both included, in Unix milliseconds.

    :param expression: a cron expression.
    :param timezone: its time zone, or the zone's name.
    :raises IntervalError: when the two instants aren't ticks of the schedule, in order: windows would be cut short
        there; when Airflow finds no next tick in between; and when there are so many that it would take too long.
    :raises ConfigurationError: when it isn't a schedule.
    """
    from airflow.exceptions import AirflowTimetableInvalid

    cron, found = Cron(expression, timezone), [start_ms]
    try:
        starts_at_tick = is_tick(cron, start_ms)
        while found[-1] < end_ms:
            if len(found) == _SAMPLE:
                _refuse_too_many(expression, found, end_ms)
            found.append(instant_ms(tick_after(cron, to_datetime(found[-1]))))
    except IntervalError:
        raise  # it is a ValueError too
    except (AirflowTimetableInvalid, ValueError) as error:
        raise ConfigurationError(
            f"{expression!r} in {timezone} is not a schedule: {str(error).rstrip('.')}."
        ) from error
    wrong = start_ms if not starts_at_tick else end_ms if found[-1] != end_ms else None
    if wrong is not None:
        following = _tick_after_or_none(cron, to_datetime(wrong))
        way = "" if following is None else f" The next one is {iso_instant(instant_ms(following))}."
        raise IntervalError(f"{iso_instant(wrong)} is not a tick of {expression!r} in {timezone}.{way}")
    return found


def _refuse_too_many(expression: str, first: list[int], end_ms: int) -> None:
    """Refuse a stretch of which its first ticks show that it has far too many."""
    expected = len(first) * (end_ms - first[0]) // (first[-1] - first[0])
    if expected > _MOST_TICKS:
        raise IntervalError(
            f"About {expected:,} windows of {expression!r} lie between {iso_instant(first[0])} and "
            f"{iso_instant(end_ms)}. Is the start right? Of more than {_MOST_TICKS:,}, resolve a part at a time."
        )


def _next_tick(cron: Cron, before: datetime, moment: datetime) -> datetime | None:
    """The first tick at or after a moment, found from an earlier instant; None when Airflow finds none."""
    tick: datetime | None = before
    while tick is not None and tick < moment:
        tick = _tick_after_or_none(cron, tick)
    return tick


def _tick_after_or_none(cron: Cron, moment: datetime) -> datetime | None:
    try:
        return tick_after(cron, moment)
    except IntervalError:
        return None


def tick_after(cron: Cron, moment: datetime) -> datetime:
    """The first tick after a moment.

    :raises IntervalError: when the schedule has none, or when Airflow finds none, as when clocks change by half an
        hour.
    """
    import pendulum
    from airflow.timetables.base import DataInterval, TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable

    tick = pendulum.instance(moment)
    following = CronDataIntervalTimetable(cron.expression, timezone=cron.timezone).next_dagrun_info(
        # Airflow continues from the tick at or before the last interval's end, if that tick is after the interval's
        # start.
        last_automated_data_interval=DataInterval(start=tick.subtract(years=100), end=tick),
        restriction=TimeRestriction(earliest=None, latest=None, catchup=True),
    )
    if following is None or following.data_interval is None or following.data_interval.end <= moment:
        raise IntervalError(f"The schedule {cron.expression!r} has no tick after {moment.isoformat()}.")
    end: datetime = following.data_interval.end
    return end
