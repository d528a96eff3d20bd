"""Times as people write them: ``2026-11-20 06:30``, ``06:30``, ``2h ago``. What has no zone is UTC.

Whatever a text leaves open is said on stderr, so that nobody has to guess which instant was taken. In Dags, and in all
that is stored, an instant has its zone.
"""

from __future__ import annotations

import re
from datetime import timedelta

from airflow_kafka_offsets.cli.commands import FORMS
from airflow_kafka_offsets.cli.printing import print_remark
from airflow_kafka_offsets.errors import InstantError
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms, parse_instant, to_datetime
from airflow_kafka_offsets.offsets.specs import OffsetSpec, SpecKind

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?", re.ASCII)
_BOTH = re.compile(rf"{_DATE.pattern}[Tt ]{_TIME.pattern}", re.ASCII)
_AGO = re.compile(r"(\d{1,6}) ?(s|m|h|d|seconds?|minutes?|hours?|days?) ago", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def instant(text: str) -> int:
    """Unix milliseconds of a time.

    :raises InstantError: when it isn't one.
    """
    found = _understood(text.strip())
    if found is None:
        try:
            return parse_instant(text)
        except InstantError:
            raise InstantError(f"{text!r} is not a time. Write {FORMS}.") from None
    print_remark(f"{text} is {iso_instant(found)}.")
    return found


def place(text: str) -> OffsetSpec:
    """What ListOffsets is asked for: ``latest``, ``earliest`` and so on, or the first record at or after a time.

    :raises InstantError: when it is neither.
    """
    if text in set(SpecKind) - {SpecKind.TIMESTAMP}:
        return OffsetSpec.parse(text)
    try:
        return OffsetSpec(SpecKind.TIMESTAMP, instant(text))
    except InstantError as error:
        known = ", ".join(kind for kind in SpecKind if kind is not SpecKind.TIMESTAMP)
        raise InstantError(f"{text!r} is none of {known}, and not a time: {error}") from None


def _understood(text: str) -> int | None:
    """A time whose text leaves something open; None if it leaves nothing open, or isn't a time."""
    if ago := _AGO.fullmatch(text):
        long_ago = timedelta(**{_UNITS[ago[2][0]]: int(ago[1])})
        return now_ms() - round(long_ago.total_seconds() * 1000)
    if _DATE.fullmatch(text):
        return parse_instant(f"{text}T00:00Z")
    if _BOTH.fullmatch(text):
        return parse_instant(f"{text}Z")
    return _last(text) if _TIME.fullmatch(text) else None


def _last(time_of_day: str) -> int:
    """When it was this time of day last."""
    now = now_ms()
    days = (to_datetime(now) - timedelta(days=days) for days in (0, 1))
    return next(at_ms for day in days if (at_ms := parse_instant(f"{day:%Y-%m-%d}T{time_of_day}Z")) <= now)
