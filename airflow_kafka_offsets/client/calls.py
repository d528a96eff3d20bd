"""Calls: each has one deadline for everything, and goes on with the connections and the knowledge of those before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.connection.transport import Transport
from airflow_kafka_offsets.client.routing.coordinators import Coordinators
from airflow_kafka_offsets.client.routing.leaders import Leaders
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ConfigurationError

T = TypeVar("T")
log = logging.getLogger(__name__)


class Calls:
    """Calls to one cluster, one after the other. The first one connects.

    :param settings: how to reach the cluster.
    :param timeout_s: deadline of each call, in seconds.
    :raises ConfigurationError: when that isn't above 0.
    """

    def __init__(self, settings: ClientSettings, timeout_s: float) -> None:
        if timeout_s <= 0:
            raise ConfigurationError(f"timeout_s is {timeout_s}; a call needs a deadline above 0 seconds.")
        self._settings = settings
        self._timeout_s = timeout_s
        self._opened: Session | None = None
        self.throttle_time_ms = 0
        """The longest that a broker throttled the last one by, in milliseconds; 0 when none did."""

    def run(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        """Do what one call is about, and wait for it."""
        session = self._next()
        session.transport.throttle_time_ms = 0
        try:
            return session.transport.run(lambda: work(session), session.deadline)
        finally:
            self.throttle_time_ms = session.transport.throttle_time_ms
            if self.throttle_time_ms:
                log.info("Kafka throttled this client for %s ms: a quota is used up", self.throttle_time_ms)

    def close(self) -> None:
        """Close all connections. The next call opens them anew."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.transport.close()

    def _next(self) -> Session:
        opened = self._opened
        if opened is not None:
            return replace(opened, deadline=Deadline.after(self._timeout_s))
        # Half of the deadline for one answer leaves time to ask the next leader when a broker hangs.
        transport = Transport(self._settings, self._settings.request_timeout_s or self._timeout_s / 2)
        deadline = Deadline.after(self._timeout_s)
        opened = self._opened = Session(transport, deadline, Leaders(transport), Coordinators(transport))
        return opened
