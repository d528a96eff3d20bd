"""A Dag's schedule: which windows its timetable cuts, and the command that makes Airflow run them.

Rests on Airflow's own timetables, daylight saving included. A run's logical date is its window's start, under the
timetables that give intervals. What ``airflow backfill create`` takes as dates differs: starts of windows; their ends,
where the timetable is a trigger's with ``interval=``; or partition dates, as a clock in the timetable's zone shows
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from airflow_kafka_offsets.compat.timetables import INTERVALS, PARTITIONS, TRIGGERS, Timetable, timetable_of
from airflow_kafka_offsets.errors import ConfigurationError, IntervalError
from airflow_kafka_offsets.offsets.instants import instant_ms, iso_instant, to_datetime

_SECOND_MS = 1000
_LEADS_MS = (_SECOND_MS, 3 * 3_600_000)
"""How long before an instant its tick is looked for. Airflow's ticks follow from one another: where clocks change, some
don't follow from an instant right before them, but from the last tick before the change."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a Dag's timetable says of windows; None when it isn't known, as that of another Dag."""

    dag_id: str
    timetable: Timetable | None = None

    @classmethod
    def of(cls, dag_id: str, timetable: Any) -> Schedule:
        """That of a Dag, by Airflow's own timetable."""
        return cls(dag_id, timetable_of(timetable))

    @property
    def by_partition(self) -> bool:
        """Whether runs have partition dates."""
        return self.timetable is not None and self.timetable.kind == PARTITIONS

    @property
    def by_end(self) -> bool:
        """Whether a run's window ends at a tick, with the length that ``interval=`` says."""
        return self.timetable is not None and self.timetable.kind in TRIGGERS

    @property
    def gives_intervals(self) -> bool:
        """Whether each run of the schedule has an interval of some length."""
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
        """Expression and zone; None of a schedule of several crons, or none."""
        if self.timetable is None or self.timetable.expression is None:
            return None
        return self.timetable.expression, self.timetable.timezone

    def cuts_at(self, timestamp_ms: int) -> bool:
        """Whether an instant is one of the schedule's ticks, or it can't be told, as of a schedule without cron."""
        crons = [(each.expression, each.timezone) for each in self._timetables if each.expression]
        return not crons or any(_is_tick(*cron, timestamp_ms) for cron in crons)

    def cuts_off(self, start_ms: int, end_ms: int) -> bool:
        """Whether a window has the length that ``interval=`` says, back from a tick, and starts at none: ticks are
        further apart, or nearer, so that windows don't meet."""
        if not self.by_end or self.cuts_at(start_ms) or not self.cuts_at(end_ms):
            return False
        return bool(to_datetime(start_ms) == to_datetime(end_ms) - self._timetables[0].interval)

    def by_ticks(self) -> Schedule | None:
        """The same with windows that reach from tick to tick, however far apart those are; None of several crons, or
        none."""
        cron = self.cron
        return None if cron is None else Schedule(self.dag_id, Timetable(INTERVALS[0], *cron))

    def last_window(self, before_ms: int) -> tuple[int, int] | None:
        """Start and end of the last window that was over at a time; None when that can't be told."""
        import pendulum
        from airflow.timetables.interval import CronDataIntervalTimetable

        if self.cron is None:
            return None
        expression, timezone = self.cron
        cut = CronDataIntervalTimetable(expression, timezone=timezone)
        found = cut.infer_manual_data_interval(run_after=pendulum.instance(to_datetime(before_ms)))
        start = found.end - self._timetables[0].interval if self.by_end else found.start
        return instant_ms(start), instant_ms(found.end)

    def windows(self, start_ms: int, end_ms: int) -> list[tuple[int, int]] | None:
        """Starts and ends of the windows that the schedule cuts from one instant to another; None when it doesn't cut
        there, or that can't be told."""
        cron = self.cron
        if not self.gives_intervals or cron is None:
            return None
        try:
            found = ticks(*cron, start_ms, end_ms)
        except IntervalError:
            return None
        if self.by_end:
            return [(instant_ms(to_datetime(end) - self._timetables[0].interval), end) for end in found[1:]]
        return list(pairwise(found))

    def backfill(self, start_ms: int, end_ms: int) -> str:
        """The command that loads what the schedule cuts from one instant to another: it makes the runs that there are
        none of, and clears those that failed."""
        first, last = start_ms, end_ms - _SECOND_MS
        if self.by_end:
            first, last = start_ms + _SECOND_MS, end_ms
        elif self.timetable is None:
            last = end_ms  # a start or an end: the window that follows is there already, and left alone
        return (
            f"airflow backfill create --dag-id {self.dag_id} --from-date {self._date(first)} --to-date "
            f"{self._date(last)} --reprocess-behavior failed"
        )

    def partition_key(self, start_ms: int) -> str:
        """The key of a partition."""
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
    """The ticks of a schedule from its start to its end, both included, Unix milliseconds: daylight saving as Airflow's
    own timetables have it.

    :param expression: of cron, in a time zone or the zone's name.
    :raises IntervalError: when the two aren't ticks of the schedule, in order: windows would be cut short there.
    """
    from airflow.exceptions import AirflowTimetableInvalid

    found = [start_ms]
    try:
        starts_at_tick = _is_tick(expression, timezone, start_ms)
        while found[-1] < end_ms:
            found.append(instant_ms(tick_after(expression, timezone, to_datetime(found[-1]))))
    except (AirflowTimetableInvalid, ValueError) as error:
        raise ConfigurationError(
            f"{expression!r} in {timezone} is not a schedule: {str(error).rstrip('.')}."
        ) from error
    wrong = start_ms if not starts_at_tick else end_ms if found[-1] != end_ms else None
    if wrong is not None:
        raise IntervalError(f"{iso_instant(wrong)} is not a tick of {expression!r} in {timezone}.")
    return found


def _is_tick(expression: str, timezone: Any, timestamp_ms: int) -> bool:
    moment = to_datetime(timestamp_ms)
    for lead_ms in _LEADS_MS:
        tick = to_datetime(timestamp_ms - lead_ms)
        while tick < moment:
            tick = tick_after(expression, timezone, tick)
        if tick == moment:
            return True
    return False


def tick_after(expression: str, timezone: Any, moment: datetime) -> datetime:
    """The first tick after a moment.

    :raises IntervalError: when the schedule has none; or Airflow finds none, as where clocks change by half an hour.
    """
    import pendulum
    from airflow.timetables.base import DataInterval, TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable

    tick = pendulum.instance(moment)
    following = CronDataIntervalTimetable(expression, timezone=timezone).next_dagrun_info(
        # Airflow goes on from the tick at or before the last interval's end, if that lies behind the interval's start.
        last_automated_data_interval=DataInterval(start=tick.subtract(years=100), end=tick),
        restriction=TimeRestriction(earliest=None, latest=None, catchup=True),
    )
    if following is None or following.data_interval is None or following.data_interval.end <= moment:
        raise IntervalError(f"The schedule {expression!r} has no tick after {moment.isoformat()}.")
    end: datetime = following.data_interval.end
    return end
