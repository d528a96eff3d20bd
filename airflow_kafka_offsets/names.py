"""Names as users give them: one topic or group, or several."""

from __future__ import annotations

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
