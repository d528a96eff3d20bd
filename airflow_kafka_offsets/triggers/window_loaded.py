"""Fires once when a window has been loaded, wherever its load runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerConflictError, or_error
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.counted import left_to_publish
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.triggers.store_looks import KafkaLookTrigger, looks_at


class KafkaWindowLoadedTrigger(KafkaLookTrigger):
    """
    Looks into the ledger until the window is loaded: published; or counted by a driver and proved, so that it can be
    published.

    The event is ``{"status": "done"}``, or ``{"status": "failed", "message": "...", "retriable": False}`` when waiting
    can't help, for example because the window was voided; ``retriable`` says whether a retry of the task may help.

    :param attempt: number of the attempt that a prepared load began at the window; None without a prepared load. If it
        can't be published any more, or all its drivers have ended and one has noted a failure, waiting can't help.
    """

    def __init__(self, *, window: dict[str, Any], poll_interval_s: float, attempt: int | None = None) -> None:
        super().__init__(window=window, poll_interval_s=poll_interval_s)
        self._attempt = attempt

    def what(self) -> dict[str, Any]:
        return {"attempt": self._attempt}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        root, who = self.ref.ledger_root, f"The ledger at {self.ref.ledger_root}"
        while True:
            # In a thread from the start, because looking up the connection in the ledger's root blocks too.
            found = await self.look(who, looks_at(root), (self.ref, self._attempt), self._looked)
            if isinstance(found, KafkaOffsetsError):
                yield TriggerEvent({"status": "failed", "message": str(found), "retriable": found.retriable})
                return
            if found:
                yield TriggerEvent({"status": "done"})
                return
            if found is not None:
                self.say(who, f"Window {self.ref.window} isn't loaded yet.")
            await asyncio.sleep(self.poll_interval_s)

    def _looked(self) -> bool | KafkaOffsetsError:
        """Whether the window is loaded; the error if waiting can't help."""
        return or_error(lambda: is_loaded(self.ref, self.ref.ledger(), self._attempt))


def is_loaded(ref: WindowRef, ledger: Ledger, attempt: int | None = None) -> bool:
    """Whether a window is published, or can be.

    :param attempt: number of the attempt that a prepared load began.
    :raises KafkaOffsetsError: when waiting can't help. A LedgerConflictError if that attempt can't be published any
        more; or the failure of its drivers, when all of them have ended and left nothing that can be published.
    """
    window = ref.window_in(ledger)
    if window.loaded is not None:
        return True
    # Before the results: they then include what the last running driver counts in the meantime.
    failure = None if attempt is None else _failure(ledger.attempt(ref.window, attempt))
    if left_to_publish(ledger, window) is not None:
        return True
    if attempt is not None and attempt not in [each.number for each in window.open_attempts]:
        raise LedgerConflictError(
            f"Attempt {attempt} at window {ref.window} can't be published any more: the window is to be loaded again, "
            "or was voided and resolved again, since it was prepared. Clear the task that prepares the load."
        )
    if failure is not None:
        ended = f"All drivers of attempt {attempt} have ended, and none has left a result that can be published"
        raise replace(failure, message=f"{failure.message.rstrip('.')}. {ended}: submit the load again.").as_error()
    return False


def _failure(files: AttemptFiles) -> FailureNote | None:
    """Why an attempt failed; None while one of its drivers runs, or none has started."""
    runs = files.runs().values()
    return None if any(kinds == {"note"} for kinds in runs) else files.failure()
