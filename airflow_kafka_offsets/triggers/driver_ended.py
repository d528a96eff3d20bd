"""Fires once when a driver on a cluster has ended, or has noted in the ledger how its attempt ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.driver_status import SubmittedDriver
from airflow_kafka_offsets.triggers.store_looks import KafkaLookTrigger, looks_at


class KafkaDriverEndedTrigger(KafkaLookTrigger):
    """
    Asks the cluster for a driver's state, and the ledger for its result, until either says that it is over.

    The event is ``{"status": "noted"}`` once the ledger has a result or failure of the attempt, or ``{"status":
    "ended", "state": "FAILED", "active": False, "succeeded": False}`` with the state that the cluster reports. The wait
    ends with the driver as long as one of the two answers.

    :param attempt: number of the attempt that the driver makes.
    :param driver: how to ask about the driver, as :class:`.driver_status.SubmittedDriver` in JSON.
    """

    shortest_s = 5.0
    """Each look takes several requests to the cluster and to the ledger's store."""

    def __init__(self, *, window: dict[str, Any], attempt: int, driver: dict[str, Any], poll_interval_s: float) -> None:
        super().__init__(window=window, poll_interval_s=poll_interval_s)
        self._attempt = attempt
        self._driver = SubmittedDriver.from_json(driver)

    def what(self) -> dict[str, Any]:
        return {"attempt": self._attempt, "driver": self._driver.to_json()}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        driver, noted = self._driver, (self.ref, self._attempt)
        clusters, stores = looks_at(f"spark-connection://{driver.conn_id}"), looks_at(self.ref.ledger_root)
        while True:
            status = await self.look(f"The cluster of driver {driver.job_id}", clusters, driver, driver.status)
            # After the cluster: if the driver had ended, what it noted is there now.
            if await self.look(f"The ledger at {self.ref.ledger_root}", stores, noted, lambda: has_noted(*noted)):
                yield TriggerEvent({"status": "noted"})
                return
            if status is not None:
                self.say("The driver", f"Driver {driver.job_id} is {status.state}.")
                if not status.active:
                    yield TriggerEvent({"status": "ended", **asdict(status)})
                    return
            await asyncio.sleep(self.poll_interval_s)


def has_noted(ref: WindowRef, attempt: int) -> bool:
    """Whether a driver has noted in the ledger what it counted, or why it failed. One listing; the log isn't read."""
    runs = ledger_of(ref.ledger_root, ref.pipeline).attempt(ref.window, attempt).runs()
    return any({"result", "failure"} & kinds for kinds in runs.values())
