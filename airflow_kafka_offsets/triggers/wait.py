"""The trigger behind every deferrable sensor: polls a condition until it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions import Condition, Progress, condition_from_json
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook


class KafkaWaitTrigger(BaseTrigger):
    """
    Polls Kafka until a condition holds, then fires once.

    The event is ``{"status": "done", "result": {...}}``, or ``{"status": "failed", "message": "..."}`` for a fault that
    waiting can't mend. Passing faults are logged and waited out.

    :param kafka_conn_id: connection id; looked up anew at each poll, so that an edited connection takes effect.
    :param condition: the condition as JSON.
    :param poll_interval_s: seconds between polls.
    """

    def __init__(self, *, kafka_conn_id: str, condition: dict[str, Any], poll_interval_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's base class
        self.kafka_conn_id = kafka_conn_id
        self.condition = condition
        self.poll_interval_s = poll_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__name__}",
            {
                "kafka_conn_id": self.kafka_conn_id,
                "condition": self.condition,
                "poll_interval_s": self.poll_interval_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent(await self._wait())

    async def _wait(self) -> dict[str, Any]:
        condition = condition_from_json(self.condition)
        said = ""
        while True:
            try:
                progress = await self._poll(condition)
            except KafkaOffsetsError as error:
                if not error.retriable:
                    return {"status": "failed", "message": str(error)}
                progress = Progress(False, f"Asking again in {self.poll_interval_s:g} s: {error}", {})
            if progress.summary != said:
                said = progress.summary
                self.log.info(said)
            if progress.done:
                return {"status": "done", "result": progress.result}
            await asyncio.sleep(self.poll_interval_s)

    async def _poll(self, condition: Condition) -> Progress:
        """Kafka's client blocks, so it works in a thread; its own deadline bounds it."""
        client = await KafkaOffsetsHook(self.kafka_conn_id).aget_conn()
        return await asyncio.to_thread(_check, condition, client)


def _check(condition: Condition, client: OffsetsClient) -> Progress:
    with client:
        return condition.check(client)
