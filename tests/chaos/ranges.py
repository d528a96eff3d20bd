"""Reads exactly the records of some ranges with librdkafka, as Spark's reader would."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from airflow_kafka_offsets.offsets.partitions import LogRange

Key = tuple[str, int]
Offsets = Mapping[Key, list[int]]
"""Offsets of the records that a reader got, by topic and partition."""
PATIENCE_S = 15.0


class RangeReader:
    """One consumer for each isolation level, made when it is first needed."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._config = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            "group.id": "ranges",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "fetch.error.backoff.ms": 20,
        }
        self._consumers: dict[str, Any] = {}

    def close(self) -> None:
        for each in self._consumers.values():
            each.close()

    def read(self, ranges: Sequence[LogRange], level: str) -> Offsets:
        """The offsets of all records in the ranges, of which no partition has two.

        :param level: the isolation level.
        :raises KafkaException: a range starts before its log.
        :raises TimeoutError: the ranges couldn't be read in time.
        """
        ends = {(each.topic, each.partition): each.end_offset for each in ranges}
        if not ends:
            return {}
        consumer = self._consumer(level)
        for topic in {each.topic for each in ranges}:  # by itself, it would notice new partitions only later
            consumer.list_topics(topic, PATIENCE_S)
        consumer.assign([TopicPartition(each.topic, each.partition, each.start_offset) for each in ranges])
        try:
            return _read(consumer, ends)
        finally:
            consumer.unassign()

    def _consumer(self, level: str) -> Any:
        if level not in self._consumers:
            self._consumers[level] = Consumer(self._config | {"isolation.level": level})
        return self._consumers[level]


def _read(consumer: Any, ends: Mapping[Key, int]) -> Offsets:
    """Offsets below the ends. A range is done once there is a record past its end, or once the log's end is reached."""
    found: dict[Key, list[int]] = {each: [] for each in ends}
    waiting = set(ends)
    deadline = time.monotonic() + PATIENCE_S
    while waiting:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end of {sorted(waiting)}")
        message = consumer.poll(0.5)
        if message is None:
            continue
        error, key = message.error(), (message.topic(), message.partition())
        if error is None and message.offset() < ends[key]:
            found[key].append(message.offset())
        elif error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if message.offset() >= ends[key] - (error is None):
            waiting.discard(key)
    return found
