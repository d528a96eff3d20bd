"""Clients of kafka-python's that get through to a cluster of which brokers have just died."""

from __future__ import annotations

from typing import Any, TypeVar

from kafka.errors import KafkaTimeoutError

Client = TypeVar("Client")

TRIES, TRY_MS = 6, 10_000
"""How often a client is made, and how long each may look for a broker that answers."""


def connect(make: type[Client], *topics: str, bootstrap_servers: str, **config: Any) -> Client:
    """A client of a class that kafka-python has.

    A client may wait for one broker until all its time to bootstrap is up, though others would answer. A new client
    draws another broker.
    """
    for _ in range(TRIES - 1):
        try:
            return make(*topics, bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=TRY_MS, **config)
        except KafkaTimeoutError:
            continue
    return make(*topics, bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=TRY_MS, **config)
