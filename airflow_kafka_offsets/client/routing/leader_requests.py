"""Leader requests: what all requests that leaders answer partition by partition have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.transport import NodeId
from airflow_kafka_offsets.client.routing.fan_out import FanOut, ShardRequest
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionElement, TopicPartition

R = TypeVar("R", bound=PartitionElement)


@dataclass(frozen=True, slots=True)
class LeaderRequest(Generic[R]):
    """One request, as it is made for each leader.

    :param request_class: kafka-python's class, for negotiating the version.
    :param build: from a leader's partitions, the version and the milliseconds that are left, to a request.
    :param parse: from a response to an element for each partition that it mentions.
    :param failed: the element of a partition for which there is only an error.
    :param at_least: the first version that can answer.
    :param at_most: the last one; None for the newest.
    """

    request_class: Any
    build: Callable[[list[TopicPartition], int, int], Any]
    parse: Callable[[Any], Mapping[TopicPartition, R]]
    failed: Callable[[TopicPartition, ResponseError], R]
    at_least: int = 0
    at_most: int | None = None


async def ask_leaders(session: Session, request: LeaderRequest[R], partitions: Iterable[TopicPartition]) -> Iterable[R]:
    """Ask all leaders at the same time, each in its turn; an element for every partition, by the deadline."""

    async def ask(node: NodeId, pieces: list[TopicPartition], _: Deadline) -> Mapping[TopicPartition, R]:
        async with session.leaders.turns.at(node):
            attempt = session.attempt()  # from now on: the line may have been long
            version = await session.transport.version(
                node, request.request_class, attempt, at_least=request.at_least, at_most=request.at_most
            )
            built = request.build(pieces, version, attempt.remaining_ms())
            return request.parse(await session.transport.send(node, built, attempt))

    question = ShardRequest(ask, lambda element: element.error, request.failed)
    return (await FanOut(session, session.leaders, question).run(partitions)).values()
