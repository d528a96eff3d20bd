"""Airflow's own trigger runner, without the process around it: it subscribes, shares, cancels and collects events."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.triggers.base import BaseTrigger

from airflow_kafka_offsets.triggers.wait import shared_polls


class Runner:
    """Triggers that run side by side, as on a triggerer."""

    def __init__(self) -> None:
        self._airflow = TriggerRunner()
        self._ids = itertools.count(1)

    def start(self, trigger: BaseTrigger) -> int:
        """Start a trigger; its id."""
        number = next(self._ids)
        work = asyncio.create_task(self._airflow.run_trigger(number, trigger))
        self._airflow.triggers[number] = {"task": work, "is_watcher": False, "name": str(number), "events": 0}
        return number

    def task(self, number: int) -> asyncio.Task[None]:
        """The task that runs a trigger."""
        return self._airflow.triggers[number]["task"]

    @property
    def polls(self) -> int:
        """How many shared polls there are at present."""
        return len(shared_polls)

    def events(self, number: int) -> list[Any]:
        """What a trigger has fired so far."""
        return [each.event.payload for each in self._airflow.events if each.trigger_id == number]

    async def event(self, number: int, timeout_s: float = 120) -> Any:
        """The first event of a trigger."""
        async with asyncio.timeout(timeout_s):
            while not self.events(number):
                if self.task(number).done():
                    self.task(number).result()
                await asyncio.sleep(0.02)
        return self.events(number)[0]

    async def cancel(self, number: int) -> None:
        """Cancel a trigger as Airflow does when its task is cleared."""
        self.task(number).cancel()
        await asyncio.wait([self.task(number)])

    async def stop(self) -> None:
        """Cancel all, as a triggerer does that shuts down."""
        for number in list(self._airflow.triggers):
            await self.cancel(number)


@asynccontextmanager
async def running() -> AsyncIterator[Runner]:
    """A runner, stopped in the end."""
    runner = Runner()
    try:
        yield runner
    finally:
        await runner.stop()
