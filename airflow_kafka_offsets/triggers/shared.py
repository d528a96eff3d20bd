"""What all our triggers share: a poll, one for all of them on a connection and isolation level."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_offsets.conditions.condition import Condition, Outcome, Progress
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.triggers.polls import Poll, PollSchedule, poll

_WAITS: dict[Hashable, PollSchedule] = defaultdict(PollSchedule)
"""Who waits on which shared poll. An entry is never removed: a poll that starts or ends holds on to it."""

_SHORTEST_S = 0.1
"""Airflow lets ``poke_interval`` be 0."""
_SPREAD_S = 2.0
"""Within so many seconds, and within a quarter of their interval, waits take in what a poll found out."""


class KafkaPollTrigger(BaseEventTrigger):
    """
    Base of the triggers: all those on one connection and isolation level share one client and one poll.

    The shared stream's items are the outcomes of a poll by condition; each trigger picks its own. What each waits for
    is not in the stream's arguments, which are those of whoever came first, but in a registry that the poll reads at
    each tick. ``dag.test()`` calls :meth:`run`, which polls for one trigger alone.

    :param kafka_conn_id: connection id; looked up anew at each poll, so that an edited connection takes effect.
    :param isolation_level: which records count.
    :param poll_interval_s: seconds between polls.
    """

    supports_triggerer_queue = True

    def __init__(self, *, kafka_conn_id: str, isolation_level: str, poll_interval_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's base class
        self.kafka_conn_id = kafka_conn_id
        with refusing_arguments():
            self.isolation_level = IsolationLevel.of(isolation_level)
        self.poll_interval_s = max(poll_interval_s, _SHORTEST_S)

    def events(self, polls: AsyncIterator[Poll], waits: PollSchedule) -> AsyncGenerator[TriggerEvent]:
        """This trigger's events. Each trigger says its own.

        :param polls: what each poll found out.
        :param waits: where to join with the conditions that are to be polled.
        """
        raise NotImplementedError

    def shared_stream_key(self) -> Hashable:
        """What makes two triggers share a poll."""
        return ("airflow_kafka_offsets", self.kafka_conn_id, str(self.isolation_level))

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Poll]:
        """Poll for all triggers of the key."""
        first = cls(**kwargs)
        async with aclosing(poll(first.kafka_conn_id, _WAITS[first.shared_stream_key()])) as outcomes:
            async for each in outcomes:
                yield each

    def filter_shared_stream(self, shared_stream: AsyncIterator[Poll]) -> AsyncGenerator[TriggerEvent]:
        """This trigger's events from the shared poll."""
        return self.events(shared_stream, _WAITS[self.shared_stream_key()])

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """This trigger's events from a poll of its own."""
        waits = PollSchedule()
        async with (
            aclosing(poll(self.kafka_conn_id, waits)) as outcomes,
            aclosing(self.events(outcomes, waits)) as events,
        ):
            async for each in events:
                yield each

    async def outcomes_of(
        self, condition: Condition, polls: AsyncIterator[Poll], waits: PollSchedule
    ) -> AsyncGenerator[Outcome]:
        """What polls find out about a condition from now on, leaving out those that say again that it doesn't hold."""
        last: Progress | None = None
        with waits.joined(condition, self.poll_interval_s) as number:
            async for poll_ in polls:
                outcome = poll_.outcomes.get(condition)
                says_it_again = last is not None and not last.done and outcome == last
                if outcome is None or poll_.number <= number or says_it_again:
                    continue
                last = outcome if isinstance(outcome, Progress) else None
                # Not at the same time as everybody else: a thousand that log would block the triggerer's event loop.
                await asyncio.sleep(random.random() * min(_SPREAD_S, self.poll_interval_s / 4))
                yield outcome


@contextmanager
def refusing_arguments() -> Iterator[None]:
    """Refuse wrong arguments in the way that Airflow takes: a triggerer survives a TypeError, and no other one.

    A row that another version of this package wrote may be one that this version doesn't understand.
    """
    try:
        yield
    except (KeyError, ValueError) as error:
        raise TypeError(f"This trigger's arguments make no sense here: {error}") from error
