"""``airflow kafka-offsets list``: what leaders answer to ListOffsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client
from airflow_kafka_offsets.cli.printing import Row, command, print_rows
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.listed import ListedOffset
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec


@command
def list_offsets(args: Any) -> int:
    """A row a partition."""
    spec = OffsetSpec.parse(args.at)
    with kafka_client(args) as client:
        partitions = _only(client.partitions_of(args.topics), args.partitions)
        listed = client.list_offsets(partitions, spec, isolation_level=IsolationLevel.of(args.isolation))
    print_rows([_row(each) for each in listed], args.output)
    return 1 if len(listed.errors()) else 0


def _only(partitions: list[TopicPartition], wanted: Sequence[int] | None) -> list[TopicPartition]:
    if wanted is None:
        return partitions
    chosen = [each for each in partitions if each.partition in wanted]
    missing = set(wanted) - {each.partition for each in chosen}
    if missing:
        raise ConfigurationError(f"There is no partition {', '.join(map(str, sorted(missing)))} in the topics named.")
    return chosen


def _row(each: ListedOffset) -> Row:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "offset": each.offset,
        "timestamp_ms": each.timestamp_ms,
        "leader_epoch": each.leader_epoch,
        "outcome": str(each.outcome),
        "error": None if each.error is None else str(each.error),
    }
