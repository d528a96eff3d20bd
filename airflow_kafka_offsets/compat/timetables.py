"""Airflow's timetables, from either of their two families.

A Dag may use the timetables of ``airflow.timetables`` or, since Airflow 3.2, those of ``airflow.sdk``. The two families
share no class, and the older one keeps its arguments in private attributes. Names of classes and of arguments are the
same in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_BY_ASSETS_TOO = "AssetOrTimeSchedule"
INTERVALS = ("CronDataIntervalTimetable", "DeltaDataIntervalTimetable")
TRIGGERS = ("CronTriggerTimetable", "DeltaTriggerTimetable", "MultipleCronTriggerTimetable")
PARTITIONS = "CronPartitionTimetable"
"""Since Airflow 3.2. It is a trigger timetable too."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """A timetable's arguments; None for an argument that its kind doesn't have.

    :param kind: class name of the Airflow timetable that it is, or derives from; the class's own name for any other.
    :param expression: a cron expression.
    :param timezone: its time zone, or the zone's name.
    :param interval: length of the windows that a trigger timetable cuts back from its ticks.
    :param key_format: ``strftime`` format of partition keys.
    """

    kind: str
    expression: str | None = None
    timezone: Any = None
    interval: Any = None
    key_format: str | None = None
    timetables: tuple[Timetable, ...] = ()


def timetable_of(timetable: Any) -> Timetable | None:
    """A timetable's arguments; if it waits for assets too, those of its time-based part. None for no timetable."""
    if timetable is None or isinstance(timetable, Timetable):
        return timetable
    names = [each.__name__ for each in type(timetable).__mro__]
    if _BY_ASSETS_TOO in names:
        return timetable_of(timetable.timetable)
    known = next((name for name in names if name in (*INTERVALS, PARTITIONS, *TRIGGERS)), None)
    if known is None:  # its private attributes may mean something else
        expression, timezone = (getattr(timetable, part, None) for part in ("expression", "timezone"))
        return Timetable(type(timetable).__name__, expression, timezone)
    return Timetable(
        known,
        **{part: _of(timetable, part) for part in ("expression", "timezone", "interval", "key_format")},
        timetables=tuple(filter(None, map(timetable_of, _of(timetable, "timetables") or ()))),
    )


def _of(timetable: Any, part: str) -> Any:
    return getattr(timetable, part, getattr(timetable, f"_{part}", None))
