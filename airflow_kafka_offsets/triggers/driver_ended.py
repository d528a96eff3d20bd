"""Fires once when a driver on a cluster has ended, or has said in the ledger what became of its attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.driver_status import SubmittedDriver
from airflow_kafka_offsets.triggers.polls import refusing_arguments
from airflow_kafka_offsets.triggers.store_looks import Look, StoreLooks, looks_at

_SHORTEST_S = 5.0
"""Each look is some requests to the cluster and to the ledger's store."""


class KafkaDriverEndedTrigger(BaseTrigger):
    """
    Asks the cluster how a driver is, and the ledger what it has counted, until either says that it is over.

    The event is ``{"status": "noted"}`` once the ledger has the attempt's result or failure, or ``{"status": "ended",
    "state": "FAILED", "active": False, "succeeded": False}`` with the cluster's own word. A cluster or a store that
    doesn't answer is logged, and asked again: as long as one of them answers, the wait ends when the driver does.

    :param window: the window's reference: what ``KafkaResolveWindowOperator`` returned.
    :param revision: the window's revision that the driver loads.
    :param attempt: the attempt that it makes.
    :param driver: how to ask about it, as :class:`.driver_status.SubmittedDriver` in JSON.
    :param poll_interval_s: seconds between looks; 5 at least.
    """

    def __init__(
        self, *, window: dict[str, Any], revision: int, attempt: str, driver: dict[str, Any], poll_interval_s: float
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's base class
        with refusing_arguments():
            self._ref = WindowRef.from_json(window)
        self._revision = revision
        self._attempt = attempt
        self._driver = SubmittedDriver.from_json(driver)
        self._poll_interval_s = max(poll_interval_s, _SHORTEST_S)
        self._looks: dict[str, Look] = {}
        self._said: dict[str, str] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__name__}",
            {
                "window": self._ref.to_json(),
                "revision": self._revision,
                "attempt": self._attempt,
                "driver": self._driver.to_json(),
                "poll_interval_s": self._poll_interval_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        driver, noted = self._driver, (self._ref, self._revision, self._attempt)
        clusters, stores = looks_at(f"spark-connection://{driver.conn_id}"), looks_at(self._ref.ledger_root)
        while True:
            status = await self._look("The cluster", clusters, driver, driver.status)
            # After the cluster: what a driver has noted before it ended is there then.
            if await self._look("The ledger", stores, noted, lambda: has_noted(*noted)):
                yield TriggerEvent({"status": "noted"})
                return
            if status is not None:
                self._say("The driver", f"Driver {driver.job_id} is {status.state}.")
                if not status.active:
                    yield TriggerEvent({"status": "ended", **asdict(status)})
                    return
            await asyncio.sleep(self._poll_interval_s)

    async def _look(self, who: str, looks: StoreLooks, what: Hashable, ask: Callable[[], Any]) -> Any:
        """What somebody answers; None while he doesn't."""
        look = self._looks.pop(who, None) or looks.begin(what, ask)
        if not await look.ends():
            self._looks[who] = look
            self._say(who, f"{who} doesn't answer about driver {self._driver.job_id}.")
            return None
        try:
            return look.result()
        except Exception as error:  # each cluster and each store has its own
            self._say(
                who, f"{who} can't be asked about driver {self._driver.job_id} ({type(error).__name__}: {error})."
            )
            return None

    def _say(self, who: str, line: str) -> None:
        if line != self._said.get(who):
            self.log.info("%s Looking again every %g s.", line, self._poll_interval_s)
        self._said[who] = line


def has_noted(ref: WindowRef, revision: int, attempt: str) -> bool:
    """Whether a driver has said in the ledger what it has counted, or why it failed."""
    ledger = ref.ledger()
    listing = ledger.folder_of(ledger.pinned(ref.window, revision)).listing()
    return attempt in listing.results or attempt in listing.failures
