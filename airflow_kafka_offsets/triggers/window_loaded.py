"""Fires once when a window has been loaded, wherever its load runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.pipelines.publisher import proved_for
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.triggers.store_looks import KafkaLookTrigger, looks_at


class KafkaWindowLoadedTrigger(KafkaLookTrigger):
    """
    Looks into the ledger until the window is loaded: published, in the given revision or one that replaced it; or
    counted by a driver and proved, so that it can be published.

    The event is ``{"status": "done"}``, or ``{"status": "failed", "message": "...", "retriable": False}`` when waiting
    can't help, for example because the window was forgotten; ``retriable`` says whether a retry of the task may help.

    :param load: name of the prepared load to wait for. Results of other loads, which were asked for something else,
        don't end the wait. If all drivers of this load have ended and one has noted a failure, waiting can't help.
    """

    def __init__(self, *, window: dict[str, Any], poll_interval_s: float, load: str | None = None) -> None:
        super().__init__(window=window, poll_interval_s=poll_interval_s)
        self._load = load

    def what(self) -> dict[str, Any]:
        return {"load": self._load}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        ref, load = self.ref, self._load
        ledger = f"The ledger at {ref.ledger_root}"
        while True:
            # In a thread from the start, because looking up the connection in the ledger's root blocks too.
            event = await self.look(ledger, looks_at(ref.ledger_root), (ref, load), lambda: _event(ref, load))
            if event:
                yield TriggerEvent(event)
                return
            if event is not None:
                self.say(ledger, f"Window {ref.window} isn't loaded yet.")
            await asyncio.sleep(self.poll_interval_s)


def _event(ref: WindowRef, load: str | None) -> dict[str, Any]:
    """The event that a look leads to; empty when the wait goes on."""
    try:
        return {"status": "done"} if is_loaded(ref, ref.ledger(), load) else {}
    except KafkaOffsetsError as error:
        return {"status": "failed", "message": str(error), "retriable": error.retriable}


def is_loaded(ref: WindowRef, ledger: Ledger, load: str | None = None) -> bool:
    """Whether a window is published, or can be.

    :param load: name of the prepared load to wait for.
    :raises KafkaOffsetsError: the last failure of that load's drivers, when all of them have ended and left nothing
        that can be published.
    """
    pinned, publication = ref.loaded(ledger)
    if publication is not None:
        return True
    # Before the results: they then include what the last running driver counts in the meantime.
    failure = ledger.window_folders.of(pinned).failure_of_load(load) if load else None
    if proved_for(ledger, pinned, load):
        return True
    if failure is not None:
        ended = f"All drivers of load {load} have ended, and none has left a result that can be published"
        raise replace(failure, message=f"{failure.message.rstrip('.')}. {ended}: submit the load again.").as_error()
    return False
