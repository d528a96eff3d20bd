"""Arguments as users give them: names, durations, counts, and words of which there are a few.

Whatever is something else is refused with a :class:`.ConfigurationError` that has the argument's name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError


def as_names(value: Any, argument: str) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple, set)) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"{argument} must be a name or a list of names, not {value!r}.")
    if any(name.startswith("[") for name in names):
        raise ConfigurationError(
            f"{argument} is {value!r}, the text of a list: a Dag whose templates make lists needs "
            "render_template_as_native_obj=True."
        )
    return names


def as_topics(topics: Any, topic_pattern: str | None) -> tuple[str, ...] | re.Pattern[str]:
    """A pipeline's topics, by name or by a pattern: one of the two is given."""
    if (topics is None) == (topic_pattern is None):
        raise ConfigurationError("A pipeline's topics are given by topics or by topic_pattern: exactly one of them.")
    if topic_pattern is None:
        return as_names(topics, "topics")
    try:
        return re.compile(topic_pattern)
    except re.error as error:
        raise ConfigurationError(f"topic_pattern {topic_pattern!r} is not a regular expression: {error}.") from error


def as_milliseconds(duration: Any, argument: str) -> int | None:
    """A duration of 0 or more, a timedelta or seconds, in milliseconds; None stays None."""
    if duration is None:
        return None
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0:
        raise ConfigurationError(f"{argument} must be a timedelta or a number of seconds, 0 or more, not {duration!r}.")
    return round(seconds * 1000)


def as_count(number: Any, argument: str, *, least: int = 0) -> None:
    """Make sure that a number is whole, and ``least`` or more; None is none."""
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
        raise ConfigurationError(f"{argument} must be a whole number, {least} or more, not {number!r}.")


def one_of(name: str, value: str, *allowed: str) -> None:
    """Make sure that a policy is one of those that there are."""
    if value not in allowed:
        raise ConfigurationError(f"{name} is {' or '.join(map(repr, allowed))}, not {value!r}.")


def refuse_text(argument: str, names: Sequence[str]) -> None:
    """Make sure that several names are not one text, which is a sequence of letters, nor none."""
    if isinstance(names, str) or not names:
        raise ConfigurationError(f"{argument} must be a tuple of at least one name, not {names!r}.")
