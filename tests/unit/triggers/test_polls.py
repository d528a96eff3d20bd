"""Polls: who is checked when, and whose answer it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.conditions.condition import Condition, Progress
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.triggers.polls import Poll, PollSchedule, SharedPoll, joined_poll
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from airflow_kafka_offsets.triggers.watchers import KafkaLagZeroTrigger, KafkaNewDataTrigger, KafkaWindowCompleteTrigger

INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Named(Condition):
    kind: ClassVar[str] = "named"

    name: str


ONE, OTHER = Named("one"), Named("other")


class TestWaits:
    def test_all_of_one_interval_are_checked_together_whenever_they_came(self) -> None:
        async def work() -> None:
            waits = PollSchedule()
            with waits.joined(ONE, INTERVAL_S):
                await asyncio.sleep(INTERVAL_S / 3)
                with waits.joined(OTHER, INTERVAL_S):
                    assert set((await waits.due()).conditions) == {ONE, OTHER}

        asyncio.run(work())

    def test_nobody_is_checked_twice_within_an_interval(self) -> None:
        async def work() -> float:
            waits, started = PollSchedule(), time.monotonic()
            with waits.joined(ONE, INTERVAL_S):
                for _ in range(3):
                    await waits.due()
            return time.monotonic() - started

        assert asyncio.run(work()) > 2 * INTERVAL_S, "three ticks lie apart, however late each is heard of"

    def test_equal_conditions_are_checked_until_the_last_one_leaves(self) -> None:
        async def work() -> None:
            waits = PollSchedule()
            with waits.joined(ONE, INTERVAL_S):
                with waits.joined(ONE, INTERVAL_S):
                    pass
                assert set((await waits.due()).conditions) == {ONE}
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3 * INTERVAL_S):
                    await waits.due()

        asyncio.run(work())

    def test_a_new_and_shorter_interval_wakes_a_sleeping_poll(self) -> None:
        async def work() -> None:
            waits = PollSchedule()
            with waits.joined(ONE, 3600):
                sleeping = asyncio.ensure_future(waits.due())
                await asyncio.sleep(0.01)
                with waits.joined(OTHER, INTERVAL_S):
                    assert set((await asyncio.wait_for(sleeping, 5)).conditions) == {OTHER}

        asyncio.run(work())


class TestOutcomes:
    def wait(self) -> tuple[KafkaWaitTrigger, Condition]:
        condition = GroupsCaughtUp(("g",))
        trigger = KafkaWaitTrigger(
            kafka_conn_id="kafka_default", condition=condition.to_json(), poll_interval_s=INTERVAL_S
        )
        return trigger, condition

    def test_a_poll_that_began_before_somebody_joined_says_nothing_to_him(self) -> None:
        """What it found out is older than what he knows: he has just seen that there is lag."""
        trigger, condition = self.wait()
        done = Progress(True, "caught up", {"groups": {"g": 0}})

        async def work() -> list[object]:
            waits = PollSchedule()
            with waits.joined(condition, INTERVAL_S):
                number = (await waits.due()).number

                async def polls() -> AsyncIterator[Poll]:
                    yield Poll(number, {condition: done}, [INTERVAL_S])
                    yield Poll(number + 1, {condition: Progress(False, "behind", {})}, [INTERVAL_S])

                return [each async for each in trigger.events(polls(), waits)]

        assert asyncio.run(work()) == []

    def test_the_next_one_does(self) -> None:
        trigger, condition = self.wait()

        async def work() -> list[object]:
            async def polls() -> AsyncIterator[Poll]:
                yield Poll(1, {condition: Progress(True, "caught up", {"groups": {"g": 0}})}, [INTERVAL_S])

            return [each.payload async for each in trigger.events(polls(), PollSchedule())]

        assert asyncio.run(work()) == [{"status": "done", "result": {"groups": {"g": 0}}}]

    def test_a_fault_that_another_interval_finds_wears_out_nobody_elses_patience(self) -> None:
        """Five polls long a permission may be gone: of this wait's own."""
        trigger, condition = self.wait()
        gone = OffsetsError("Asking", [("t-0", ResponseError("TOPIC_AUTHORIZATION_FAILED", 29, False))])

        async def work() -> list[object]:
            async def polls() -> AsyncIterator[Poll]:
                yield Poll(1, {condition: Progress(False, "behind", {})}, [INTERVAL_S])
                for number in range(2, 20):
                    yield Poll(number, {condition: gone}, [INTERVAL_S / 10])

            return [event.payload async for event in trigger.events(polls(), PollSchedule())]

        assert asyncio.run(work()) == []


@dataclass(frozen=True, slots=True)
class Unaskable(Condition):
    """What no class of ours can ask: the poll ends with an error that nobody expected."""

    kind: ClassVar[str] = "unaskable"


class SlowStore:
    """The state of an asset, from a database that takes its time."""

    async def aget(self, key: str) -> Any:
        await asyncio.sleep(10 * INTERVAL_S)
        return False

    async def aset(self, key: str, value: Any) -> None:
        pass


class TestAPollThatEndedUnexpectedly:
    @pytest.fixture(autouse=True)
    def connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(
            "AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "localhost:1"}}'
        )

    async def ended(self, shared: SharedPoll) -> None:
        with shared.waits.joined(Unaskable(), INTERVAL_S):
            while not shared.has_ended:
                await asyncio.sleep(INTERVAL_S / 10)

    def test_tells_whoever_listens_later_what_it_ended_with(self) -> None:
        async def work() -> None:
            async with joined_poll("kafka_default", IsolationLevel.READ_COMMITTED) as shared:
                await asyncio.wait_for(self.ended(shared), 10)
                for _ in range(2):
                    with pytest.raises(NotImplementedError):
                        await asyncio.wait_for(anext(shared.polls()), 1)

        asyncio.run(work())

    def test_ends_a_watcher_that_read_its_state_meanwhile(self) -> None:
        """Airflow starts it again then."""
        watcher = KafkaLagZeroTrigger(groups="g", poll_interval_s=INTERVAL_S)
        watcher.asset_state_store = SlowStore()

        async def watch() -> list[TriggerEvent]:
            return [event async for event in watcher.run()]

        async def work() -> None:
            async with joined_poll("kafka_default", IsolationLevel.READ_COMMITTED) as shared:
                watching = asyncio.ensure_future(watch())
                await asyncio.wait_for(self.ended(shared), 10)
                with pytest.raises(NotImplementedError):
                    await asyncio.wait_for(watching, 5)

        asyncio.run(work())


class TestArguments:
    """A triggerer survives a TypeError of a constructor, and no other error."""

    def test_a_row_of_another_version_is_refused_in_a_way_that_a_triggerer_survives(self) -> None:
        for condition in ({"kind": "unheard_of", "isolation_level": "read_committed"}, {"isolation_level": "read_all"}):
            with pytest.raises(TypeError, match="can't be used here"):
                KafkaWaitTrigger(kafka_conn_id="kafka_default", condition=condition, poll_interval_s=1)

    @pytest.mark.parametrize(
        ("trigger", "arguments"),
        [
            (KafkaLagZeroTrigger, {"groups": "g", "max_lag": -1}),
            (KafkaLagZeroTrigger, {"groups": "g", "poll_interval_s": 0}),
            (KafkaLagZeroTrigger, {"groups": []}),
            (KafkaNewDataTrigger, {"topics": "t", "min_records": 0}),
            (KafkaWindowCompleteTrigger, {"topics": "t", "window": 0}),
            (KafkaWindowCompleteTrigger, {"topics": "t", "window": "1h"}),
            (KafkaWindowCompleteTrigger, {"topics": "t", "window": 60, "idle": "assume_after"}),
        ],
    )
    def test_a_watcher_refuses_what_makes_no_sense_when_the_dag_is_parsed(
        self, trigger: type, arguments: dict[str, object]
    ) -> None:
        with pytest.raises(TypeError):
            trigger(**arguments)
