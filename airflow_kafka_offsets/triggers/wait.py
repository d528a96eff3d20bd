"""Waits on the triggerer: one client and one poll for all triggers on a connection, however many tasks wait on it.

Waits come and go while a poll runs. Each is checked at multiples of its interval on a common clock, so waits with the
same interval are checked together whenever they joined, and their client calls are merged.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.conditions import CONDITIONS
from airflow_kafka_offsets.conditions.condition import Condition, Outcome, Progress, check_all
from airflow_kafka_offsets.conditions.wait_memory import WaitMemory
from airflow_kafka_offsets.errors import ClusterUnreachableError, KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, KeptClient, client_timeout_s
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.offsets.instants import duration_text

_LONGEST_POLL_CALLS = 30
"""A poll counts as stuck once it has taken as long as this many client calls at their deadline. No check makes so many
calls, but a poll may: once a merged call fails, each of its waits makes it alone."""
_SHORTEST_S = 0.1
"""Airflow lets ``poke_interval`` be 0."""
_SPREAD_S = 2.0
"""Waits take in a poll's outcome within this many seconds, and within a quarter of their interval."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """One wait for a condition.

    :param checked: the tick of the interval in which the wait began, or was last checked.
    :param heard: outcomes of the polls since then.
    """

    condition: Condition
    interval_s: float
    checked: int = 0
    heard: asyncio.Queue[Outcome] = field(default_factory=asyncio.Queue)

    def tick(self, now_s: float) -> int:
        return int(now_s / self.interval_s)


class SharedPoll:
    """One poll of Kafka for any number of waits. Asks in a thread of its own, because Kafka's client blocks.

    :param kafka_conn_id: connection id.
    """

    def __init__(self, kafka_conn_id: str) -> None:
        self.listeners = 0
        self._hook = KafkaOffsetsHook(kafka_conn_id)
        self._waits: set[_Waiting] = set()
        self._joined = asyncio.Event()
        self._begin_thread()
        self._task = asyncio.create_task(self._poll())

    def _begin_thread(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"kafka-offsets-{self._hook.kafka_conn_id}")
        self._clients = KeptClient()

    def _end_thread(self) -> None:
        """Have the thread close its client and end, once it has finished what it does."""
        self._thread.submit(self._clients.close)
        self._thread.shutdown(wait=False)

    @contextmanager
    def joined(self, condition: Condition, interval_s: float) -> Iterator[asyncio.Queue[Outcome]]:
        """Have a condition checked at the next tick of its interval and all later ones, until the block is left.

        Yields the outcomes of polls that begin from now on, one for each interval.

        :raises TypeError: when the condition can't be hashed, which would end the poll of all waits.
        """
        hash(condition)
        waiting = _Waiting(condition, interval_s)
        waiting.checked = waiting.tick(time.monotonic())
        self._waits.add(waiting)
        self._joined.set()
        try:
            yield waiting.heard
        finally:
            self._waits.discard(waiting)

    async def close(self) -> None:
        """End the poll and its client."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _poll(self) -> None:
        try:
            while True:
                due = await self._due()
                outcomes = await self._check({waiting.condition for waiting in due})
                for waiting in due:
                    waiting.heard.put_nowait(outcomes[waiting.condition])
        finally:
            self._end_thread()

    async def _due(self) -> list[_Waiting]:
        """Sleep until some waits are due. They aren't due again before the next tick of their interval."""
        while True:
            self._joined.clear()
            now_s = time.monotonic()  # the same for all, so that waits with the same interval are due together
            due = [waiting for waiting in self._waits if waiting.tick(now_s) > waiting.checked]
            for waiting in due:
                waiting.checked = waiting.tick(now_s)
            if due:
                return due
            next_tick = min(((each.checked + 1) * each.interval_s for each in self._waits), default=None)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if next_tick is None else max(0.0, next_tick - time.monotonic())):
                    await self._joined.wait()

    async def _check(self, conditions: Collection[Condition]) -> Mapping[Condition, Outcome]:
        """Check conditions; an error that concerns all of them is the outcome of each."""
        try:
            # Looked up at each poll, so that changes to the connection take effect.
            return await self._ask(await self._settings(), conditions)
        except Exception as error:
            return dict.fromkeys(conditions, error)

    async def _settings(self) -> ClientSettings:
        try:
            return await self._hook.asettings()
        except KafkaOffsetsError:
            raise
        except Exception as error:
            what = f"Connection {self._hook.kafka_conn_id} can't be looked up ({type(error).__name__}: {error})."
            raise ClusterUnreachableError(what) from error

    async def _ask(self, settings: ClientSettings, conditions: Collection[Condition]) -> Mapping[Condition, Outcome]:
        clients, timeout_s = self._clients, _LONGEST_POLL_CALLS * client_timeout_s()

        def ask() -> Mapping[Condition, Outcome]:
            outcomes = check_all(clients.get(settings), conditions)
            tell(each for outcome in outcomes.values() if isinstance(outcome, Progress) for each in outcome.measures)
            return outcomes

        work = asyncio.get_running_loop().run_in_executor(self._thread, ask)
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except TimeoutError:
            self._end_thread()  # it is stuck where no deadline applies, for example in a DNS look-up
            self._begin_thread()
            raise ClusterUnreachableError(
                f"Asking Kafka through connection {self._hook.kafka_conn_id} has taken {duration_text(timeout_s)} and "
                "hasn't finished. Check that name resolution (DNS) works on this machine."
            ) from None


shared_polls: dict[Hashable, SharedPoll] = {}
"""The polls in use, by event loop and connection."""


@asynccontextmanager
async def joined_poll(kafka_conn_id: str) -> AsyncIterator[SharedPoll]:
    """The poll of all triggers in this event loop that wait on the same connection. It starts with the first of them
    and ends with the last.

    Airflow 3.3 has streams that triggers share. This does the same on every version.
    """
    key = asyncio.get_running_loop(), kafka_conn_id
    if key not in shared_polls:
        shared_polls[key] = SharedPoll(kafka_conn_id)
    shared = shared_polls[key]
    shared.listeners += 1
    try:
        yield shared
    finally:
        shared.listeners -= 1
        if not shared.listeners:
            del shared_polls[key]
            await shared.close()


class KafkaPollTrigger(BaseEventTrigger):
    """
    Base of the triggers: all those on one connection share one client and one poll.

    :param kafka_conn_id: connection id; looked up at each poll, so that changes to the connection take effect.
    :param poll_interval_s: seconds between polls.
    """

    supports_triggerer_queue = True

    def __init__(self, *, kafka_conn_id: str, poll_interval_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's base class
        self.kafka_conn_id = kafka_conn_id
        self.poll_interval_s = max(poll_interval_s, _SHORTEST_S)

    def events(self) -> AsyncGenerator[TriggerEvent]:
        """This trigger's events. Each trigger defines its own."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """This trigger's events."""
        async with joined_poll(self.kafka_conn_id) as self._poll, aclosing(self.events()) as events:
            async for event in events:
                yield event

    async def outcomes_of(self, condition: Condition) -> AsyncGenerator[Outcome]:
        """Outcomes of a condition's polls from now on, without repeats while it doesn't hold."""
        last: Outcome | None = None
        with self._poll.joined(condition, self.poll_interval_s) as heard:
            while True:
                outcome = await heard.get()
                if isinstance(last, Progress) and not last.done and outcome == last:
                    continue
                last = outcome
                # Spread out: a thousand triggers that log at once would block the triggerer's event loop.
                await asyncio.sleep(random.random() * min(_SPREAD_S, self.poll_interval_s / 4))
                yield outcome


@contextmanager
def refusing_arguments() -> Iterator[None]:
    """Raise errors about wrong arguments as TypeError, the only one that a triggerer survives.

    The arguments may come from a row that another version of this package wrote.
    """
    try:
        yield
    except (AttributeError, KeyError, OverflowError, ValueError) as error:
        raise TypeError(f"This trigger's arguments can't be used here: {error}") from error


class KafkaWaitTrigger(KafkaPollTrigger):
    """
    Polls Kafka until a condition holds, then fires once: the trigger behind every deferrable sensor.

    The event is ``{"status": "done", "result": {...}}``, or ``{"status": "failed", "message": "..."}`` for a fault that
    waiting can't fix. Faults that may pass are logged and waited out.

    :param condition: the condition as JSON.
    :param memory: what the worker's own check remembered.

    The other arguments are those of :class:`KafkaPollTrigger`.
    """

    def __init__(
        self,
        *,
        kafka_conn_id: str,
        condition: dict[str, Any],
        poll_interval_s: float,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        with refusing_arguments():
            self._condition = CONDITIONS[condition["kind"]].from_json(condition)
        super().__init__(kafka_conn_id=kafka_conn_id, poll_interval_s=poll_interval_s)
        self._wait = WaitMemory(poll_interval_s, stable_polls=self._condition.stable_polls, memory=memory)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__name__}",
            {
                "kafka_conn_id": self.kafka_conn_id,
                "condition": self._condition.to_json(),
                "poll_interval_s": self.poll_interval_s,
                "memory": self._wait.to_json(),
            },
        )

    async def events(self) -> AsyncGenerator[TriggerEvent]:
        async with aclosing(self.outcomes_of(self._condition)) as found:
            async for outcome in found:
                verdict = self._wait.take(outcome)
                if verdict.line:
                    self.log.info("%s", verdict.line)
                if verdict.status == "failed":
                    yield TriggerEvent({"status": "failed", "message": verdict.message})
                    return
                if verdict.status == "done":
                    yield TriggerEvent({"status": "done", "result": verdict.result})
                    return
