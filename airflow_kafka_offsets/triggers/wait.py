"""The trigger behind every deferrable sensor: fires once, when its condition holds."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.conditions import CONDITIONS
from airflow_kafka_offsets.conditions.wait_memory import WaitMemory
from airflow_kafka_offsets.triggers.polls import KafkaPollTrigger, refusing_arguments


class KafkaWaitTrigger(KafkaPollTrigger):
    """
    Polls Kafka until a condition holds, then fires once.

    The event is ``{"status": "done", "result": {...}}``, or ``{"status": "failed", "message": "..."}`` for a fault that
    waiting can't fix. Faults that may pass are logged and waited out.

    :param kafka_conn_id: connection id; looked up at each poll, so that changes to the connection take effect.
    :param condition: the condition as JSON.
    :param poll_interval_s: seconds between polls.
    :param memory: what the worker's own check remembered.
    """

    def __init__(
        self,
        *,
        kafka_conn_id: str,
        condition: dict[str, Any],
        poll_interval_s: float,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        with refusing_arguments():
            self._condition = CONDITIONS[condition["kind"]].from_json(condition)
        super().__init__(kafka_conn_id=kafka_conn_id, poll_interval_s=poll_interval_s)
        self._wait = WaitMemory(poll_interval_s, stable_polls=self._condition.stable_polls, memory=memory)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__name__}",
            {
                "kafka_conn_id": self.kafka_conn_id,
                "condition": self._condition.to_json(),
                "poll_interval_s": self.poll_interval_s,
                "memory": self._wait.to_json(),
            },
        )

    async def events(self) -> AsyncGenerator[TriggerEvent]:
        async with aclosing(self.outcomes_of(self._condition)) as found:
            async for outcome in found:
                verdict = self._wait.take(outcome, time.time())
                if verdict.line:
                    self.log.info("%s", verdict.line)
                if verdict.status == "failed":
                    yield TriggerEvent({"status": "failed", "message": verdict.message})
                    return
                if verdict.status == "done":
                    yield TriggerEvent({"status": "done", "result": verdict.result})
                    return
