"""Fan-out: ask every broker for its own pieces at the same time, and again for those pieces alone that may still come.

A piece is a partition or a group. Pieces are sharded by the broker that answers for them (leader or coordinator). Each
shard goes its own way from there: its request, its back-off, its new look-up, its next request. No shard waits for
another one, so that a hung broker costs its own pieces time, and nobody else's. What a piece came back with last is its
result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline, backoff_s
from airflow_kafka_offsets.client.connection.response_errors import is_stale, left_out, may_be_told_yet
from airflow_kafka_offsets.client.connection.transport import NodeId, failure_of
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ClusterUnreachableError, ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionElement, TopicPartition

P = TypeVar("P", bound=Hashable)
R = TypeVar("R")
E = TypeVar("E", bound=PartitionElement)


class Locator(Protocol[P]):
    """Who answers for a piece; remembers what it was told."""

    async def locate(self, pieces: Collection[P], deadline: Deadline) -> Mapping[P, int | ResponseError]:
        """The broker of each piece, or why there is none."""

    def forget(self, pieces: Iterable[P]) -> None:
        """Ask anew the next time."""


class FanOut(Generic[P, R]):
    """Pieces in, a result for each of them out, by the call's deadline.

    :param places: who answers for a piece.
    :param ask: asks one broker for some pieces; a piece may be missing from its answer.
    :param error_of: the error that a result carries, if it is worth another attempt to get rid of it.
    :param failed: the result of a piece for which there is only an error.
    """

    def __init__(
        self,
        session: Session,
        places: Locator[P],
        ask: Callable[[NodeId, list[P], Deadline], Awaitable[Mapping[P, R]]],
        error_of: Callable[[R], ResponseError | None],
        failed: Callable[[P, ResponseError], R],
    ) -> None:
        self._session = session
        self._places = places
        self._ask = ask
        self._error_of = error_of
        self._failed = failed
        self._results: dict[P, R] = {}

    async def run(self, pieces: Iterable[P]) -> dict[P, R]:
        """A result for every piece.

        :raises ClusterUnreachableError: when no broker at all could say where to ask.
        :raises AuthenticationError: when a broker refused the credentials.
        """
        await self._settle(list(dict.fromkeys(pieces)), 0)
        return self._results

    async def _settle(self, pieces: Collection[P], attempt: int) -> None:
        try:
            places = await self._places.locate(pieces, self._session.deadline)
        except ClusterUnreachableError:
            if attempt == 0:
                raise
            return  # these pieces keep their last error, and the others what they were told
        shards: dict[int, list[P]] = defaultdict(list)
        homeless = []
        for piece in pieces:
            place = places[piece]
            if isinstance(place, ResponseError):
                self._results[piece] = self._failed(piece, place)
                if may_be_told_yet(place):
                    homeless.append(piece)
            else:
                shards[place].append(piece)
        works = [partial(self._ask_shard, node, shard, attempt) for node, shard in shards.items()]
        await self._session.transport.gather([*works, partial(self._again, homeless, attempt)])

    async def _ask_shard(self, node: int, pieces: list[P], attempt: int) -> None:
        answer: Mapping[P, R] = {}
        missing = left_out(f"broker {node}")
        try:
            answer = await self._ask(node, pieces, self._session.attempt())
        except Exception as error:
            missing = failure_of(error, f"broker {node}")
        retry = []
        for piece in pieces:
            result = answer[piece] if piece in answer else self._failed(piece, missing)
            self._results[piece] = result
            passing = self._error_of(result)
            if passing is not None and passing.retriable:
                retry.append(piece)
                if is_stale(passing):
                    self._places.forget([piece])
        await self._again(retry, attempt)

    async def _again(self, pieces: Collection[P], attempt: int) -> None:
        pause = backoff_s(attempt)
        if pieces and self._session.deadline.allows(pause):
            await self._session.transport.sleep(pause)
            await self._settle(pieces, attempt + 1)


async def ask_leaders(
    session: Session,
    partitions: Iterable[TopicPartition],
    request_class: Any,
    *,
    build: Callable[[list[TopicPartition], int, int], Any],
    parse: Callable[[Any], Mapping[TopicPartition, E]],
    failed: Callable[[TopicPartition, ResponseError], E],
    at_least: int = 0,
    at_most: int | None = None,
) -> Iterable[E]:
    """Ask all leaders at the same time, each in its turn; an element for every partition, by the deadline.

    :param request_class: kafka-python's class, for negotiating the version.
    :param build: from a leader's partitions, the version and the milliseconds that are left, to a request.
    :param parse: from a response to an element for each partition that it mentions.
    :param failed: the element of a partition for which there is only an error.
    :param at_least: the first version that can answer.
    :param at_most: the last one; None for the newest.
    """

    async def ask(node: NodeId, pieces: list[TopicPartition], _: Deadline) -> Mapping[TopicPartition, E]:
        async with session.in_flight.at(node):
            attempt = session.attempt()  # from now on: the line may have been long
            version = await session.transport.version(node, request_class, attempt, at_least=at_least, at_most=at_most)
            request = build(pieces, version, attempt.remaining_ms())
            return parse(await session.transport.send(node, request, attempt))

    results = await FanOut(session, session.leaders, ask, lambda element: element.error, failed).run(partitions)
    return results.values()
