"""Reads and checks users' arguments: names, durations, counts and choices.

Anything else is refused with a :class:`.ConfigurationError` that names the argument. Constants are checked when a task
is made, so that a Dag with a wrong one isn't even parsed, and templates when they are rendered: constructors check
:func:`constant`, and what runs checks what it is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypeVar

from airflow_kafka_offsets.errors import ConfigurationError

LONGEST_NAME = 2**15 - 1
"""Bytes of a text in Kafka's protocol: a broker hangs up on a longer one."""
_LONGEST_DURATION = timedelta(days=36_525)
_SHOWN = 100
_FLAGS = {True: ("true", "yes", "1"), False: ("false", "no", "0", "none", "")}


DataLossPolicy: TypeAlias = Literal["fail", "load_rest"]
"""``on_data_loss``: Kafka no longer has records of the window. ``load_rest`` loads the others, and records the loss."""
FuturePolicy: TypeAlias = Literal["fail", "warn"]
"""``on_future_record``: a boundary is at a record from the future, so that windows up to its time will be empty."""
HolePolicy: TypeAlias = Literal["fail", "warn"]
"""``on_hole``: offsets before the window are in no published window, and nobody loads them."""
IncompletePolicy: TypeAlias = Literal["fail", "warn"]
"""``on_incomplete``: an audited table isn't complete."""
UnknownPolicy: TypeAlias = Literal["fail", "warn"]
"""``on_unknown``: it can't be told when retention deletes records that aren't loaded."""


T = TypeVar("T")


def is_template(value: Any) -> bool:
    """Whether only the running task knows a value: text with Jinja's braces, another task's output or a Dag's
    parameter, or a collection with one of these in it."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(map(is_template, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(is_template, value))
    return hasattr(value, "iter_references")  # Airflow's own mark of what it resolves


def constant(value: T, instead: Any) -> T:
    """A value that is known when a Dag is parsed; for one that isn't, what stands in its place, so that all else can be
    checked."""
    return instead if is_template(value) else value


def can_be_sent(name: str) -> bool:
    """Whether Kafka's protocol has room for a name, and it is UTF-8; what isn't comes with surrogates in its place."""
    try:
        return len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


def as_names(value: Any, argument: str) -> tuple[str, ...]:
    """One name or several, as a tuple; each once.

    Those of a set are sorted: its own order differs between processes, and what is kept for names is found by them.
    """
    if isinstance(value, set):
        value = sorted(value, key=str)
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"{argument} must be a name or a list of names, not {value!r}.")
    if any(name.startswith("[") for name in names):
        raise ConfigurationError(
            f"{argument} is {value!r}: the text of a list, not a list. If a template renders it, set "
            "render_template_as_native_obj=True on the Dag."
        )
    for name in names:
        as_name(name, argument)
    return tuple(dict.fromkeys(names))


def as_name(value: Any, argument: str) -> str:
    """One name. A group may be named by an empty text in Kafka, which no user means."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{argument} must be a name, not {value!r}.")
    if not can_be_sent(value):
        raise ConfigurationError(
            f"{argument} must be UTF-8, of {LONGEST_NAME} bytes at most, not {value[:_SHOWN]!r}"
            f"{'…' if len(value) > _SHOWN else ''}."
        )
    return value


def as_topics(topics: Any, topic_pattern: str | None) -> tuple[str, ...] | re.Pattern[str]:
    """A pipeline's topics, by name or by pattern; exactly one of the two must be given."""
    if (topics is None) == (topic_pattern is None):
        raise ConfigurationError("Name a pipeline's topics with topics or topic_pattern: exactly one of them.")
    if topic_pattern is None:
        return as_names(topics, "topics")
    try:
        return re.compile(topic_pattern)
    except re.error as error:
        raise ConfigurationError(f"topic_pattern {topic_pattern!r} is not a regular expression: {error}.") from error


def as_milliseconds(duration: Any, argument: str) -> int | None:
    """A duration in milliseconds, from a timedelta or a number of seconds, 0 or more; None stays None."""
    if duration is None:
        return None
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= _LONGEST_DURATION.total_seconds():
        raise ConfigurationError(
            f"{argument} must be a timedelta or a number of seconds, from 0 to {_LONGEST_DURATION.days} days, "
            f"not {duration!r}."
        )
    return round(seconds * 1000)


def as_flag(value: Any, argument: str) -> bool:
    """A choice between yes and no, which a template may render as text; empty text and None mean no."""
    text = str(value).strip().lower()
    for meaning, texts in _FLAGS.items():
        if isinstance(value, (bool, int, str, type(None))) and text in texts:
            return meaning
    raise ConfigurationError(f"{argument} must be True or False, not {value!r}.")


def check_count(number: Any, argument: str, *, least: int = 0) -> None:
    """Check that a number is whole, and ``least`` or more; None is allowed."""
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
        raise ConfigurationError(f"{argument} must be a whole number, {least} or more, not {number!r}.")


def check_choice(name: str, value: str, *allowed: str) -> None:
    """Check that an argument has one of the allowed values."""
    if value not in allowed:
        raise ConfigurationError(f"{name} must be {' or '.join(map(repr, allowed))}, not {value!r}.")


def refuse_text(argument: str, names: Sequence[str]) -> None:
    """Check that names are a non-empty sequence, and not a single string, which is a sequence of letters."""
    if isinstance(names, str) or not names:
        raise ConfigurationError(f"{argument} must be a tuple of at least one name, not {names!r}.")
