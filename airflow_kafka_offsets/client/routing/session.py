"""Sessions: one deadline for all that a call does, and what earlier calls have opened and learnt."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from kafka.future import Future

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.connection.transport import NodeId, Transport
from airflow_kafka_offsets.client.records.record_findings import RecordFindings
from airflow_kafka_offsets.client.routing.coordinators import Coordinators
from airflow_kafka_offsets.client.routing.metadata import Leaders, TopicsMetadata
from airflow_kafka_offsets.errors import ConfigurationError

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)

_AT_ONCE = 4
"""Requests under way to one leader."""


class InFlight:
    """How many requests to one broker are under way at the same time; the others wait in line.

    A broker serves one request of a connection after the other. A few on their way hide the network; what waits behind
    them in the broker would only run into its timeout.
    """

    def __init__(self, at_once: int) -> None:
        self._free: defaultdict[NodeId, int] = defaultdict(lambda: at_once)
        self._line: defaultdict[NodeId, deque[Future]] = defaultdict(deque)

    @asynccontextmanager
    async def at(self, broker: NodeId) -> AsyncIterator[None]:
        """Wait for a turn, first come, first served, and pass it on in the end."""
        if self._free[broker]:
            self._free[broker] -= 1
        else:
            turn = Future()
            self._line[broker].append(turn)
            await turn
        try:
            yield
        finally:
            if self._line[broker]:
                self._line[broker].popleft().success(None)
            else:
                self._free[broker] += 1


@dataclass(frozen=True, slots=True)
class Session:
    """One call, which uses what earlier ones have learnt.

    :param transport: connections to the brokers.
    :param deadline: when the answer is due.
    :param leaders: who leads which partition, as far as it is known.
    :param coordinators: who coordinates which group, as far as it is known.
    :param in_flight: who may ask a leader now.
    :param findings: what was read in logs lately.
    :param touched: topics that each group had commits on or read, to ask for their metadata alongside its commits.
    """

    transport: Transport
    deadline: Deadline
    leaders: Leaders
    coordinators: Coordinators
    in_flight: InFlight = field(default_factory=lambda: InFlight(_AT_ONCE))
    findings: RecordFindings = field(default_factory=RecordFindings)
    touched: dict[str, set[str]] = field(default_factory=dict)

    def attempt(self) -> Deadline:
        """When an attempt that begins now has to be over."""
        return self.transport.attempt(self.deadline)

    def half(self) -> Session:
        """For a round with another one to come, so that a hung broker costs its own pieces alone."""
        return replace(self, deadline=self.deadline.within(self.deadline.remaining_s() / 2))

    async def describe(self, topics: Iterable[str] | None) -> TopicsMetadata:
        """Fresh metadata of some topics or of all.

        :raises ClusterUnreachableError: when no broker answers by the deadline.
        """
        return await self.leaders.describe(topics, self.deadline)

    async def beside(self, *works: Callable[[], Awaitable[Any]]) -> Any:
        """The results of different questions, asked at the same time."""
        return await self.transport.gather(works)


class Calls:
    """Calls to one cluster, one after the other. The first one connects.

    :param settings: how to reach the cluster.
    :param timeout_s: deadline of each call, in seconds.
    :raises ConfigurationError: when that isn't above 0.
    """

    def __init__(self, settings: ClientSettings, timeout_s: float) -> None:
        if timeout_s <= 0:
            raise ConfigurationError(f"timeout_s is {timeout_s}; a call needs a deadline of more than 0 seconds.")
        self._settings = settings
        self._timeout_s = timeout_s
        self._opened: Session | None = None
        self.throttle_time_ms = 0
        """The longest that a broker throttled the last one by, in milliseconds; 0 when none did."""

    def run(
        self, work: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do what one call is about, and wait for it.

        :param work: takes a session and the arguments.
        """
        session = self._next()
        session.transport.throttle_time_ms = 0
        try:
            return session.transport.run(lambda: work(session, *args, **kwargs), session.deadline)
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
        if self._opened is not None:
            return replace(self._opened, deadline=Deadline.after(self._timeout_s))
        # Half of the deadline for one answer leaves time to ask the next leader when a broker hangs.
        transport = Transport(self._settings, self._settings.request_timeout_s or self._timeout_s / 2)
        deadline = Deadline.after(self._timeout_s)
        self._opened = Session(transport, deadline, Leaders(transport), Coordinators(transport))
        return self._opened
