"""The run's interval: which window a Dag run is about, or which windows it is split into.

The first of these counts: the two instants that the task names, the run's partition date, the run's data interval. A
run that the schedule didn't make names its interval, unless Airflow gives it one of the schedule's own.

Pieces are aligned in a time zone: one starts at every multiple of their length since midnight, by the zone's clocks. A
day has 23 or 25 hours when they change, and the quarter of a day in which they do is an hour shorter or longer. Time
that clocks show twice is split twice, if the length is an hour or less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from airflow_kafka_offsets.arguments import is_template
from airflow_kafka_offsets.compat.airflow_versions import Cron, cron_of
from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import given_instant, instant_ms, iso_instant, to_datetime

_NONE, _DAY = timedelta(), timedelta(days=1)
_TWICE = timedelta(hours=1)
"""Longest pieces of which there are two where clocks show a time twice."""
_MOST = 10_000
"""Most pieces of an interval: more than anybody means."""
_LEADS_MS = (1000, 3 * 3_600_000)
"""How long before an instant the search for its tick starts. Airflow computes each tick from an earlier instant. When
clocks change, some ticks are found only from the last tick before the change, not from an instant right before them."""
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
    if not _is_tick(cron, start_ms):
        raise IntervalError(
            f"This run's partition date, {iso_instant(start_ms)}, isn't the start of a partition of the schedule: its "
            "window would cross the schedule's own. Give the run the key of one, or pass start= and end=."
        )
    return RunInterval(start_ms, instant_ms(_tick_after(cron, date)))


def _refuse_other_cut(timetable: Any, interval: RunInterval) -> None:
    """Refuse the interval of a run that the schedule didn't make, if it isn't known to be one of the schedule's: its
    window would keep the schedule's own from being loaded."""
    cron = cron_of(timetable)
    if cron is None or not _is_window(cron, interval.start_ms, interval.end_ms):
        raise IntervalError(
            f"This run wasn't made by the schedule, and its interval, {interval}, isn't known to be an interval of the "
            "schedule: its window would cross the schedule's own. Backfill those, or clear their runs; or name the "
            "interval of this run with start= and end=."
        )


def _is_window(cron: Cron, start_ms: int, end_ms: int) -> bool:
    """Whether an interval is exactly one of a schedule's."""
    if cron.interval is not None:
        return _is_tick(cron, end_ms) and to_datetime(start_ms) == to_datetime(end_ms) - cron.interval
    if not _is_tick(cron, start_ms):
        return False
    following = _tick_after_or_none(cron, to_datetime(start_ms))
    return following is not None and instant_ms(following) == end_ms


def _is_tick(cron: Cron, timestamp_ms: int) -> bool:
    """Whether an instant is one of a schedule's ticks."""
    moment = to_datetime(timestamp_ms)
    return any(_next_tick(cron, to_datetime(timestamp_ms - lead_ms), moment) == moment for lead_ms in _LEADS_MS)


def _next_tick(cron: Cron, before: datetime, moment: datetime) -> datetime | None:
    """The first tick at or after a moment, found from an earlier instant; None when Airflow finds none."""
    tick: datetime | None = before
    while tick is not None and tick < moment:
        tick = _tick_after_or_none(cron, tick)
    return tick


def _tick_after_or_none(cron: Cron, moment: datetime) -> datetime | None:
    try:
        return _tick_after(cron, moment)
    except IntervalError:
        return None


def _tick_after(cron: Cron, moment: datetime) -> datetime:
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


def pieces_of(interval: RunInterval, length: timedelta, zone: tzinfo, *, whole: bool = False) -> list[tuple[int, int]]:
    """The starts and ends of an interval's pieces, in order, Unix milliseconds.

    :param whole: refuse an interval that starts or ends within a piece. Without it, that piece is shorter.
    :raises ConfigurationError: when a day isn't a whole number of them, or there are too many.
    """
    if not isinstance(length, timedelta) or not timedelta(milliseconds=1) <= length <= _DAY or _DAY % length:
        raise ConfigurationError(
            f"split= takes the length of a window, of which a day has a whole number, such as timedelta(hours=1), not "
            f"{length!r}."
        )
    expected = (interval.end_ms - interval.start_ms) // (length // timedelta(milliseconds=1))
    if expected > _MOST:
        raise ConfigurationError(
            f"About {expected:,} windows of {length} lie in {interval}. Of more than {_MOST:,}, resolve a part at a "
            "time."
        )
    cuts = {instant_ms(each) for day in _days(interval, zone) for each in _cuts(day, length, zone)}
    if whole and not {interval.start_ms, interval.end_ms} <= cuts:
        raise IntervalError(f"{interval} doesn't start and end where windows of {length} do, in time zone {zone}.")
    inside = sorted(each for each in cuts if interval.start_ms < each < interval.end_ms)
    return list(pairwise([interval.start_ms, *inside, interval.end_ms]))


def zone_of(dag: Any) -> tzinfo:
    """The time zone of a Dag's intervals: its schedule's, else its own."""
    cron = cron_of(getattr(dag, "timetable", None))
    found = getattr(dag, "timezone", None) if cron is None else cron.timezone
    if isinstance(found, str):
        return ZoneInfo(found)
    return found if isinstance(found, tzinfo) else UTC


def _days(interval: RunInterval, zone: tzinfo) -> Iterator[date]:
    """The days that an interval has some of, by the zone's clocks."""
    day = to_datetime(interval.start_ms).astimezone(zone).date()
    last = to_datetime(interval.end_ms).astimezone(zone).date()
    while day <= last:
        yield day
        day += _DAY


def _cuts(day: date, length: timedelta, zone: tzinfo) -> Iterator[datetime]:
    """When pieces start on a day. A time that clocks skip is the one that they show instead."""
    midnight = datetime.combine(day, time())
    for number in range(_DAY // length):
        first, second = (((midnight + number * length).replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
        yield first.astimezone(UTC)
        if length <= _TWICE and (first.utcoffset() or _NONE) > (second.utcoffset() or _NONE):
            yield second.astimezone(UTC)
