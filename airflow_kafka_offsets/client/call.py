"""A call of the client: what it asks by, and when all of it has to be over."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.client.coordinators import Coordinators
from airflow_kafka_offsets.client.deadline import Deadline
from airflow_kafka_offsets.client.leaders import Leaders
from airflow_kafka_offsets.client.record_findings import RecordFindings
from airflow_kafka_offsets.client.transport import Transport


@dataclass(frozen=True, slots=True)
class Call:
    """One call, which uses what earlier ones have learnt.

    :param transport: connections to the brokers.
    :param leaders: who leads which partition, as far as it is known.
    :param coordinators: who coordinates which group, as far as it is known.
    :param findings: what was read in logs lately.
    :param touched: topics that each group has commits on or reads, as far as it is known.
    :param deadline: when the answer is due.
    """

    transport: Transport
    leaders: Leaders
    coordinators: Coordinators
    findings: RecordFindings
    touched: dict[str, set[str]]
    deadline: Deadline

    def attempt(self) -> Deadline:
        """When an attempt that begins now has to be over."""
        return self.transport.attempt(self.deadline)
