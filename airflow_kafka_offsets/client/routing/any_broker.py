"""Any broker: requests that every broker can answer (metadata, coordinators), asked of whoever answers first.

A hung broker must not cost the call its deadline, nor must every call go to all brokers: one is asked, and the next one
beside it as soon as the first has failed or has been silent for a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline, backoff_s
from airflow_kafka_offsets.client.connection.transport import NodeId, Transport, failure_of
from airflow_kafka_offsets.errors import ClusterUnreachableError, ResponseError, shorten
from airflow_kafka_offsets.offsets.instants import duration_text

T = TypeVar("T")
Ask = Callable[[NodeId, Deadline], Awaitable[T]]
_SILENCE_S = 1.0


async def ask_any(transport: Transport, ask: Ask[T], deadline: Deadline) -> T:
    """Ask brokers until one answers.

    :param ask: asks one broker by a deadline of its own; when that fails, the next is asked.
    :raises ClusterUnreachableError: when nobody answered by the deadline, with what each of them did.
    :raises AuthenticationError: when one refused the credentials.
    """
    failures: dict[NodeId, ResponseError] = {}
    for attempt in itertools.count():
        answers = await _look_around(transport, ask, deadline, failures)
        if answers:
            return answers[0]
        pause = backoff_s(attempt)
        if not deadline.allows(pause):
            break
        await transport.sleep(pause)
    raise ClusterUnreachableError(
        f"No broker answered within {duration_text(deadline.timeout_s)}: {shorten(_said(transport, failures))}. "
        "Check bootstrap.servers and security.protocol of the Kafka connection, and the network to the brokers."
    )


def _said(transport: Transport, failures: Mapping[NodeId, ResponseError]) -> list[str]:
    """What each address did; one that was asked last, or never for want of time, has done nothing yet."""
    said = dict.fromkeys(map(transport.address, transport.candidates()), "")
    said |= {transport.address(node): error.message or error.name for node, error in failures.items()}
    silent = [f"{address} did not answer in time" for address, words in said.items() if not words]
    return [words for words in said.values() if words] + silent


async def _look_around(
    transport: Transport, ask: Ask[T], deadline: Deadline, failures: dict[NodeId, ResponseError]
) -> list[T]:
    """Ask everybody once, one after another or side by side. Empty when all have failed or the time is over."""
    answers: list[T] = []

    async def attempt(node: NodeId) -> None:
        try:
            answers.append(await ask(node, transport.attempt(deadline)))
        except Exception as error:
            failures[node] = failure_of(error, transport.address(node))

    running: list[Any] = []
    waiting = transport.candidates()
    while not answers and (waiting or running) and deadline.remaining_s() > 0:
        if waiting:
            running.append(transport.start(partial(attempt, waiting.pop(0))))
        await transport.wait_for_any(running, min(_SILENCE_S, deadline.remaining_s()))
        running = [started for started in running if not _ended(started)]
    return answers


def _ended(running: Any) -> bool:
    """Whether an attempt is over. What isn't this broker's own failure is raised."""
    if running.is_done and running.exception is not None:
        raise running.exception
    return bool(running.is_done)
