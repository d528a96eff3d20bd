"""Any broker: requests that every broker can answer (metadata, coordinators). The first answer wins.

A hung broker must not make the call miss its deadline, and a call shouldn't go to all brokers. So one broker is asked
at first, and the next is asked as well once the first has failed or been silent for a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline, backoff_s
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.transport import Transport, failure_of
from airflow_kafka_offsets.errors import ClusterUnreachableError, ResponseError, shorten
from airflow_kafka_offsets.offsets.instants import duration_text

T = TypeVar("T")
Ask = Callable[[NodeId, Deadline], Awaitable[T]]
_SILENCE_S = 1.0


async def ask_any(transport: Transport, ask: Ask[T], deadline: Deadline, *, last: NodeId | None = None) -> T:
    """Ask brokers until one answers.

    :param ask: asks one broker, with its own deadline; if it fails, the next broker is asked.
    :param last: a broker to ask only after all others; None for no such broker.
    :raises ClusterUnreachableError: when no broker answered by the deadline; says what each of them did.
    :raises AuthenticationError: when a broker refused the credentials.
    """
    failures: dict[NodeId, ResponseError] = {}
    for attempt in itertools.count():
        answers = await _ask_each(transport, ask, deadline, failures, last)
        if answers:
            return answers[0]
        pause = backoff_s(attempt)
        if not deadline.allows(pause):
            break
        await transport.sleep(pause)
    raise ClusterUnreachableError(
        f"No broker answered within {duration_text(deadline.timeout_s)}: {shorten(_outcomes(transport, failures))}. "
        "Check bootstrap.servers and security.protocol of the Kafka connection, and the network to the brokers."
    )


def _outcomes(transport: Transport, failures: Mapping[NodeId, ResponseError]) -> list[str]:
    """What happened at each address. Brokers asked too late or never, for lack of time, "did not answer in time"."""
    failed = {transport.address(node): error.message or error.name for node, error in failures.items()}
    silent = dict.fromkeys(map(transport.address, transport.candidates())).keys() - failed.keys()
    return [*failed.values(), *(f"{address} did not answer in time" for address in sorted(silent))]


async def _ask_each(
    transport: Transport,
    ask: Ask[T],
    deadline: Deadline,
    failures: dict[NodeId, ResponseError],
    last: NodeId | None,
) -> list[T]:
    """Ask every broker at most once, in turn or concurrently. Empty if all have failed or the deadline has passed."""
    answers: list[T] = []

    async def attempt(node: NodeId) -> None:
        try:
            answers.append(await ask(node, transport.attempt(deadline)))
        except Exception as error:
            failures[node] = failure_of(error, transport.address(node))

    running: list[Any] = []
    waiting = transport.candidates(last)
    while not answers and (waiting or running) and deadline.remaining_s() > 0:
        if waiting:
            running.append(transport.start(partial(attempt, waiting.pop(0))))
        await transport.wait_for_any(running, min(_SILENCE_S, deadline.remaining_s()))
        running = [started for started in running if not _ended(started)]
    return answers


def _ended(running: Any) -> bool:
    """Whether an attempt is over. Raises errors that aren't the broker's own."""
    if running.is_done and running.exception is not None:
        raise running.exception
    return bool(running.is_done)
