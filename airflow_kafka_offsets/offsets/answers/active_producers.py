"""Producers: who writes to a partition with sequence numbers, and whose transaction is open there (DescribeProducers).

An open transaction holds the last stable offset; one whose producer is gone holds it until it times out, or for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap, TopicPartition


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """An idempotent or transactional producer that the partition's leader remembers.

    :param producer_id: the id that the cluster gave it.
    :param producer_epoch: epoch of that id.
    :param last_timestamp_ms: timestamp of what it wrote last, Unix milliseconds; None when it wrote nothing.
    :param transaction_start_offset: first offset of its open transaction; None when none is open here.
    """

    producer_id: int
    producer_epoch: int
    last_timestamp_ms: int | None = None
    transaction_start_offset: int | None = None


class PartitionProducers(NamedTuple):
    """The producers of one partition.

    :param topic: topic name.
    :param partition: partition number.
    :param producers: in order of their ids.
    :param error: Kafka's error for this partition alone.
    """

    topic: str
    partition: int
    producers: tuple[ActiveProducer, ...] = ()
    error: ResponseError | None = None

    @property
    def open_transactions(self) -> list[ActiveProducer]:
        """The producers with an open transaction, oldest first: the first of them holds the last stable offset."""
        holding = [each for each in self.producers if each.transaction_start_offset is not None]
        return sorted(holding, key=lambda each: each.transaction_start_offset or 0)


class Producers(PartitionMap[PartitionProducers]):
    """Producers by partition."""

    asked = "Describing producers"
    __slots__ = ()


def holder_text(partition: TopicPartition, producers: Producers) -> str:
    """A partition, and in words whose open transaction holds its last stable offset."""
    found = producers.lookup(*partition)
    if found is None or not found.open_transactions:
        return str(partition)
    holder = found.open_transactions[0]
    return (
        f"{partition} from offset {holder.transaction_start_offset} on, by the open transaction of producer "
        f"{holder.producer_id} (epoch {holder.producer_epoch})"
    )
