"""Polls: one client and one poll for all triggers on a connection and isolation level, however many tasks wait there.

Waits come and go while a poll goes on. Each is checked at the multiples of its interval by one clock, so that waits of
the same interval are checked together whenever they came, and their calls of the client are made as one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.conditions.condition import Condition, Outcome, Progress, check_all
from airflow_kafka_offsets.errors import ClusterUnreachableError, KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, KeptClient, client_timeout_s
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.offsets.specs import IsolationLevel

Outcomes = Mapping[Condition, Outcome]
"""What a poll found out, by condition."""

_MOST_CALLS = 30
"""A poll calls the client so often at most, and each call ends by the client's own deadline."""
_SHORTEST_S = 0.1
"""Airflow lets ``poke_interval`` be 0."""
_SPREAD_S = 2.0
"""Within so many seconds, and within a quarter of their interval, waits take in what a poll found out."""


class Poll(NamedTuple):
    """One poll.

    :param number: when it began: who joined at a lower number was there, and who joined at this one or later wasn't.
    :param outcomes: what it found out.
    :param intervals_s: the intervals whose waits were due. Who waits at another one counts it as no poll of its own,
        even where it found out about an equal condition: so many polls in a row are so many intervals.
    """

    number: int
    outcomes: Outcomes
    intervals_s: Collection[float]


class DuePoll(NamedTuple):
    """A poll that is to be made.

    :param number: its number.
    :param conditions: what it is to check.
    :param intervals_s: the intervals whose waits are due.
    """

    number: int
    conditions: Collection[Condition]
    intervals_s: Collection[float]


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

    async def due(self) -> DuePoll:
        """Sleep until some are due. They aren't due again before the next tick of their interval."""
        while True:
            conditions: set[Condition] = set()
            intervals_s: set[float] = set()
            for interval_s, rhythm in self._rhythms.items():
                tick = _tick(interval_s)
                if tick > rhythm.checked:
                    rhythm.checked = tick
                    conditions.update(rhythm.waits)
                    intervals_s.add(interval_s)
            if conditions:
                self._polls += 1
                return DuePoll(self._polls, conditions, intervals_s)
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
        clients, timeout_s = self._clients, _MOST_CALLS * client_timeout_s()

        def ask() -> Outcomes:
            outcomes = check_all(clients.get(settings), conditions)
            tell(each for outcome in outcomes.values() if isinstance(outcome, Progress) for each in outcome.measures)
            return outcomes

        work = asyncio.get_running_loop().run_in_executor(self._thread, ask)
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except TimeoutError:
            self.close()  # its thread is stuck where no deadline reaches, in the look-up of a name for example
            self._start()
            what = (
                f"Asking Kafka through connection {self._hook.kafka_conn_id} has taken "
                f"{duration_text(timeout_s)} and hasn't finished. Does the name service of this machine "
                "answer?"
            )
            return dict.fromkeys(conditions, ClusterUnreachableError(what))
        except KafkaOffsetsError as error:
            return dict.fromkeys(conditions, error)

    def close(self) -> None:
        """Close the client once its thread has come to an end."""
        self._thread.submit(self._clients.close)
        self._thread.shutdown(wait=False)


async def _polling(kafka_conn_id: str, waits: PollSchedule) -> AsyncGenerator[Poll]:
    asker = _Asker(kafka_conn_id)
    try:
        while True:
            due = await waits.due()
            yield Poll(due.number, await asker.check(due.conditions), due.intervals_s)
    finally:
        asker.close()


class SharedPoll:
    """One poll of Kafka that any number of triggers listen to.

    :param kafka_conn_id: connection id.
    """

    def __init__(self, kafka_conn_id: str) -> None:
        self.waits = PollSchedule()
        self.listeners = 0
        self._kafka_conn_id = kafka_conn_id
        self._heard: set[asyncio.Queue[Poll | Exception]] = set()
        self._ended_with: Exception | None = None
        self._task = asyncio.create_task(self._poll())

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to be heard."""
        return self._task.done()

    async def polls(self) -> AsyncGenerator[Poll]:
        """What each poll finds out from now on.

        :raises Exception: what it has ended with, also for whoever comes after that.
        """
        if self._ended_with is not None:
            raise self._ended_with
        heard: asyncio.Queue[Poll | Exception] = asyncio.Queue()
        self._heard.add(heard)
        try:
            while True:
                poll = await heard.get()
                if isinstance(poll, Exception):
                    raise poll
                yield poll
        finally:
            self._heard.discard(heard)

    async def close(self) -> None:
        """End it, and its client."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _poll(self) -> None:
        try:
            async with aclosing(_polling(self._kafka_conn_id, self.waits)) as polls:
                async for poll in polls:
                    self._tell(poll)
        except Exception as error:
            self._ended_with = error
            self._tell(error)

    def _tell(self, poll: Poll | Exception) -> None:
        for heard in self._heard:
            heard.put_nowait(poll)


shared_polls: dict[Hashable, SharedPoll] = {}
"""Those that somebody listens to, by event loop, connection and isolation level."""


@asynccontextmanager
async def joined_poll(kafka_conn_id: str, isolation_level: IsolationLevel) -> AsyncIterator[SharedPoll]:
    """The poll of all triggers in this event loop that wait on the same connection and isolation level. It begins with
    the first of them and ends with the last one.

    Airflow 3.3 has streams that triggers share. This does the same on every version.
    """
    key = asyncio.get_running_loop(), kafka_conn_id, isolation_level
    shared = shared_polls.get(key)
    if shared is None or shared.has_ended:
        shared = shared_polls[key] = SharedPoll(kafka_conn_id)
    shared.listeners += 1
    try:
        yield shared
    finally:
        shared.listeners -= 1
        if not shared.listeners:
            if shared_polls.get(key) is shared:
                del shared_polls[key]
            await shared.close()


class KafkaPollTrigger(BaseEventTrigger):
    """
    Base of the triggers: all those on one connection and isolation level share one client and one poll.

    A poll tells its outcomes by condition; each trigger picks its own.

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

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """This trigger's events."""
        async with (
            joined_poll(self.kafka_conn_id, self.isolation_level) as shared,
            aclosing(shared.polls()) as polls,
            aclosing(self.events(polls, shared.waits)) as events,
        ):
            async for event in events:
                yield event

    async def outcomes_of(
        self, condition: Condition, polls: AsyncIterator[Poll], waits: PollSchedule
    ) -> AsyncGenerator[Outcome]:
        """What polls find out about a condition from now on, leaving out those that say again that it doesn't hold."""
        last: Progress | None = None
        with waits.joined(condition, self.poll_interval_s) as number:
            async for poll in polls:
                outcome = poll.outcomes.get(condition) if self.poll_interval_s in poll.intervals_s else None
                says_it_again = last is not None and not last.done and outcome == last
                if outcome is None or poll.number <= number or says_it_again:
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
        raise TypeError(f"This trigger's arguments can't be used here: {error}") from error
