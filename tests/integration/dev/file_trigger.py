"""A trigger for the tests of :mod:`dev.airflow_services`: fires when a file appears, and counts in the state store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent


class FileTrigger(BaseEventTrigger):
    """Fires each time that a file appears, and removes it.

    :param path: the file. The event's payload says how many there were, by what the asset's state store holds.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {"path": self.path}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            if Path(self.path).exists():
                count = int(await self.asset_state_store.aget("count", 0)) + 1
                await self.asset_state_store.aset("count", count)
                # Last: a trigger that a failed call ends is started anew, and must find the file.
                Path(self.path).unlink()
                yield TriggerEvent({"count": count})
            await asyncio.sleep(0.1)
