"""A session: one deadline for everything a call does, and the connections and caches kept from earlier calls."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import Future, NodeId
from airflow_kafka_offsets.client.connection.transport import Transport
from airflow_kafka_offsets.client.routing.coordinators import Coordinators
from airflow_kafka_offsets.client.routing.metadata import Leaders, TopicsMetadata
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

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


class SearchedLog(NamedTuple):
    """A log, as long as it is the same one, and what records were looked for in it."""

    piece: TopicPartition
    topic_id: str | None
    leader_epoch: int | None
    isolation_level: IsolationLevel
    at_or_after_ms: int | None


@dataclass(frozen=True, slots=True)
class Session:
    """The context of one call.

    :param deadline: when the answer is due.
    :param in_flight: limits concurrent requests to each leader.
    :param gaps: offsets without a record (:mod:`.record_search`).
    :param touched: topics on which each group had commits or which it read, so that their metadata can be requested
        alongside the group's commits.
    """

    transport: Transport
    deadline: Deadline
    leaders: Leaders
    coordinators: Coordinators
    in_flight: InFlight = field(default_factory=InFlight)
    gaps: dict[SearchedLog, tuple[int, int]] = field(default_factory=dict)
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
