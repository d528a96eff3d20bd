"""Airflow's cron timetables, from either of their two families.

A Dag may use the timetables of ``airflow.timetables`` or, since Airflow 3.2, those of ``airflow.sdk``. The two families
share no class, and the older one keeps its arguments in private attributes. Names of classes and of arguments are the
same in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

_CRONS = ("CronDataIntervalTimetable", "CronTriggerTimetable", "CronPartitionTimetable")
_BY_ASSETS_TOO = "AssetOrTimeSchedule"


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule of one cron expression.

    :param timezone: its time zone, or the zone's name.
    :param interval: length of the windows that end at its ticks; None where they reach from tick to tick.
    """

    expression: str
    timezone: Any
    interval: timedelta | None = None


def cron_of(timetable: Any) -> Cron | None:
    """The schedule of a timetable, also if that waits for assets too; None for one with several crons, or none."""
    names = [each.__name__ for each in type(timetable).__mro__]
    if _BY_ASSETS_TOO in names:
        return cron_of(timetable.timetable)
    if not any(name in _CRONS for name in names):  # private attributes of others may mean something else
        return None
    interval = _of(timetable, "interval")
    return Cron(_of(timetable, "expression"), _of(timetable, "timezone"), interval or None)


def _of(timetable: Any, part: str) -> Any:
    return getattr(timetable, part, getattr(timetable, f"_{part}", None))
