"""Pieces of an interval: the aligned windows that it is split into, in a time zone.

A piece starts at every multiple of the length since midnight, by the clocks of the zone: a day has 23 or 25 hours when
they change, and the quarter of a day in which they do is an hour shorter or longer. Time that clocks show twice is
split twice, if the length is an hour or less. Where the interval's own ends aren't such times, its first and last
pieces are shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from airflow_kafka_offsets.compat.airflow_versions import cron_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import instant_ms, to_datetime
from airflow_kafka_offsets.runs.interval import RunInterval

_NONE, _DAY = timedelta(), timedelta(days=1)
_TWICE = timedelta(hours=1)
"""Longest pieces of which there are two where clocks show a time twice."""
_MOST = 10_000
"""Most pieces of an interval: more than anybody means."""


def pieces_of(interval: RunInterval, length: timedelta, zone: tzinfo) -> list[tuple[int, int]]:
    """The starts and ends of an interval's pieces, in order, Unix milliseconds.

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
