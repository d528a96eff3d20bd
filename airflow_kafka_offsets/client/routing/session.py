"""Sessions: one deadline for everything a call does, and the connections and caches kept from earlier calls."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import Future, NodeId
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.connection.transport import Transport
from airflow_kafka_offsets.client.records.record_findings import RecordFindings
from airflow_kafka_offsets.client.routing.coordinators import Coordinators
from airflow_kafka_offsets.client.routing.metadata import Leaders, TopicsMetadata

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)

_AT_ONCE = 4
"""Maximum number of concurrent requests to one leader."""


class InFlight:
    """Limits concurrent requests to each broker; further requests wait in line.

    A broker serves the requests of one connection one after another. A few in flight hide the network latency; more
    would only wait in the broker and run into their timeouts.
    """

    def __init__(self) -> None:
        self._free: defaultdict[NodeId, int] = defaultdict(lambda: _AT_ONCE)
        self._line: defaultdict[NodeId, deque[Future]] = defaultdict(deque)

    @asynccontextmanager
    async def at(self, broker: NodeId) -> AsyncIterator[None]:
        """Wait for a turn, first come, first served, and pass it on afterwards."""
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
    """The context of one call.

    :param deadline: when the answer is due.
    :param in_flight: limits concurrent requests to each leader.
    :param findings: what was found in logs lately.
    :param touched: topics on which each group had commits or which it read, so that their metadata can be requested
        alongside the group's commits.
    """

    transport: Transport
    deadline: Deadline
    leaders: Leaders
    coordinators: Coordinators
    in_flight: InFlight = field(default_factory=InFlight)
    findings: RecordFindings = field(default_factory=RecordFindings)
    touched: dict[str, set[str]] = field(default_factory=dict)

    def attempt(self) -> Deadline:
        """The deadline of an attempt that starts now."""
        return self.transport.attempt(self.deadline)

    def half(self) -> Session:
        """A session with half of the time left, for a round that another round follows: a hung broker then costs only
        its own pieces."""
        return replace(self, deadline=self.deadline.within(self.deadline.remaining_s() / 2))

    async def describe(self, topics: Iterable[str] | None) -> TopicsMetadata:
        """Fresh metadata of some topics or all.

        :raises ClusterUnreachableError: when no broker answers by the deadline.
        """
        return await self.leaders.describe(topics, self.deadline)

    async def beside(self, *works: Callable[[], Awaitable[Any]]) -> Any:
        """Run different requests concurrently and return their results in order."""
        return await self.transport.gather(works)


class Sessions:
    """The sessions of one client, one after the other. Connects on the first call.

    :param timeout_s: how long each call may take, in seconds.
    """

    def __init__(self, settings: ClientSettings, timeout_s: float) -> None:
        self.settings = settings
        self.timeout_s = timeout_s
        self.throttle_time_ms = 0
        """The longest time that a broker throttled the last call (quotas, KIP-124), in milliseconds; 0 if none did."""
        self._opened: Session | None = None

    def ask(
        self, work: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do a call's work in a session of its own, and block until its end."""
        session = self._next()
        session.transport.throttle_time_ms = 0
        try:
            return session.transport.run(lambda: work(session, *args, **kwargs), session.deadline)
        finally:
            self.throttle_time_ms = session.transport.throttle_time_ms
            if self.throttle_time_ms:
                log.info("Kafka throttled this client for %s ms: a quota is used up", self.throttle_time_ms)

    def _next(self) -> Session:
        """The connections and metadata kept from earlier calls, with a new deadline."""
        deadline = Deadline.after(self.timeout_s)
        if self._opened is None:
            # Limiting one answer to half of the deadline leaves time to ask the next leader when a broker hangs.
            transport = Transport(self.settings, self.settings.request_timeout_s or self.timeout_s / 2)
            self._opened = Session(transport, deadline, Leaders(transport), Coordinators(transport))
        return replace(self._opened, deadline=deadline)

    def close(self) -> None:
        """Close all connections. The next call reconnects."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.transport.close()
