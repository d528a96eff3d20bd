"""Arguments as users give them: one name or several, a timedelta or seconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError


def as_names(value: Any, argument: str) -> tuple[str, ...]:
    """One name or several, as a tuple.

    :param argument: the argument's name, for the message.
    :raises ConfigurationError: for anything else.
    """
    names = (value,) if isinstance(value, str) else tuple(value or ())
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"{argument} is a name or a list of names, not {value!r}.")
    return names


def as_milliseconds(duration: timedelta | float | None) -> int | None:
    """A duration as users give it, a timedelta or seconds, in milliseconds; None stays None."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return None if seconds is None else round(seconds * 1000)
