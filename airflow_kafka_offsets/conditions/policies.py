"""Policies: arguments that take one of a few words."""

from __future__ import annotations

from airflow_kafka_offsets.errors import ConfigurationError


def one_of(name: str, value: str, *allowed: str) -> None:
    """Make sure that a policy is one of those that there are.

    :raises ConfigurationError: when it isn't.
    """
    if value not in allowed:
        raise ConfigurationError(f"{name} is {' or '.join(map(repr, allowed))}, not {value!r}.")
