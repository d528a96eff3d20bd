"""Looks at stores: what one that hangs takes, and what becomes of a look that runs over its time."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_kafka_offsets.references import WindowRef
from airflow_kafka_offsets.triggers import ledger_looks
from airflow_kafka_offsets.triggers.ledger_looks import KafkaWindowLoadedTrigger, store_of
from tests.patience import GRACE_S, PATIENCE_S, wait_until

MANY = (os.cpu_count() or 1) + 25
"""More than asyncio has threads of its own."""


class Hanging:
    """A store that doesn't answer before it is let go."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = threading.Event()

    def ask(self) -> bool:
        self.asked += 1
        return self.go.wait(PATIENCE_S)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    monkeypatch.setattr(ledger_looks, "LONGEST_LOOK_S", 0.2)
    store = Hanging()
    yield store
    store.go.set()


@pytest.fixture
def make_trigger(tmp_path: Path) -> Callable[[], KafkaWindowLoadedTrigger]:
    window = "20261121T050000000Z_20261121T060000000Z"
    ref = WindowRef(tmp_path.as_uri(), "flights", window, "file:///m.json", "00", 10, 1, 3, "kafka_default")
    return lambda: KafkaWindowLoadedTrigger(window=ref.to_json(), poll_interval_s=1)


MakeTrigger = Callable[[], KafkaWindowLoadedTrigger]


class TestAStoreThatHangs:
    def test_takes_a_few_threads_and_none_of_the_event_loops_own(
        self, hanging: Hanging, make_trigger: MakeTrigger
    ) -> None:
        async def work() -> None:
            looks = (make_trigger().look("store", "s3://hangs", hanging.ask) for _ in range(MANY))
            assert set(await asyncio.gather(*looks)) == {None}
            await asyncio.to_thread(
                wait_until, lambda: hanging.asked >= ledger_looks.MOST_THREADS, "all of its threads have begun"
            )
            assert hanging.asked == ledger_looks.MOST_THREADS
            await asyncio.wait_for(asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80), GRACE_S)

        asyncio.run(work())

    def test_holds_up_no_other_store(self, hanging: Hanging, make_trigger: MakeTrigger) -> None:
        assert store_of("s3://a@stuck/ledgers") == store_of("s3://a@stuck/others") != store_of("s3://answers/ledgers")

        async def work() -> object:
            looks = (make_trigger().look("store", "s3://stuck", hanging.ask) for _ in range(MANY))
            await asyncio.gather(*looks)
            async with asyncio.timeout(PATIENCE_S):
                while (found := await make_trigger().look("store", "s3://answers", lambda: "loaded")) is None:
                    pass  # it took longer than the store's time, on a busy machine
            return found

        assert asyncio.run(work()) == "loaded"


class TestALook:
    def test_that_ran_over_is_heard_of_when_it_has_ended_and_no_other_begins_before(
        self, hanging: Hanging, make_trigger: MakeTrigger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trigger, said = make_trigger(), list[str]()
        monkeypatch.setattr(trigger, "say", lambda _, line: said.append(line))

        async def work() -> None:
            assert [await trigger.look("store", "s3://slow", hanging.ask) for _ in range(2)] == [None, None]
            assert hanging.asked == 1
            hanging.go.set()
            async with asyncio.timeout(PATIENCE_S):
                while not await trigger.look("store", "s3://slow", hanging.ask):
                    await asyncio.sleep(0.01)

        asyncio.run(work())
        assert set(said) == {"store didn't answer within 200 ms."}

    def test_that_fails_is_told_and_begun_anew(
        self, make_trigger: MakeTrigger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trigger, said = make_trigger(), list[str]()
        monkeypatch.setattr(trigger, "say", lambda _, line: said.append(line))

        def fail() -> bool:
            raise OSError("no route")

        async def work() -> list[object]:
            return [await trigger.look("store", "s3://changes", each) for each in (fail, lambda: False)]

        assert asyncio.run(work()) == [None, False]
        assert said == ["store can't be asked (OSError: no route)."]
