"""The usual wait: a deferred task that waits for a consumer group, as people write it with kafka-python."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from kafka import KafkaConsumer, TopicPartition


class UsualWait(BaseTrigger):
    """
    Makes a consumer for each poke, in a thread, and compares commits with log ends.

    :param bootstrap_servers: address of the brokers.
    :param group: consumer group.
    :param topic: the topic that it reads.
    :param poll_interval_s: seconds between pokes.
    """

    def __init__(self, *, bootstrap_servers: str, group: str, topic: str, poll_interval_s: float) -> None:
        super().__init__()
        self._arguments = {"bootstrap_servers": bootstrap_servers, "group": group, "topic": topic}
        self._poll_interval_s = poll_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", self._arguments | {"poll_interval_s": self._poll_interval_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yields one event, once there is no lag."""
        while await asyncio.to_thread(lag, **self._arguments):
            await asyncio.sleep(self._poll_interval_s)
        yield TriggerEvent("caught up")


def lag(bootstrap_servers: str, group: str, topic: str) -> int:
    """The number of offsets that a group hasn't read yet. ``committed`` sends a request for each partition."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=group, enable_auto_commit=False)
    try:
        pieces = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        ends = consumer.end_offsets(pieces)
        return sum(ends[each] - (consumer.committed(each) or 0) for each in pieces)
    finally:
        consumer.close()
