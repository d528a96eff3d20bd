"""Fires once when a window has been loaded, wherever its load runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.pipelines.publisher import proved_for
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.triggers import store_looks
from airflow_kafka_offsets.triggers.polls import refusing_arguments
from airflow_kafka_offsets.triggers.store_looks import Look, looks_at

_SHORTEST_S = 1.0
"""Each look is some requests to the ledger's store."""


class KafkaWindowLoadedTrigger(BaseTrigger):
    """
    Looks into the ledger until the window is loaded: published, in the revision that is referred to or one that
    replaced it; or counted by a driver and proved, so that it can be published.

    The event is ``{"status": "done"}``, or ``{"status": "failed", "message": "...", "retriable": False}`` when waiting
    can't help, as for a window that was forgotten; ``retriable`` is whether another try of the task may. A
    store that can't be read, or doesn't answer, is logged, and asked again.

    :param window: the window's reference: what ``KafkaResolveWindowOperator`` returned.
    :param poll_interval_s: seconds between looks.
    :param load: name of the prepared load that is waited for. What others have counted that were asked for something
        else doesn't end the wait; where its drivers have ended, and one has noted a failure, waiting can't help.
    """

    def __init__(self, *, window: dict[str, Any], poll_interval_s: float, load: str | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's base class
        with refusing_arguments():
            self._ref = WindowRef.from_json(window)
        self._poll_interval_s = max(poll_interval_s, _SHORTEST_S)
        self._load = load
        self._said = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__name__}",
            {"window": self._ref.to_json(), "poll_interval_s": self._poll_interval_s, "load": self._load},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        look: Look | None = None
        while True:
            look = look or self._look()
            if await look.ends():
                event = self._event(look)
                if event is not None:
                    yield event
                    return
                look = None
            else:
                longest = duration_text(store_looks.LONGEST_LOOK_S)
                self._say(f"The store of the ledger at {self._ref.ledger_root} doesn't answer within {longest}.")
            await asyncio.sleep(self._poll_interval_s)

    def _look(self) -> Look:
        ref, load = self._ref, self._load
        # Looking up the connection in the ledger's root blocks too.
        return looks_at(ref.ledger_root).begin((ref, load), lambda: is_loaded(ref, load))

    def _event(self, look: Look) -> TriggerEvent | None:
        """What a look that has ended makes of the wait; None where it goes on."""
        try:
            if look.result():
                return TriggerEvent({"status": "done"})
            self._say(f"Window {self._ref.window} isn't loaded yet.")
        except KafkaOffsetsError as error:
            return TriggerEvent({"status": "failed", "message": str(error), "retriable": error.retriable})
        except Exception as error:  # each store has its own
            self._say(f"The ledger at {self._ref.ledger_root} can't be read ({type(error).__name__}: {error}).")
        return None

    def _say(self, line: str) -> None:
        if line != self._said:
            self.log.info("%s Looking again every %g s.", line, self._poll_interval_s)
        self._said = line


def is_loaded(ref: WindowRef, load: str | None = None) -> bool:
    """Whether a window is published, or can be.

    :param load: name of the prepared load that is waited for.
    :raises KafkaOffsetsError: what a driver of that load has failed with last, where all have ended and have left
        nothing that can be published.
    """
    ledger = ref.ledger()
    pinned, publication = ref.loaded(ledger)
    if publication is not None:
        return True
    # Before the results: what the last driver counts that was still running is among them then.
    failure = ledger.folder_of(pinned).failure_of_load(load) if load else None
    if proved_for(ledger, pinned, load):
        return True
    if failure is not None:
        ended = f"Each driver that has begun load {load} has ended, and none has left what can be published"
        raise replace(failure, message=f"{failure.message.rstrip('.')}. {ended}: submit the load again.").as_error()
    return False
