"""``airflow kafka-offsets list``: what leaders answer to ListOffsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client
from airflow_kafka_offsets.cli.printing import command, print_rows
from airflow_kafka_offsets.cli.tables import Column, Row
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset
from airflow_kafka_offsets.offsets.answers.logs import SegmentsOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

_TOPIC = Column("topic", folds=True)
_PARTITION = Column("partition", "part")
_ERROR = Column("error", folds=True, unless=(None,))
_COLUMNS = (_TOPIC, _PARTITION, Column("offset"), Column("timestamp_ms", unless=(None,)), Column("outcome"), _ERROR)
_SEGMENT_COLUMNS = (_TOPIC, _PARTITION, Column("offsets", folds=True), _ERROR)


@command
def list_offsets(args: Any) -> int:
    """A row a partition."""
    spec = OffsetSpec.parse(args.at)
    with kafka_client(args) as client:
        partitions = _only(client.partitions_of(args.topics), args.partitions)
        if args.segments:
            return _list_segments(client.segment_offsets(partitions, _before(spec)), args)
        listed = client.list_offsets(partitions, spec, isolation_level=IsolationLevel.of(args.isolation))
    print_rows([_row(each) for each in listed], args, _COLUMNS)
    return 1 if len(listed.errors()) else 0


def _list_segments(found: SegmentsOffsets, args: Any) -> int:
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offsets": list(each.offsets),
            "error": None if each.error is None else str(each.error),
        }
        for each in found
    ]
    print_rows(rows, args, _SEGMENT_COLUMNS)
    return 1 if len(found.errors()) else 0


def _before(spec: OffsetSpec) -> OffsetSpec:
    if spec.timestamp_ms is None and spec not in (OffsetSpec.LATEST, OffsetSpec.EARLIEST):
        raise ConfigurationError("--segments takes --at latest, earliest, or an instant.")
    return spec


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
