"""Fires once when windows have been loaded, wherever their load runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.errors import (
    FailedWindow,
    KafkaOffsetsError,
    LedgerConflictError,
    WindowsFailedError,
    or_error,
)
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.counted import left_to_publish
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import outcomes
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.references.window_ref import WindowRef, WindowRefs
from airflow_kafka_offsets.triggers.store_looks import KafkaLookTrigger, looks_at

Waited: TypeAlias = tuple[WindowRef, int | None]
"""A window, and the attempt that a prepared load began at it."""


class KafkaWindowLoadedTrigger(KafkaLookTrigger):
    """
    Looks into the ledger until the window is loaded: published; or counted by a driver and proved, so that it can be
    published. Of a list, until each is, or waiting for it can't help.

    The event is ``{"status": "done"}``, or ``{"status": "failed", "message": "...", "retriable": False}`` when waiting
    can't help, for example because the window was voided; ``retriable`` says whether a retry of the task may help.

    :param attempts: number of the attempt that a prepared load began at each window, None where it began none; or None
        without a prepared load. If it can't be published any more, or all its drivers have ended and one has noted a
        failure, waiting can't help.
    """

    def __init__(
        self,
        *,
        window: dict[str, Any] | list[dict[str, Any]],
        poll_interval_s: float,
        attempts: list[int | None] | None = None,
    ) -> None:
        super().__init__(window=window, poll_interval_s=poll_interval_s)
        self._attempts = attempts

    def what(self) -> dict[str, Any]:
        return {"attempts": self._attempts}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        left = list(zip(self.refs, self._attempts or [None] * len(self.refs), strict=True))
        failed: list[tuple[WindowRef, KafkaOffsetsError]] = []
        while left:
            root = left[-1][0].ledger_root
            # In a thread from the start, because looking up the connection in the ledger's root blocks too.
            found = await self.look(f"The ledger at {root}", looks_at(root), tuple(left), partial(_looked, left))
            if found is not None:
                pairs = list(zip(left, found, strict=True))
                failed += [(ref, why) for (ref, _), why in pairs if isinstance(why, KafkaOffsetsError)]
                left = [each for each, loaded in pairs if loaded is False]
            if left:
                if found is not None:
                    self.say(f"The ledger at {root}", f"Window {left[-1][0].window} isn't loaded yet.")
                await asyncio.sleep(self.poll_interval_s)
        yield TriggerEvent(self._event(failed))

    def _event(self, failed: list[tuple[WindowRef, KafkaOffsetsError]]) -> dict[str, Any]:
        if not failed:
            return {"status": "done"}
        error = failed[0][1]
        if self.windows.is_list:
            named = [FailedWindow(ref.window, ref.pipeline, why) for ref, why in failed]
            error = WindowsFailedError(named, len(self.refs))
        return {"status": "failed", "message": str(error), "retriable": error.retriable}


def _looked(windows: Sequence[Waited]) -> list[bool | KafkaOffsetsError]:
    """Whether each window is loaded; the error if waiting can't help. As long as the last one isn't, the others aren't
    looked at: their driver loads it last."""
    *others, last = windows
    (found,) = _are_loaded([last])
    return [*(_are_loaded(others) if found else [False] * len(others)), found]


def _are_loaded(windows: Sequence[Waited]) -> list[bool | KafkaOffsetsError]:
    ledgers = or_error(WindowRefs(tuple(ref for ref, _ in windows), is_list=True).ledgers)
    if isinstance(ledgers, KafkaOffsetsError):
        return [ledgers] * len(windows)
    in_ledger = dict(zip(windows, ledgers, strict=True))
    found = outcomes(lambda each: is_loaded(each[0], in_ledger[each], each[1]), windows)
    return [found[each] for each in windows]


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
