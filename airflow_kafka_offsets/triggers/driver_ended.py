"""Fires once when a driver on a cluster has ended, or has noted in the ledger how its attempt ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import partial
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.driver_status import status_of
from airflow_kafka_offsets.triggers.store_looks import KafkaLookTrigger, looks_at


class KafkaDriverEndedTrigger(KafkaLookTrigger):
    """
    Asks the cluster for a driver's state, and the ledger for its result, until either says that it is over.

    The event is ``{"status": "noted"}`` once the ledger has a result or failure of each attempt, or ``{"status":
    "ended", "state": "FAILED", "active": False, "succeeded": False}`` with the state that the cluster reports. The wait
    ends with the driver as long as one of the two answers.

    :param window: the references to the windows that the driver loads, in that order.
    :param attempts: number of the attempt that it makes at each.
    :param conn_id: id of the Spark connection.
    :param deploy_mode: the operator's deploy mode; None for the connection's.
    :param job_id: YARN application id, or namespace and pod on Kubernetes.
    """

    shortest_s = 5.0
    """Each look takes several requests to the cluster and to the ledger's store."""

    def __init__(
        self,
        *,
        window: list[dict[str, Any]],
        attempts: list[int],
        conn_id: str,
        deploy_mode: str | None,
        job_id: str,
        poll_interval_s: float,
    ) -> None:
        super().__init__(window=window, poll_interval_s=poll_interval_s)
        self._attempts = attempts
        self._driver = (conn_id, deploy_mode, job_id)

    def what(self) -> dict[str, Any]:
        conn_id, deploy_mode, job_id = self._driver
        return {"attempts": self._attempts, "conn_id": conn_id, "deploy_mode": deploy_mode, "job_id": job_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        driver, conn_id, job_id = self._driver, self._driver[0], self._driver[2]
        clusters = looks_at(f"spark-connection://{conn_id}")
        left = list(zip(self.refs, self._attempts, strict=True))
        while True:
            status = await self.look(f"The cluster of driver {job_id}", clusters, driver, lambda: status_of(*driver))
            # After the cluster: if the driver had ended, what it noted is there now.
            left = await self._left_of(left)
            if not left:
                yield TriggerEvent({"status": "noted"})
                return
            if status is not None:
                self.say("The driver", f"Driver {job_id} is {status.state}.")
                if not status.active:
                    yield TriggerEvent({"status": "ended", **asdict(status)})
                    return
            await asyncio.sleep(self.poll_interval_s)

    async def _left_of(self, left: list[tuple[WindowRef, int]]) -> list[tuple[WindowRef, int]]:
        """The windows of which nothing is noted yet, as far as their ledgers answer."""
        root = left[-1][0].ledger_root
        found = await self.look(f"The ledger at {root}", looks_at(root), tuple(left), partial(_unnoted, left))
        return left if found is None else list(found)


def _unnoted(windows: list[tuple[WindowRef, int]]) -> list[tuple[WindowRef, int]]:
    """The windows of which nothing is noted. As long as that is so of the last one, the others aren't looked at: their
    driver loads it last."""
    *others, last = windows
    if not has_noted(*last):
        return windows
    noted = in_parallel(lambda each: has_noted(*each), others)
    return [each for each, is_so in zip(others, noted, strict=True) if not is_so]


def has_noted(ref: WindowRef, attempt: int) -> bool:
    """Whether a driver has noted in the ledger what it counted, or why it failed. One listing; the log isn't read."""
    runs = ledger_of(ref.ledger_root, ref.pipeline).attempt(ref.window, attempt).runs()
    return any({"result", "failure"} & kinds for kinds in runs.values())
