"""Polls: one client and one poll for all waits on a connection, however many tasks wait there.

Waits come and go while a poll goes on. Each is checked at the multiples of its interval by one clock, so that waits of
the same interval are checked together whenever they came, and their questions go out as one.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.conditions.condition import Condition, Outcome, check_all
from airflow_kafka_offsets.errors import ClusterUnreachableError, KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, client_timeout_s
from airflow_kafka_offsets.hooks.kept_client import KeptClient
from airflow_kafka_offsets.offsets.instants import duration_text

Outcomes = Mapping[Condition, Outcome]
"""What a poll found out, by condition."""

_MOST_QUESTIONS = 30
"""A poll asks so many questions at most, each of which ends by the client's own deadline."""


class Poll(NamedTuple):
    """One poll.

    :param number: when it began: who joined at a lower number was there, and who joined at this one or later wasn't.
    :param outcomes: what it found out.
    """

    number: int
    outcomes: Outcomes


@dataclass(slots=True)
class _Rhythm:
    """The waits of one interval: how many for each condition, and the tick at which they were checked last."""

    checked: int
    waits: Counter[Condition] = field(default_factory=Counter)


class PollSchedule:
    """The conditions that are waited for at present, and how often each is checked."""

    def __init__(self) -> None:
        self._polls = 0
        self._rhythms: dict[float, _Rhythm] = {}
        self._joined: asyncio.Event | None = None

    @contextmanager
    def joined(self, condition: Condition, interval_s: float) -> Iterator[int]:
        """Have a condition checked at the next tick of its interval and all later ones, until the block is left.

        The number of the last poll that began before; what it finds out is from before, too.
        """
        rhythm = self._rhythms.get(interval_s)
        if rhythm is None:
            rhythm = self._rhythms[interval_s] = _Rhythm(_tick(interval_s))
            if self._joined is not None:
                self._joined.set()
        rhythm.waits[condition] += 1
        try:
            yield self._polls
        finally:
            rhythm.waits[condition] -= 1
            if not rhythm.waits[condition]:
                del rhythm.waits[condition]
            if not rhythm.waits and self._rhythms.get(interval_s) is rhythm:
                del self._rhythms[interval_s]

    async def due(self) -> tuple[int, Collection[Condition]]:
        """Sleep until some are due. Answers the number of the poll that is to check them, and those: they aren't due
        again before the next tick of their interval.
        """
        while True:
            due: set[Condition] = set()
            for interval_s, rhythm in self._rhythms.items():
                tick = _tick(interval_s)
                if tick > rhythm.checked:
                    rhythm.checked = tick
                    due.update(rhythm.waits)
            if due:
                self._polls += 1
                return self._polls, due
            await self._sleep()

    async def _sleep(self) -> None:
        """Until the next tick of any interval, or until there is a new interval."""
        ticks = ((rhythm.checked + 1) * interval_s for interval_s, rhythm in self._rhythms.items())
        next_tick = min(ticks, default=None)
        self._joined = asyncio.Event()
        try:
            async with asyncio.timeout(None if next_tick is None else max(0.0, next_tick - time.monotonic())):
                await self._joined.wait()
        except TimeoutError:
            pass
        finally:
            self._joined = None


def _tick(interval_s: float) -> int:
    return int(time.monotonic() / interval_s)


class _Asker:
    """Asks in a thread of its own: Kafka's client blocks."""

    def __init__(self, kafka_conn_id: str) -> None:
        self._hook = KafkaOffsetsHook(kafka_conn_id)
        self._start()

    def _start(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"kafka-offsets-{self._hook.kafka_conn_id}")
        self._clients = KeptClient()

    async def check(self, conditions: Collection[Condition]) -> Outcomes:
        """Check conditions; what concerns all of them is the outcome of each."""
        try:
            # Looked up at each poll, so that an edited connection takes effect.
            settings = await self._hook.asettings()
        except KafkaOffsetsError as error:
            return dict.fromkeys(conditions, error)
        except Exception as error:
            what = f"Connection {self._hook.kafka_conn_id} can't be looked up ({type(error).__name__}: {error})."
            return dict.fromkeys(conditions, ClusterUnreachableError(what))
        return await self._check(settings, conditions)

    async def _check(self, settings: ClientSettings, conditions: Collection[Condition]) -> Outcomes:
        work = asyncio.get_running_loop().run_in_executor(self._thread, _check, self._clients, settings, conditions)
        timeout_s = _MOST_QUESTIONS * client_timeout_s()
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except TimeoutError:
            self.close()  # its thread is stuck where no deadline reaches, in the look-up of a name for example
            self._start()
            what = (
                f"Asking Kafka by connection {self._hook.kafka_conn_id} has taken {duration_text(timeout_s)} and not "
                "come to an end. Does the name service of this machine answer?"
            )
            return dict.fromkeys(conditions, ClusterUnreachableError(what))
        except KafkaOffsetsError as error:
            return dict.fromkeys(conditions, error)

    def close(self) -> None:
        """Close the client once its thread has come to an end."""
        self._thread.submit(self._clients.close)
        self._thread.shutdown(wait=False)


def _check(clients: KeptClient, settings: ClientSettings, conditions: Collection[Condition]) -> Outcomes:
    return check_all(clients.get(settings), conditions)


async def poll(kafka_conn_id: str, waits: PollSchedule) -> AsyncGenerator[Poll]:
    """Poll for as long as somebody listens.

    :param waits: whose conditions are checked; asked at each tick.
    """
    asker = _Asker(kafka_conn_id)
    try:
        while True:
            number, conditions = await waits.due()
            yield Poll(number, await asker.check(conditions))
    finally:
        asker.close()
