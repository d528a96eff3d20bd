"""Fan-out: ask all brokers for their own pieces at the same time, and retry only the pieces that may still succeed.

A piece is a partition or a group. Pieces are sharded by the broker that answers for them (leader or coordinator). Each
shard then proceeds on its own: request, back-off, new look-up, next request. Shards don't wait for each other, so a
hung broker delays only its own pieces. A piece's result is the last one that it got.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline, backoff_s
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.transport import failure_of
from airflow_kafka_offsets.client.connection.wire import is_stale, left_out
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ClusterUnreachableError, ResponseError
from airflow_kafka_offsets.offsets.answers.groups import GroupOffsets, ShareGroupOffsets
from airflow_kafka_offsets.offsets.partitions import PartitionElement, PartitionMap, TopicPartition

P = TypeVar("P", bound=Hashable)
R = TypeVar("R")
E = TypeVar("E", bound=PartitionElement)


class Locator(Protocol[P]):
    """Knows which broker answers for a piece, and caches it."""

    async def locate(self, pieces: Collection[P], deadline: Deadline) -> Mapping[P, int | ResponseError]:
        """The broker of each piece, or why there is none."""

    def drop(self, pieces: Iterable[P]) -> None:
        """Drop pieces from the cache, so that they are looked up again."""


class FanOut(Generic[P, R]):
    """Gets a result for each piece, by the call's deadline.

    :param locator: knows which broker answers for a piece.
    :param ask: asks one broker for some pieces; pieces may be missing from its answer.
    :param error_of: a result's error; the piece is asked for again if the error is retriable. None if there is none, or
        if it isn't worth another attempt.
    :param failed: makes the result of a piece for which there is only an error.
    """

    def __init__(
        self,
        session: Session,
        locator: Locator[P],
        ask: Callable[[NodeId, list[P], Deadline], Awaitable[Mapping[P, R]]],
        error_of: Callable[[R], ResponseError | None],
        failed: Callable[[P, ResponseError], R],
    ) -> None:
        self._session = session
        self._locator = locator
        self._ask = ask
        self._error_of = error_of
        self._failed = failed
        self._results: dict[P, R] = {}

    async def run(self, pieces: Iterable[P]) -> dict[P, R]:
        """A result for every piece.

        :raises ClusterUnreachableError: when no broker could say which brokers to ask.
        :raises AuthenticationError: when a broker refused the credentials.
        """
        await self._ask_brokers(list(dict.fromkeys(pieces)), 0)
        return self._results

    async def _ask_brokers(self, pieces: Collection[P], attempt: int) -> None:
        try:
            brokers = await self._locator.locate(pieces, self._session.deadline)
        except ClusterUnreachableError:
            if attempt == 0:
                raise
            return  # these pieces keep their last error, and the others their results
        shards: dict[int, list[P]] = defaultdict(list)
        unlocated = []
        for piece in pieces:
            broker = brokers[piece]
            if isinstance(broker, ResponseError):
                self._results[piece] = self._failed(piece, broker)
                if broker.may_pass:
                    unlocated.append(piece)
            else:
                shards[broker].append(piece)
        works = [partial(self._ask_shard, node, shard, attempt) for node, shard in shards.items()]
        await self._session.transport.gather([*works, partial(self._again, unlocated, attempt)])

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
                    self._locator.drop([piece])
        await self._again(retry, attempt)

    async def _again(self, pieces: Collection[P], attempt: int) -> None:
        pause = backoff_s(attempt)
        if pieces and self._session.deadline.allows(pause):
            await self._session.transport.sleep(pause)
            await self._ask_brokers(pieces, attempt + 1)


def passing_error(offsets: PartitionMap[Any]) -> ResponseError | None:
    """A partition's transient error, for which a coordinator is asked again, such as UNSTABLE_OFFSET_COMMIT while a
    transaction is being committed (E31); None if there is none."""
    return next((each.error for each in offsets.unordered() if each.error is not None and each.error.may_pass), None)


def error_within(group: GroupOffsets | ShareGroupOffsets) -> ResponseError | None:
    """The error for which a group is asked for again: its own, or that of a partition."""
    return group.error or passing_error(group.offsets)


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
    """Ask all leaders concurrently, with a limit per leader; returns an element for every partition, by the deadline.

    :param request_class: kafka-python's class, for negotiating the version.
    :param build: makes a request from a leader's partitions, the version and the milliseconds left.
    :param parse: makes elements of the partitions in a response.
    :param failed: makes the element of a partition for which there is only an error.
    :param at_least: lowest version that can answer.
    :param at_most: highest version to use; None for the newest.
    """

    async def ask(node: NodeId, pieces: list[TopicPartition], _: Deadline) -> Mapping[TopicPartition, E]:
        async with session.in_flight.at(node):
            attempt = session.attempt()  # only now: waiting in line may have taken long
            version = await session.transport.version(node, request_class, attempt, at_least=at_least, at_most=at_most)
            request = build(pieces, version, attempt.remaining_ms())
            return parse(await session.transport.send(node, request, attempt))

    results = await FanOut(session, session.leaders, ask, lambda element: element.error, failed).run(partitions)
    return results.values()
