"""A call of the client: what it asks by, and when all of it has to be over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.transport import Transport
from airflow_kafka_offsets.client.records.record_findings import RecordFindings
from airflow_kafka_offsets.client.routing.coordinators import Coordinators
from airflow_kafka_offsets.client.routing.leaders import Leaders


@dataclass(frozen=True, slots=True)
class Session:
    """One call, which uses what earlier ones have learnt.

    :param transport: connections to the brokers.
    :param deadline: when the answer is due.
    :param leaders: who leads which partition, as far as it is known.
    :param coordinators: who coordinates which group, as far as it is known.
    :param findings: what was read in logs lately.
    :param touched: topics that each group had commits on or read, to ask for their metadata alongside its commits.
    """

    transport: Transport
    deadline: Deadline
    leaders: Leaders
    coordinators: Coordinators
    findings: RecordFindings = field(default_factory=RecordFindings)
    touched: dict[str, set[str]] = field(default_factory=dict)

    def attempt(self) -> Deadline:
        """When an attempt that begins now has to be over."""
        return self.transport.attempt(self.deadline)

    def half(self) -> Session:
        """For a round with another one to come, so that a hung broker costs its own pieces alone."""
        return replace(self, deadline=self.deadline.within(self.deadline.remaining_s() / 2))

    async def beside(self, *works: Callable[[], Awaitable[Any]]) -> Any:
        """The results of different questions, asked at the same time."""
        return await self.transport.gather(works)
