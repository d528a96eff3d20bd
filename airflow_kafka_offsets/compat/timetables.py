"""Airflow's timetables, whichever class they are of.

A Dag may name those of ``airflow.timetables`` or, since Airflow 3.2, those of ``airflow.sdk``, and the two families
share no class. The older one keeps what it was made of to itself. What they have in common are the names of classes and
of what they are made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_BY_ASSETS_TOO = "AssetOrTimeSchedule"
INTERVALS = ("CronDataIntervalTimetable", "DeltaDataIntervalTimetable")
TRIGGERS = ("CronTriggerTimetable", "DeltaTriggerTimetable", "MultipleCronTriggerTimetable")
PARTITIONS = "CronPartitionTimetable"
"""Since Airflow 3.2. It is a trigger's timetable too."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """What a timetable is made of; None is what one of its kind doesn't have.

    :param kind: class name of Airflow's own timetable that it is, or is made from; another one's as it is.
    :param expression: of cron, in a time zone or the zone's name.
    :param interval: how long the windows are that a trigger's timetable cuts back from its ticks.
    :param key_format: of partition keys, as ``strftime`` takes it.
    """

    kind: str
    expression: str | None = None
    timezone: Any = None
    interval: Any = None
    key_format: str | None = None
    timetables: tuple[Timetable, ...] = ()


def timetable_of(timetable: Any) -> Timetable | None:
    """What a timetable says; of one that waits for assets too, the part that goes by time. None where there is none."""
    if timetable is None or isinstance(timetable, Timetable):
        return timetable
    names = [each.__name__ for each in type(timetable).__mro__]
    if _BY_ASSETS_TOO in names:
        return timetable_of(timetable.timetable)
    known = next((name for name in names if name in (*INTERVALS, PARTITIONS, *TRIGGERS)), None)
    if known is None:  # what it keeps to itself may mean something else
        expression, timezone = (getattr(timetable, part, None) for part in ("expression", "timezone"))
        return Timetable(type(timetable).__name__, expression, timezone)
    return Timetable(
        known,
        **{part: _of(timetable, part) for part in ("expression", "timezone", "interval", "key_format")},
        timetables=tuple(filter(None, map(timetable_of, _of(timetable, "timetables") or ()))),
    )


def _of(timetable: Any, part: str) -> Any:
    return getattr(timetable, part, getattr(timetable, f"_{part}", None))
