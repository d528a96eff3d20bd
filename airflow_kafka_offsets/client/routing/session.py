"""Sessions: one deadline for all that a call does, and what earlier calls have opened and learnt."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.future import Future

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.transport import NodeId, Transport
from airflow_kafka_offsets.client.records.record_findings import RecordFindings
from airflow_kafka_offsets.client.routing.coordinators import Coordinators
from airflow_kafka_offsets.client.routing.metadata import Leaders, TopicsMetadata

_AT_ONCE = 4
"""Requests under way to one leader."""


class InFlight:
    """How many requests to one broker are under way at the same time; the others wait in line.

    A broker serves one request of a connection after the other. A few on their way hide the network; what waits behind
    them in the broker would only run into its timeout.
    """

    def __init__(self) -> None:
        self._free: defaultdict[NodeId, int] = defaultdict(lambda: _AT_ONCE)
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

    :param deadline: when the answer is due.
    :param in_flight: who may ask a leader now.
    :param touched: topics that each group had commits on or read, to ask for their metadata alongside its commits.
    """

    transport: Transport
    deadline: Deadline
    leaders: Leaders
    coordinators: Coordinators
    in_flight: InFlight = field(default_factory=InFlight)
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
