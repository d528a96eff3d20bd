"""Polls: who is checked when, and whose answer it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, count, repeat
from types import SimpleNamespace
from typing import Any, ClassVar, NoReturn

import pytest
from airflow.triggers.base import TriggerEvent
from structlog.testing import capture_logs

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.condition import Condition, Outcome, Progress
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.wait_memory import WaitMemory
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.triggers import wait
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger, joined_poll
from airflow_kafka_offsets.triggers.watchers import (
    KafkaEdgeTrigger,
    KafkaLagZeroTrigger,
    KafkaNewDataTrigger,
    KafkaWindowCompleteTrigger,
)
from tests.patience import PATIENCE_S

INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Named(Condition):
    kind: ClassVar[str] = "named"

    name: str


ONE, OTHER = Named("one"), Named("other")
BEHIND, DONE = Progress(False, "behind", {}), Progress(True, "caught up", {"groups": {"g": 0}})


class Cluster:
    """What each check finds out, in place of Kafka: by condition, one outcome for each poll; the last one stays."""

    def __init__(self) -> None:
        self.polls: list[set[Condition]] = []
        self.says: dict[Condition, list[Outcome]] = {}
        self.default: Outcome = BEHIND
        self.takes_s = 0.0

    def check_all(self, client: OffsetsClient, conditions: Iterable[Condition]) -> dict[Condition, Outcome]:
        asked = set(conditions)
        self.polls.append(asked)
        time.sleep(self.takes_s)
        return {each: self._next(each) for each in asked}

    def _next(self, condition: Condition) -> Outcome:
        left = self.says.get(condition) or [self.default]
        return left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """It is asked through connection ``kafka_default``."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "localhost:1"}}'
    )
    scripted = Cluster()
    monkeypatch.setattr(wait, "check_all", scripted.check_all)
    return scripted


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits until the others have taken in what a poll found out."""
    monkeypatch.setattr(wait, "_SPREAD_S", 0.0)


class TestWaits:
    def test_all_of_one_interval_are_checked_together_whenever_they_came(self, cluster: Cluster) -> None:
        async def work() -> None:
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, INTERVAL_S) as heard:
                    await heard.get()
                    await asyncio.sleep(INTERVAL_S / 3)
                    with shared.joined(OTHER, INTERVAL_S) as late:
                        await late.get()

        asyncio.run(work())
        assert cluster.polls[-1] == {ONE, OTHER}
        assert {OTHER} not in cluster.polls

    def test_a_tick_that_comes_while_it_looks_who_is_due_parts_nobody(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a clock that goes on by a twentieth of an interval with each look at it, once all have joined."""
        many = [Named(str(number)) for number in range(10)]
        ticks = chain(repeat(0.0, len(many)), (INTERVAL_S * number / 20 for number in count()))
        monkeypatch.setattr(wait, "time", SimpleNamespace(monotonic=lambda: next(ticks)))

        async def work() -> None:
            async with joined_poll("kafka_default") as shared:
                with ExitStack() as stack:
                    heard = [stack.enter_context(shared.joined(each, INTERVAL_S)) for each in many]
                    await asyncio.gather(*(each.get() for each in heard))

        asyncio.run(work())
        assert cluster.polls[0] == set(many)

    def test_nobody_is_checked_twice_within_an_interval(self, cluster: Cluster) -> None:
        async def work() -> float:
            started = time.monotonic()
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, INTERVAL_S) as heard:
                    for _ in range(3):
                        await heard.get()
            return time.monotonic() - started

        assert asyncio.run(work()) > 2 * INTERVAL_S, "three ticks lie apart, however late each is heard of"

    def test_equal_conditions_are_checked_until_the_last_one_leaves(self, cluster: Cluster) -> None:
        async def work() -> None:
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, INTERVAL_S) as heard:
                    with shared.joined(ONE, INTERVAL_S):
                        pass
                    await heard.get()
                polled = len(cluster.polls)
                await asyncio.sleep(5 * INTERVAL_S)
                assert len(cluster.polls) <= polled + 1, "one may have begun as the last one left"

        asyncio.run(work())
        assert cluster.polls[0] == {ONE}

    def test_a_new_and_shorter_interval_wakes_a_sleeping_poll(self, cluster: Cluster) -> None:
        async def work() -> None:
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, 3600):
                    await asyncio.sleep(0.01)
                    with shared.joined(OTHER, INTERVAL_S) as heard:
                        await asyncio.wait_for(heard.get(), PATIENCE_S)

        asyncio.run(work())
        assert cluster.polls == [{OTHER}]

    def test_one_that_no_poll_can_have_ends_by_itself(self, cluster: Cluster) -> None:
        """A row of another version may hold a list where a poll needs a value to compare."""

        async def work() -> None:
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, INTERVAL_S) as heard:
                    with pytest.raises(TypeError, match="unhashable"), shared.joined(Named([]), INTERVAL_S):
                        await asyncio.sleep(3 * INTERVAL_S)
                    while not heard.empty():
                        heard.get_nowait()
                    assert await asyncio.wait_for(heard.get(), PATIENCE_S) == BEHIND

        asyncio.run(work())

    def test_a_poll_that_began_before_somebody_joined_says_nothing_to_him(self, cluster: Cluster) -> None:
        """What it found out is older than what he knows: he has just seen that there is lag."""
        cluster.takes_s = INTERVAL_S
        cluster.says[ONE] = [DONE, BEHIND]

        async def work() -> tuple[Outcome, Outcome]:
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, INTERVAL_S) as heard:
                    while not cluster.polls:
                        await asyncio.sleep(0.01)
                    with shared.joined(ONE, INTERVAL_S) as late:
                        return await heard.get(), await late.get()

        assert asyncio.run(work()) == (DONE, BEHIND)

    def test_a_poll_of_another_interval_says_nothing_of_an_equal_condition(self, cluster: Cluster) -> None:
        """So many polls in a row, and five polls long a permission may be gone: of this wait's own."""

        async def work() -> None:
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, 3600) as slow, shared.joined(ONE, INTERVAL_S) as quick:
                    for _ in range(3):
                        await quick.get()
                    assert slow.empty()

        asyncio.run(work())


class SlowStore:
    """The state of an asset, from a database that takes its time."""

    async def aget(self, key: str) -> Any:
        await asyncio.sleep(10 * INTERVAL_S)
        return False

    async def aset(self, key: str, value: Any) -> None:
        pass


class StoreOf:
    """The state of an asset.

    :param value: what an earlier run left in it.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    async def aget(self, key: str) -> Any:
        return self.value

    async def aset(self, key: str, value: Any) -> None:
        self.value = value


class TestTriggers:
    @pytest.mark.parametrize("left", ["soon", 4, [], {"source": "s"}, {"source": "s", "offsets": {"t": [[0]]}}])
    @pytest.mark.parametrize(
        "watcher",
        [
            KafkaNewDataTrigger(topics="t", poll_interval_s=INTERVAL_S),
            KafkaWindowCompleteTrigger(topics="t", window=1, poll_interval_s=INTERVAL_S),
        ],
        ids=lambda watcher: type(watcher).__name__,
    )
    def test_a_watcher_starts_over_where_another_version_left_something_else(
        self, cluster: Cluster, watcher: KafkaEdgeTrigger, left: Any
    ) -> None:
        """If it ended, Airflow would start it again, and again."""
        watcher.asset_state_store = StoreOf(left)
        cluster.default = Progress(True, "", {}, ends=FixedOffsets("the log ends"))

        async def work() -> TriggerEvent:
            return await asyncio.wait_for(anext(watcher.run()), PATIENCE_S)

        asyncio.run(work())

    def test_a_watcher_watches_where_airflow_keeps_no_state_of_assets(self, cluster: Cluster) -> None:
        """Airflow 3.1 and 3.2: its triggers don't have the attribute."""
        watched = GroupsCaughtUp(("g",), max_lag=0, unknown_group="wait")
        cluster.says[watched] = [BEHIND, DONE]
        watcher = KafkaLagZeroTrigger(groups="g", poll_interval_s=INTERVAL_S)
        vars(watcher).pop("asset_state_store", None)

        async def work() -> TriggerEvent:
            return await asyncio.wait_for(anext(watcher.run()), PATIENCE_S)

        with capture_logs() as said:
            assert asyncio.run(work()).payload == DONE.result
        assert any("needs Airflow 3.3" in str(line) for line in said), said

    def test_what_nobody_expected_ends_a_watcher_and_not_the_poll(self, cluster: Cluster) -> None:
        """Airflow starts it again then. It read its state while the poll went on without it."""
        watched = GroupsCaughtUp(("g",), max_lag=0, unknown_group="wait")
        cluster.says[watched] = [NotImplementedError()]
        watcher = KafkaLagZeroTrigger(groups="g", poll_interval_s=INTERVAL_S)
        watcher.asset_state_store = SlowStore()

        async def watch() -> list[TriggerEvent]:
            return [event async for event in watcher.run()]

        async def work() -> None:
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, INTERVAL_S) as heard:
                    with pytest.raises(NotImplementedError):
                        await asyncio.wait_for(watch(), PATIENCE_S)
                    while not heard.empty():
                        heard.get_nowait()
                    assert await asyncio.wait_for(heard.get(), PATIENCE_S) == BEHIND

        asyncio.run(work())

    def test_a_check_that_breaks_as_a_whole_is_the_outcome_of_each(self, cluster: Cluster) -> None:
        broken = RuntimeError("no class of ours raises it")

        def check_all(*_: object) -> NoReturn:
            raise broken

        async def work() -> None:
            async with joined_poll("kafka_default") as shared:
                with shared.joined(ONE, INTERVAL_S) as heard, pytest.MonkeyPatch.context() as patch:
                    patch.setattr(wait, "check_all", check_all)
                    assert await asyncio.wait_for(heard.get(), PATIENCE_S) is broken

        asyncio.run(work())


class TestArguments:
    """A triggerer survives a TypeError of a constructor, and no other error."""

    def test_a_row_of_another_version_is_refused_in_a_way_that_a_triggerer_survives(self) -> None:
        conditions: list[dict[str, Any]] = [
            {"kind": "unheard_of", "isolation_level": "read_committed"},
            {"isolation_level": "read_all"},
            {"kind": "new_data", "topics": ["t"], "since": {"offsets": [], "source": "s"}},
        ]
        for condition in conditions:
            with pytest.raises(TypeError, match="can't be used here"):
                KafkaWaitTrigger(kafka_conn_id="kafka_default", condition=condition, poll_interval_s=1)

    def test_what_another_version_remembered_is_dropped_and_the_wait_goes_on(self) -> None:
        condition, memory = GroupsCaughtUp(("g",)).to_json(), {"held": "twice", "answered": True}
        trigger = KafkaWaitTrigger(kafka_conn_id="kafka_default", condition=condition, poll_interval_s=1, memory=memory)
        assert trigger.serialize()[1]["memory"] == WaitMemory(1).to_json()

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
