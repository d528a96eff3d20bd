"""Unread records: whether Kafka has a record where a run wrote no row, asked by Kafka's own consumer on the driver.

Only stretches at the ends of tasks' ranges are asked for, which are short as a rule: a transaction's marker, or what
compaction removed. The consumer has the reader's options, so that it sees what the read saw; what compaction has
removed since makes a stretch emptier, as it would have been for a read that began now.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark

from airflow_kafka_offsets.errors import DataLossError, UncheckedSourceError
from airflow_kafka_offsets.offsets.audit import UnreadRecord
from airflow_kafka_offsets.offsets.split_plan import ReadTask
from airflow_kafka_offsets.offsets.task_rows import Partition
from airflow_kafka_offsets.spark.kafka_clients import KafkaClients, java_classes

_OPTIONS = {
    # A stretch is short, and what a fetch brings beyond it is thrown away: one broker answers for all its partitions.
    "kafka.max.partition.fetch.bytes": str(64 * 1024),
    "kafka.fetch.max.bytes": str(8 * 1024 * 1024),
    "kafka.max.poll.records": "10000",
}
_POLL_MS = 200
_STALLED_S = 60.0
"""How long Kafka may bring nothing on: as long as its clients give their own calls."""
_GONE = "org.apache.kafka.clients.consumer.OffsetOutOfRangeException"


def unread_records(clients: KafkaClients, stretches: Iterable[ReadTask]) -> tuple[UnreadRecord, ...]:
    """The first record of each stretch that has one, in order; one for each partition.

    :param clients: of the cluster that was read, with the reader's options.
    :param stretches: ranges in which nothing was written.
    :raises DataLossError: the log no longer has a stretch, so that nobody can tell.
    :raises UncheckedSourceError: when Kafka can't be asked.
    :raises AuthenticationError: when the brokers refuse the credentials.
    """
    queues: dict[Partition, deque[ReadTask]] = defaultdict(deque)
    for each in sorted(stretches, key=lambda each: (each.topic, each.partition, each.start_offset)):
        queues[each.topic, each.partition].append(each)
    if not queues:
        return ()
    with KafkaClients(clients.spark, {**clients.options, **_OPTIONS}).consumer() as consumer:
        java: Any = clients.spark._jvm
        assigned = {key: java.org.apache.kafka.common.TopicPartition(*key) for key in queues}
        consumer.assign(list(assigned.values()))
        search = _Search(consumer, assigned, queues, java.java.time.Duration.ofMillis(_POLL_MS))
        try:
            return search.run()
        except Py4JJavaError as error:
            if _GONE not in java_classes(error):
                raise
            raise DataLossError(
                "Kafka no longer has offsets of the window without a row, so that nobody can tell whether records were "
                f"there that were not read: {error.java_exception.getMessage()}. Nothing is published. Retention or "
                "DeleteRecords removed them after the read: load the window again, by a newer revision where it says "
                "that records are lost."
            ) from error


@dataclass(slots=True)
class _Search:
    """A consumer's walk over the stretches, all partitions at the same time."""

    consumer: Any
    assigned: dict[Partition, Any]
    queues: dict[Partition, deque[ReadTask]]
    patience: Any

    def run(self) -> tuple[UnreadRecord, ...]:
        found: list[UnreadRecord] = []
        for key in list(self.queues):
            self._go_on(key)
        reached, moved = -1, time.monotonic()
        while self.queues:
            found.extend(self._poll())
            positions = {key: int(self.consumer.position(self.assigned[key])) for key in self.queues}
            for key, position in positions.items():
                self._go_on(key, position)
            if sum(positions.values()) != reached:
                reached, moved = sum(positions.values()), time.monotonic()
            elif time.monotonic() - moved > _STALLED_S:
                raise UncheckedSourceError(self._stalled())
        return tuple(sorted(found, key=lambda each: (each.topic, each.partition)))

    def _poll(self) -> Iterator[UnreadRecord]:
        records = self.consumer.poll(self.patience)
        for partition in records.partitions():
            key = str(partition.topic()), int(partition.partition())
            offset = int(records.records(partition).get(0).offset())
            if offset < self.queues[key][0].end_offset:
                yield UnreadRecord(*key, offset)
                self.queues[key].clear()
            self._go_on(key, offset)

    def _go_on(self, key: Partition, reached: int | None = None) -> None:
        """Seek the next stretch that isn't known to be empty; without one the partition rests."""
        queue, before = self.queues[key], len(self.queues[key])
        while queue and reached is not None and queue[0].end_offset <= reached:
            queue.popleft()
        if not queue:
            del self.queues[key]
            self.consumer.pause([self.assigned[key]])
        elif reached is None or len(queue) < before:
            self.consumer.seek(self.assigned[key], queue[0].start_offset)

    def _stalled(self) -> str:
        (topic, number), queue = next(iter(self.queues.items()))
        return (
            f"Kafka didn't say within {_STALLED_S:.0f} s whether {topic}-{number} has a record from offset "
            f"{queue[0].start_offset} to before {queue[0].end_offset}, where no row was written. Nothing is published. "
            "A retry asks again."
        )
