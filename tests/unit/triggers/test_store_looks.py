"""Looks at stores: what one that hangs takes, and what becomes of a look that runs over its time."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from airflow_kafka_offsets.triggers import store_looks
from airflow_kafka_offsets.triggers.store_looks import StoreLooks, ends, looks_at
from tests.patience import GRACE_S, PATIENCE_S

MANY = (os.cpu_count() or 1) + 5
"""More than asyncio has threads of its own."""


class Hanging:
    """A store that doesn't answer before it is let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = threading.Event()

    def loaded(self, window: str) -> Callable[[], bool]:
        def ask() -> bool:
            self.asked.append(window)
            return self.go.wait(PATIENCE_S)

        return ask


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    store = Hanging()
    yield store
    store.go.set()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_looks, "LONGEST_LOOK_S", 0.2)


@pytest.mark.usefixtures("soon")
class TestAStoreThatHangs:
    def test_takes_a_few_threads_and_none_of_the_event_loops_own(self, hanging: Hanging) -> None:
        looks = StoreLooks("s3://hangs")

        async def work() -> None:
            under_way = [looks.begin(f"w{number}", hanging.loaded(f"w{number}")) for number in range(MANY + 20)]
            assert not any(await asyncio.gather(*(ends(look) for look in under_way)))
            assert len(hanging.asked) == store_looks.MOST_THREADS
            await asyncio.wait_for(asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80), GRACE_S)

        asyncio.run(work())

    def test_holds_up_no_other_store(self, hanging: Hanging) -> None:
        assert looks_at("s3://a@hangs/ledgers") is looks_at("s3://a@hangs/others")

        async def work() -> bool:
            for number in range(MANY):
                looks_at("s3://hangs/ledgers").begin(f"w{number}", hanging.loaded("w"))
            other = looks_at("s3://answers/ledgers").begin("w", lambda: True)
            return await ends(other) and other.result()

        assert asyncio.run(work())

    def test_is_asked_once_about_each_window(self, hanging: Hanging) -> None:
        """Also by a task that was cleared, whose wait was cancelled meanwhile."""
        looks = StoreLooks("s3://hangs")

        async def wait() -> bool:
            return await ends(looks.begin("w", hanging.loaded("w")))

        async def work() -> None:
            first = asyncio.ensure_future(wait())
            await asyncio.sleep(0.05)
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
            assert [await wait(), await wait()] == [False, False]

        asyncio.run(work())
        assert hanging.asked == ["w"]


class TestALook:
    @pytest.mark.usefixtures("soon")
    def test_that_ran_over_is_heard_of_when_it_has_ended(self, hanging: Hanging) -> None:
        looks = StoreLooks("s3://slow")

        async def work() -> None:
            look = looks.begin("w", hanging.loaded("w"))
            assert not await ends(look)
            hanging.go.set()
            async with asyncio.timeout(PATIENCE_S):
                while not await ends(look):
                    await asyncio.sleep(0.01)
            assert look.result()

        asyncio.run(work())

    def test_is_begun_anew_once_the_last_one_has_ended(self) -> None:
        looks = StoreLooks("s3://changes")

        def fail() -> bool:
            raise OSError("no route")

        async def work() -> None:
            failed = looks.begin("w", fail)
            assert await ends(failed)
            with pytest.raises(OSError, match="no route"):
                failed.result()
            again = looks.begin("w", lambda: False)
            assert (await ends(again), again.result()) == (True, False)

        asyncio.run(work())
