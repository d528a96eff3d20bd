"""Instants: moments in time as Unix milliseconds UTC, which is what Kafka stamps records with.

Three forms, one meaning: ``1795240800000`` on the wire, ``2026-11-21T06:00:00.000Z`` for people, and
``20261121T060000000Z`` in file names (no ``:``, which HDFS refuses; sorts by time).
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from datetime import datetime, timedelta

from airflow_kafka_offsets.compat.python_versions import UTC
from airflow_kafka_offsets.errors import InstantError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_YEARS = 400
_CYCLE_MS = 146_097 * 86_400_000
"""Length of the Gregorian calendar's cycle: it repeats after this many days."""
_PLAUSIBLE_MS = range(100_000_000_000, 10_000_000_000_000)
"""March 1973 to November 2286. Instants of our time in seconds or microseconds fall outside."""
FUTURE_TOLERANCE_MS = 3_600_000
"""How far ahead of our clock a record's timestamp may be: Kafka 4's default ``message.timestamp.after.max.ms``
(KIP-937, KIP-1030)."""
CLOCK_TOLERANCE_MS = 300_000
"""How far the clocks of two machines of ours may be apart."""
_COMPACT = re.compile(r"\d{8}T\d{9}Z", re.ASCII)
_ISO = re.compile(
    r"[\dW-]+(?:[Tt ]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?)?",
    re.ASCII,
)
"""The accepted forms; Python then tells whether a match is a valid moment. On its own, Python would ignore other
characters, such as NUL, in some places, and a fraction of a second in a zone."""

_DROPPED = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)
"""A text with a part of a microsecond, which Python drops."""


def now_ms() -> int:
    """This machine's clock, Unix milliseconds."""
    return time.time_ns() // 1_000_000


def is_from_future(timestamp_ms: int | None, now_ms: int) -> bool:
    """Whether a record's timestamp is further ahead of the clock than clock skew explains (E5). It then doesn't say
    when the record was written.
    """
    return timestamp_ms is not None and timestamp_ms > now_ms + FUTURE_TOLERANCE_MS


def instant_ms(moment: datetime | int) -> int:
    """Unix milliseconds of an aware datetime or of a plausible number of milliseconds (E35).

    A fraction of a millisecond is rounded up, which is exact: records carry whole milliseconds.

    :raises InstantError: for a naive datetime, or an int that looks like seconds, microseconds or nanoseconds.
    """
    if isinstance(moment, datetime):
        return _from_datetime(moment)
    if isinstance(moment, bool) or not isinstance(moment, int):
        raise InstantError(f"An instant must be an aware datetime or Unix milliseconds, not {moment!r}.")
    if moment not in _PLAUSIBLE_MS:
        raise InstantError(
            f"{moment} is not a plausible instant in Unix milliseconds (13 digits today). Was it seconds or "
            "microseconds? Pass an aware datetime to be safe."
        )
    return moment


def _from_datetime(moment: datetime) -> int:
    if moment.tzinfo is None or moment.utcoffset() is None:
        text = moment.isoformat()
        raise InstantError(f"{text} has no time zone. Write {text}Z for UTC, or pass an aware datetime.")
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        raise InstantError(f"{moment.isoformat()} lies outside the years 1 to 9999 in UTC.") from None
    milliseconds = -(-utc.microsecond // 1000)  # rounded up: a record at or after the moment is at least this late
    found = timegm(utc.timetuple()) * 1000 + milliseconds  # not by subtraction, which gives another type in pendulum
    if found < 0:
        raise InstantError(f"{moment.isoformat()} lies before 1970, where Kafka's timestamps begin.")
    return found


def parse_instant(text: str) -> int:
    """Unix milliseconds of an ISO-8601 text with a zone, or of a file name's compact form.

    :raises InstantError: when it is neither, or has no zone.
    """
    if _COMPACT.fullmatch(text):
        # The one form that a driver parses, written as Python 3.10 reads it.
        date, time_of_day = f"{text[:4]}-{text[4:6]}-{text[6:8]}", f"{text[9:11]}:{text[11:13]}:{text[13:15]}"
        text = f"{date}T{time_of_day}.{text[15:18]}+00:00"
    elif not _ISO.fullmatch(text):
        raise _no_instant(text)
    try:
        moment = datetime.fromisoformat(text)
        return _from_datetime(moment) + (_DROPPED.search(text) is not None and moment.microsecond % 1000 == 0)
    except ValueError as error:
        if isinstance(error, InstantError):
            raise
        raise _no_instant(text) from None


def _no_instant(text: str) -> InstantError:
    return InstantError(f"{text!r} is not an instant. Use ISO-8601 with a zone, for example 2026-11-21T06:00:00Z.")


def given_instant(moment: str | datetime) -> int:
    """Unix milliseconds of a user's argument: text as in :func:`parse_instant`, the rest as in :func:`instant_ms`."""
    return parse_instant(moment) if isinstance(moment, str) else instant_ms(moment)


def to_datetime(timestamp_ms: int) -> datetime:
    """One of our instants in UTC. Not for records' timestamps, which may be in years that a datetime can't hold."""
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def iso_instant(timestamp_ms: int) -> str:
    """For people: ``2026-11-21T06:00:00.000Z``.

    Takes any timestamp that a record may have, since producers can set any. A year outside 0 to 9999 has a sign, as in
    Java's ``Instant``: microseconds passed as milliseconds give ``+58858-12-01T00:00:00.000Z``.
    """
    cycles, within_ms = divmod(timestamp_ms, _CYCLE_MS)
    moment = to_datetime(within_ms)
    year = moment.year + cycles * _CYCLE_YEARS
    text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{text}{moment:-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def compact_instant(timestamp_ms: int) -> str:
    """For file names: ``20261121T060000000Z``."""
    moment = to_datetime(timestamp_ms)
    return f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}Z"


def duration_text(seconds: float) -> str:
    """For people, roughly: ``300 ms``, ``1.5 s``, ``90 s``, ``50 minutes``, ``5 hours``, ``10 days``.
    Never rounded to 0."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    if seconds < 0.9995:
        return f"{max(1, round(seconds * 1000))} ms"
    return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"


def rate_text(records: float, seconds: float) -> str:
    """For people: ``150,000 a second``, ``0.42 a second``. Never rounded to 0.

    :param seconds: how long the records took; less than 1 ms counts as 1 ms.
    """
    rate = records / max(seconds, 0.001)
    return f"{rate:,.0f} a second" if rate >= 9.95 else f"{rate:.2g} a second"
