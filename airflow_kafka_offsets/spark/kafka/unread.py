"""Unread records: what Kafka's own consumer on the driver sees in stretches of a window where a run wrote no row.

The consumer has the reader's options, so it sees what the read saw. If Kafka doesn't answer, or no longer has a
stretch, that is an error: neither tells what was there.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark

from airflow_kafka_offsets.errors import DataLossError, UncheckedSourceError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.spark.kafka.clients import KafkaClients
from airflow_kafka_offsets.spark.session.session import java_classes

_OPTIONS = {
    # A stretch is short, and the rest of a fetch is thrown away. One fetch covers all partitions of a broker.
    "kafka.max.partition.fetch.bytes": str(64 * 1024),
    "kafka.fetch.max.bytes": str(8 * 1024 * 1024),
    # Kafka's own default: everything that a poll brings is unpacked.
    "kafka.max.poll.records": "500",
}
_POLL_MS = 200
_STALLED_S = 60.0
"""How long Kafka may make no progress: the same as the timeout of its clients' own calls."""
_GONE = "org.apache.kafka.clients.consumer.OffsetOutOfRangeException"


def unread_records(clients: KafkaClients, stretches: Iterable[LogRange]) -> tuple[ReadPosition, ...]:
    """The first record of each partition that lies in a stretch where a run wrote no row, in order.

    Only the ends of tasks' ranges are asked for. They are usually short: a transaction's marker, or what compaction
    removed. If compaction has removed records since, a stretch is emptier than it was during the run, just as for a
    read that begins now.

    :param clients: clients of the cluster that was read, with the reader's options.
    :param stretches: ranges that don't overlap.
    :raises DataLossError: the log no longer has a stretch.
    :raises UncheckedSourceError: when Kafka can't be asked, or makes no progress.
    :raises AuthenticationError: when the brokers refuse the credentials.
    """
    queues: dict[TopicPartition, deque[LogRange]] = defaultdict(deque)
    for stretch in sorted(stretches):
        queues[TopicPartition.of(stretch)].append(stretch)
    if not queues:
        return ()
    with KafkaClients(clients.spark, {**clients.options, **_OPTIONS}).consumer() as consumer:
        java: Any = clients.spark._jvm
        assigned = {key: java.org.apache.kafka.common.TopicPartition(*key) for key in queues}
        consumer.assign(list(assigned.values()))
        walk = _Walk(consumer, assigned, queues, java.java.time.Duration.ofMillis(_POLL_MS))
        try:
            return tuple(sorted(walk.run()))
        except Py4JJavaError as error:
            if _GONE not in java_classes(error):
                raise
            raise DataLossError(
                "Kafka no longer has offsets of the window that the driver must check, so nobody can tell "
                f"whether records were there: {error.java_exception.getMessage()}. Retention or DeleteRecords "
                "removed them. Nothing is published. Load the window again; if that load says that records are lost, "
                "on_data_loss='load_rest' loads the rest."
            ) from error


@dataclass(slots=True)
class _Walk:
    """A consumer's walk over the stretches of all partitions at the same time."""

    consumer: Any
    assigned: dict[TopicPartition, Any]
    queues: dict[TopicPartition, deque[LogRange]]
    patience: Any

    def run(self) -> Iterator[ReadPosition]:
        for key in list(self.queues):
            self._go_on(key, -1)
        reached, moved = -1, time.monotonic()
        while self.queues:
            yield from filter(None, self._poll())
            positions = {key: int(self.consumer.position(self.assigned[key])) for key in self.queues}
            for key, position in positions.items():
                self._go_on(key, position)
            if sum(positions.values()) != reached:
                reached, moved = sum(positions.values()), time.monotonic()
            elif time.monotonic() - moved > _STALLED_S:
                raise UncheckedSourceError(self._stalled())

    def _poll(self) -> Iterator[ReadPosition | None]:
        records = self.consumer.poll(self.patience)
        for partition in records.partitions():
            key = TopicPartition(str(partition.topic()), int(partition.partition()))
            yield self._first_of(key, records.records(partition))

    def _first_of(self, key: TopicPartition, records: Iterable[Any]) -> ReadPosition | None:
        """The first of a partition's records that lies in a stretch. The rest of a fetch isn't looked at."""
        for record in records:
            offset = int(record.offset())
            self._go_on(key, offset)
            if key not in self.queues or offset < self.queues[key][0].start_offset:
                return None
            self._leave(key)
            return ReadPosition(*key, offset)
        return None

    def _go_on(self, key: TopicPartition, reached: int) -> None:
        """Leave the stretches that end at or before ``reached``, and seek to the next one if it begins later."""
        queue = self.queues[key]
        while queue and queue[0].end_offset <= reached:
            queue.popleft()
        if not queue:
            self._leave(key)
        elif reached < queue[0].start_offset:
            self.consumer.seek(self.assigned[key], queue[0].start_offset)

    def _leave(self, key: TopicPartition) -> None:
        del self.queues[key]
        self.consumer.pause([self.assigned[key]])

    def _stalled(self) -> str:
        (topic, number), queue = next(iter(self.queues.items()))
        return (
            f"Kafka didn't say within {_STALLED_S:.0f} s whether {topic}-{number} has a record from offset "
            f"{queue[0].start_offset} to before {queue[0].end_offset}. Nothing is published. A retry asks again."
        )
