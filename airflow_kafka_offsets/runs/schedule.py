"""A Dag's schedule: which windows its timetable cuts, and the command that makes Airflow run them.

Uses Airflow's own timetables, including daylight saving. Under the timetables that give intervals, a run's logical date
is its window's start. The dates that ``airflow backfill create`` takes depend on the timetable: the starts of windows;
their ends, for a trigger timetable with ``interval=``; or partition dates, in the timetable's local time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_offsets.compat.timetables import INTERVALS, PARTITIONS, TRIGGERS, Timetable, timetable_of
from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import instant_ms, iso_instant, to_datetime

_SECOND_MS = 1000
_LEADS_MS = (_SECOND_MS, 3 * 3_600_000)
"""How long before an instant the search for its tick starts. Airflow computes each tick from an earlier instant. When
clocks change, some ticks are found only from the last tick before the change, not from an instant right before them."""
_MOST_TICKS = 100_000
"""More than anybody means: Airflow takes minutes to list them."""
_SAMPLE = 1_000
"""So many ticks tell how many there will be."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a Dag's timetable says about windows. ``timetable`` is None if it is unknown, as for another Dag."""

    dag_id: str
    timetable: Timetable | None = None

    @classmethod
    def of(cls, dag_id: str, timetable: Any) -> Schedule:
        """A Dag's schedule, from Airflow's own timetable."""
        return cls(dag_id, timetable_of(timetable))

    @property
    def by_partition(self) -> bool:
        """Whether runs have partition dates."""
        return self.timetable is not None and self.timetable.kind == PARTITIONS

    @property
    def by_end(self) -> bool:
        """Whether a run's window ends at a tick and has the length given by ``interval=``."""
        return self.timetable is not None and self.timetable.kind in TRIGGERS

    @property
    def gives_intervals(self) -> bool:
        """Whether each run of the schedule has an interval that isn't empty."""
        if self.by_end:
            return all(bool(timetable.interval) for timetable in self._timetables)
        return self.timetable is not None and self.timetable.kind in INTERVALS

    @property
    def _timetables(self) -> tuple[Timetable, ...]:
        if self.timetable is None:
            return ()
        return self.timetable.timetables or (self.timetable,)

    @property
    def cron(self) -> tuple[str, Any] | None:
        """Expression and zone; None for a schedule with several crons, or with none."""
        if self.timetable is None or self.timetable.expression is None:
            return None
        return self.timetable.expression, self.timetable.timezone

    def cuts_at(self, timestamp_ms: int) -> bool:
        """Whether an instant is one of the schedule's ticks; also True if that is unknown, as for a schedule without
        cron."""
        crons = [(each.expression, each.timezone) for each in self._timetables if each.expression]
        return not crons or any(_is_tick(*cron, timestamp_ms) for cron in crons)

    def cuts_off(self, start_ms: int, end_ms: int) -> bool:
        """Whether a window ends at a tick and has the length given by ``interval=``, but doesn't start at a tick. Then
        ticks are further apart than that length, or closer together, and windows don't meet."""
        if not self.by_end or self.cuts_at(start_ms) or not self.cuts_at(end_ms):
            return False
        return bool(to_datetime(start_ms) == to_datetime(end_ms) - self._timetables[0].interval)

    def cuts_out(self, start_ms: int, end_ms: int) -> bool:
        """Whether a window is exactly one of the schedule's. If that is unknown, as for a schedule without cron,
        whether it starts and ends at known ticks."""
        if not (self.cuts_at(start_ms) and self.cuts_at(end_ms)):
            return False
        cron = self.cron
        if not self.gives_intervals:
            return True
        if self.by_end:
            return bool(to_datetime(start_ms) == to_datetime(end_ms) - self._timetables[0].interval)
        following = None if cron is None else _tick_after_or_none(*cron, to_datetime(start_ms))
        return following is None or instant_ms(following) == end_ms

    def by_ticks(self) -> Schedule | None:
        """The same schedule with windows from tick to tick, whatever their length; None for several crons, or none."""
        cron = self.cron
        return None if cron is None else Schedule(self.dag_id, Timetable(INTERVALS[0], *cron))

    def last_window(self, before_ms: int) -> tuple[int, int] | None:
        """Start and end of the last window that was over at a given time; None if that is unknown."""
        import pendulum
        from airflow.timetables.interval import CronDataIntervalTimetable

        if self.cron is None:
            return None
        expression, timezone = self.cron
        cut = CronDataIntervalTimetable(expression, timezone=timezone)
        found = cut.infer_manual_data_interval(run_after=pendulum.instance(to_datetime(before_ms)))
        start = found.end - self._timetables[0].interval if self.by_end else found.start
        return instant_ms(start), instant_ms(found.end)

    def backfill(self, start_ms: int, end_ms: int) -> str:
        """The command that loads the schedule's windows between two instants: it creates missing runs, and clears
        failed ones."""
        first, last = start_ms, end_ms - _SECOND_MS
        if self.by_end:
            first, last = start_ms + _SECOND_MS, end_ms
        elif self.timetable is None:
            last = end_ms  # dates may be starts or ends; a window that follows exists already, and is left alone
        return (
            f"airflow backfill create --dag-id {self.dag_id} --from-date {self._date(first)} --to-date "
            f"{self._date(last)} --reprocess-behavior failed"
        )

    def partition_key(self, start_ms: int) -> str:
        """A partition's key."""
        assert self.timetable is not None and self.timetable.key_format is not None, "a schedule by partition has one"
        return self._local(start_ms).strftime(self.timetable.key_format)

    def _date(self, timestamp_ms: int) -> str:
        if self.by_partition:
            return f"{self._local(timestamp_ms):%Y-%m-%dT%H:%M:%S}"
        return f"{to_datetime(timestamp_ms):%Y-%m-%dT%H:%M:%SZ}"

    def _local(self, timestamp_ms: int) -> datetime:
        import pendulum

        zone = self._timetables[0].timezone
        return pendulum.instance(to_datetime(timestamp_ms)).in_timezone(zone)


def ticks(expression: str, timezone: Any, start_ms: int, end_ms: int) -> list[int]:
    """The ticks of a schedule between two instants, both included, in Unix milliseconds, with Airflow's own handling of
    daylight saving.

    :param expression: a cron expression.
    :param timezone: its time zone, or the zone's name.
    :raises IntervalError: when the two instants aren't ticks of the schedule, in order: windows would be cut short
        there; when Airflow finds no next tick in between; and when there are so many that it would take too long.
    :raises ConfigurationError: when it isn't a schedule.
    """
    from airflow.exceptions import AirflowTimetableInvalid

    found = [start_ms]
    try:
        starts_at_tick = _is_tick(expression, timezone, start_ms)
        while found[-1] < end_ms:
            if len(found) == _SAMPLE:
                _refuse_too_many(expression, found, end_ms)
            found.append(instant_ms(tick_after(expression, timezone, to_datetime(found[-1]))))
    except IntervalError:
        raise  # it is a ValueError too
    except (AirflowTimetableInvalid, ValueError) as error:
        raise ConfigurationError(
            f"{expression!r} in {timezone} is not a schedule: {str(error).rstrip('.')}."
        ) from error
    wrong = start_ms if not starts_at_tick else end_ms if found[-1] != end_ms else None
    if wrong is not None:
        following = _tick_after_or_none(expression, timezone, to_datetime(wrong))
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


def _is_tick(expression: str, timezone: Any, timestamp_ms: int) -> bool:
    moment = to_datetime(timestamp_ms)
    return any(
        _next_tick(expression, timezone, to_datetime(timestamp_ms - lead_ms), moment) == moment for lead_ms in _LEADS_MS
    )


def _next_tick(expression: str, timezone: Any, before: datetime, moment: datetime) -> datetime | None:
    """The first tick at or after a moment, found from an earlier instant; None when Airflow finds none."""
    tick: datetime | None = before
    while tick is not None and tick < moment:
        tick = _tick_after_or_none(expression, timezone, tick)
    return tick


def _tick_after_or_none(expression: str, timezone: Any, moment: datetime) -> datetime | None:
    try:
        return tick_after(expression, timezone, moment)
    except IntervalError:
        return None


def tick_after(expression: str, timezone: Any, moment: datetime) -> datetime:
    """The first tick after a moment.

    :raises IntervalError: when the schedule has none, or when Airflow finds none, as when clocks change by half an
        hour.
    """
    import pendulum
    from airflow.timetables.base import DataInterval, TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable

    tick = pendulum.instance(moment)
    following = CronDataIntervalTimetable(expression, timezone=timezone).next_dagrun_info(
        # Airflow continues from the tick at or before the last interval's end, if that tick is after the interval's
        # start.
        last_automated_data_interval=DataInterval(start=tick.subtract(years=100), end=tick),
        restriction=TimeRestriction(earliest=None, latest=None, catchup=True),
    )
    if following is None or following.data_interval is None or following.data_interval.end <= moment:
        raise IntervalError(f"The schedule {expression!r} has no tick after {moment.isoformat()}.")
    end: datetime = following.data_interval.end
    return end
