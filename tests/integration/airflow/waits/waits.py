"""Waits of each kind on one topic's log: started on Airflow's trigger runner, polled and ended as a test says."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from airflow_kafka_offsets.triggers.watchers import KafkaEdgeTrigger
from tests.integration.airflow.conftest import FOR_EVER, T0_MS
from tests.integration.airflow.waits.runner import Runner, running
from tests.integration.client.cases.workload import Kafka, commit, connected_client, new_name, new_topic, produce
from tests.patience import PATIENCE_S, wait_until

INTERVAL_S = 0.5
KINDS = ["caught up", "reached", "complete", "new data"]


def event_of(trigger: KafkaWaitTrigger, timeout_s: float = 120) -> dict[str, Any]:
    async def first() -> TriggerEvent:
        return await anext(trigger.run())  # type: ignore[call-overload, no-any-return]  # an async generator

    return asyncio.run(asyncio.wait_for(first(), timeout_s)).payload  # type: ignore[no-any-return]


class Triggerer:
    """Airflow's trigger runner, in a thread of its own: tests do one thing after the other."""

    def __init__(self, runner: Runner, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._runner = runner
        self._call = call

    def start(self, trigger: BaseTrigger) -> int:
        """Start a trigger; its id."""

        async def start() -> int:
            return self._runner.start(trigger)

        return int(self._call(start()))

    def events(self, number: int) -> list[Any]:
        """What a trigger has fired so far."""
        return self._runner.events(number)

    def fire(self, number: int, count: int) -> list[Any]:
        """What an asset's watcher has fired, once that is so often."""
        wait_until(lambda: len(self.events(number)) >= count, f"trigger {number} fires {count} times")
        return self.events(number)

    def event(self, number: int) -> Any:
        """What it fires, or has fired."""
        return self._call(self._runner.event(number, PATIENCE_S))


class AssetState(dict[str, Any]):
    """What Airflow keeps for an asset's watcher, without the database."""

    async def aget(self, key: str) -> Any:
        return self.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self[key] = value


def watch(triggerer: Triggerer, watcher: KafkaEdgeTrigger) -> int:
    """Start an asset's watcher; its id, once it watches."""
    state = watcher.asset_state_store = AssetState()
    number = triggerer.start(watcher)
    wait_until(lambda: state, "the watch has begun")
    return number


@contextmanager
def triggering() -> Iterator[Triggerer]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="triggerer")
    thread.start()

    def call(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S + 10)

    running_one = running()
    try:
        yield Triggerer(call(running_one.__aenter__()), call)
    finally:
        call(running_one.__aexit__(None, None, None))
        call(loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass
class Log:
    """A topic of ten records, a second apart from T0 on, and a group that has read four of them."""

    kafka: Kafka
    topic: str
    group: str = field(default_factory=lambda: new_name("group"))

    @classmethod
    def on(cls, kafka: Kafka, **options: Any) -> Log:
        log = cls(kafka, new_topic(kafka, config=FOR_EVER, **options))
        produce(kafka, log.topic, timestamps=[T0_MS + number * 1000 for number in range(10)])
        log.commit(4)
        return log

    def commit(self, offset: int, partition: int = 0) -> None:
        with connected_client(self.kafka.bootstrap_servers, timeout_s=40) as client:
            commit(client, self.group, {TopicPartition(self.topic, partition): offset})

    def conditions(self, topic_id: str | None = None) -> dict[str, Condition]:
        """One of each kind; none of them true yet."""
        ends = FixedOffsets.of("end of ten", [SeenOffset(self.topic, 0, 10)], {self.topic: topic_id})
        return {
            "caught up": GroupsCaughtUp((self.group,), (self.topic,)),
            "reached": OffsetsReached(self.group, ends),
            "complete": WindowComplete((self.topic,), T0_MS + 10_000),
            "new data": NewData((self.topic,), ends),
        }

    def come_true(self) -> None:
        """Make all of them true."""
        produce(self.kafka, self.topic, timestamps=[T0_MS + 10_000])
        self.commit(11)


class Waits:
    """Waits on one connection."""

    def __init__(self, triggerer: Triggerer, conn_id: str, log: Log, interval_s: float = INTERVAL_S) -> None:
        self._triggerer = triggerer
        self._conn_id = conn_id
        self._log = log
        self._interval_s = interval_s
        self.numbers: dict[str, int] = {}

    def start(self, **conditions: Condition) -> None:
        """Start waits; one of each kind unless others are named."""
        for name, condition in (conditions or self._log.conditions()).items():
            self.numbers[name] = self._start(condition)

    def _start(self, condition: Condition) -> int:
        return self._triggerer.start(
            KafkaWaitTrigger(
                kafka_conn_id=self._conn_id, condition=condition.to_json(), poll_interval_s=self._interval_s
            )
        )

    def are_polled(self, times: int = 2) -> None:
        """Return after so many more good polls, in which each of them was checked: another wait shares them."""
        for _ in range(times):
            is_there = NewData((self._log.topic,), FixedOffsets("the beginning"))
            assert self._triggerer.event(self._start(is_there))["status"] == "done"
        time.sleep(self._interval_s / 4)  # within which all of them have taken in what the poll found out

    def have_ended(self) -> dict[str, Any]:
        """The events that there are."""
        return {name: found for name, each in self.numbers.items() if (found := self._triggerer.events(each))}

    def end(self) -> dict[str, str]:
        """How each ends; the message where it fails."""
        events = {name: self._triggerer.event(each) for name, each in self.numbers.items()}
        return {name: each.get("message", each["status"]) for name, each in events.items()}

    def all_pass(self) -> bool:
        return set(self.end().values()) == {"done"}


def wait_for_lines(said: list[MutableMapping[str, Any]], *words: str, count: int = 1) -> None:
    """Wait until so many log lines have all of some words."""

    def are_there() -> bool:
        lines = [str(each["event"]) for each in list(said)]
        return sum(all(word in line for word in words) for line in lines) >= count

    wait_until(are_there, f"{count} lines with {words}")
