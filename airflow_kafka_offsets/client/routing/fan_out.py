"""Fan-out: ask every broker for its own pieces at the same time, and again for those pieces alone that may still come.

A piece is a partition or a group. Pieces are sharded by the broker that answers for them (leader or coordinator). Each
shard goes its own way from there: its request, its back-off, its new look-up, its next request. No shard waits for
another one, so that a hung broker costs its own pieces time, and nobody else's. What a piece came back with last is its
result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline, backoff_s
from airflow_kafka_offsets.client.connection.response_errors import (
    MALFORMED,
    client_error,
    is_stale,
    left_out,
    may_be_told_yet,
)
from airflow_kafka_offsets.client.connection.transport import NodeId, RequestFailedError
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ClusterUnreachableError, KafkaOffsetsError, ResponseError

P = TypeVar("P", bound=Hashable)
R = TypeVar("R")


class Locator(Protocol[P]):
    """Who answers for a piece; remembers what it was told."""

    async def locate(self, pieces: Collection[P], deadline: Deadline) -> Mapping[P, int | ResponseError]:
        """The broker of each piece, or why there is none."""

    def forget(self, pieces: Iterable[P]) -> None:
        """Ask anew the next time."""


@dataclass(frozen=True, slots=True)
class ShardRequest(Generic[P, R]):
    """What is asked of each shard.

    :param ask: asks one broker for some pieces; a piece may be missing from its answer.
    :param error_of: the error that a result carries, if it is worth another attempt to get rid of it.
    :param failed: the result of a piece for which there is only an error.
    """

    ask: Callable[[NodeId, list[P], Deadline], Awaitable[Mapping[P, R]]]
    error_of: Callable[[R], ResponseError | None]
    failed: Callable[[P, ResponseError], R]


class FanOut(Generic[P, R]):
    """Pieces in, a result for each of them out, by the call's deadline."""

    def __init__(self, session: Session, places: Locator[P], question: ShardRequest[P, R]) -> None:
        self._session = session
        self._places = places
        self._question = question
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
                self._results[piece] = self._question.failed(piece, place)
                if may_be_told_yet(place):
                    homeless.append(piece)
            else:
                shards[place].append(piece)
        works = [partial(self._ask_shard, node, shard, attempt) for node, shard in shards.items()]
        await self._session.transport.gather([*works, partial(self._again, homeless, attempt)])

    async def _ask_shard(self, node: int, pieces: list[P], attempt: int) -> None:
        try:
            answer = await self._question.ask(node, pieces, self._session.attempt())
        except RequestFailedError as failed:
            answer = self._failed(pieces, failed.error)
        except MALFORMED as malformed:
            if isinstance(malformed, KafkaOffsetsError):
                raise
            answer = self._failed(pieces, client_error(malformed, f"broker {node}"))
        retry = []
        for piece in pieces:
            result = answer[piece] if piece in answer else self._question.failed(piece, left_out(f"broker {node}"))
            self._results[piece] = result
            error = self._question.error_of(result)
            if error is not None and error.retriable:
                retry.append(piece)
                if is_stale(error):
                    self._places.forget([piece])
        await self._again(retry, attempt)

    def _failed(self, pieces: Iterable[P], error: ResponseError) -> dict[P, R]:
        return {piece: self._question.failed(piece, error) for piece in pieces}

    async def _again(self, pieces: Collection[P], attempt: int) -> None:
        pause = backoff_s(attempt)
        if pieces and self._session.deadline.allows(pause):
            await self._session.transport.sleep(pause)
            await self._settle(pieces, attempt + 1)
