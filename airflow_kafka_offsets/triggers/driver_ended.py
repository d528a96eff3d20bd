"""Fires once when a driver on a cluster has ended, or has noted in the ledger how its attempt ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.submission.driver_status import status_of
from airflow_kafka_offsets.triggers.store_looks import KafkaLookTrigger, looks_at


class KafkaDriverEndedTrigger(KafkaLookTrigger):
    """
    Asks the cluster for a driver's state, and the ledger for its result, until either says that it is over.

    The event is ``{"status": "noted"}`` once the ledger has a result or failure of the attempt, or ``{"status":
    "ended", "state": "FAILED", "active": False, "succeeded": False}`` with the state that the cluster reports. The wait
    ends with the driver as long as one of the two answers.

    :param window: the reference to the window that the driver loads; of several, to the last one.
    :param attempt: number of the attempt that it makes at it.
    :param conn_id: id of the Spark connection.
    :param deploy_mode: the operator's deploy mode; None for the connection's.
    :param job_id: YARN application id, or namespace and pod on Kubernetes.
    """

    shortest_s = 5.0
    """Each look takes several requests to the cluster and to the ledger's store."""

    def __init__(
        self,
        *,
        window: dict[str, Any],
        attempt: int,
        conn_id: str,
        deploy_mode: str | None,
        job_id: str,
        poll_interval_s: float,
    ) -> None:
        super().__init__(window=window, poll_interval_s=poll_interval_s)
        self._attempt = attempt
        self._driver = (conn_id, deploy_mode, job_id)

    def what(self) -> dict[str, Any]:
        conn_id, deploy_mode, job_id = self._driver
        return {"attempt": self._attempt, "conn_id": conn_id, "deploy_mode": deploy_mode, "job_id": job_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        driver, conn_id, job_id = self._driver, self._driver[0], self._driver[2]
        clusters, ledgers = looks_at(f"spark-connection://{conn_id}"), looks_at(self.ref.ledger_root)
        ref, attempt = self.ref, self._attempt
        while True:
            status = await self.look(f"The cluster of driver {job_id}", clusters, driver, lambda: status_of(*driver))
            # After the cluster: if the driver had ended, what it noted is there now.
            if await self.look(f"The ledger at {ref.ledger_root}", ledgers, (ref, attempt), self._is_noted):
                yield TriggerEvent({"status": "noted"})
                return
            if status is not None:
                self.say("The driver", f"Driver {job_id} is {status.state}.")
                if not status.active:
                    yield TriggerEvent({"status": "ended", **asdict(status)})
                    return
            await asyncio.sleep(self.poll_interval_s)

    def _is_noted(self) -> bool:
        """Whether the driver has noted how its attempt ended. The log isn't read."""
        return ledger_of(self.ref.ledger_root, self.ref.pipeline).attempt(self.ref.window, self._attempt).is_noted
