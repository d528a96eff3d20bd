"""``airflow kafka-offsets lag``: how far groups are behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client
from airflow_kafka_offsets.cli.printing import Row, command, print_rows
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.lag import GroupLag, LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.specs import IsolationLevel


@command
def lag(args: Any) -> int:
    """A row a partition; a group without a partition to judge gets one row that says so."""
    if bool(args.groups) == args.all_groups:
        raise ConfigurationError("Name groups, or say --all-groups; one of the two. Write --topics after the groups.")
    with kafka_client(args) as client:
        groups = client.all_groups() if args.all_groups else args.groups
        level = IsolationLevel.of(args.isolation)
        lags = client.group_lags(groups, topics=args.topics, isolation_level=level, both_ends=True)
    print_rows([row for each in lags for row in _rows(each)], args.output)
    return 1 if any(each.total is None for each in lags) else 0


def _rows(lag: GroupLag) -> Iterator[Row]:
    if not len(lag.partitions):
        yield _row(lag.group, None, str(_group_status(lag)), None if lag.error is None else str(lag.error))
    for each in lag.partitions:
        yield _row(lag.group, each, str(each.status), None if each.error is None else str(each.error))


def _group_status(lag: GroupLag) -> LagStatus:
    if lag.unknown:
        return LagStatus.UNKNOWN_GROUP
    return LagStatus.NO_COMMIT if lag.never_committed else LagStatus.ERROR


def _row(group: str, lag: PartitionLag | None, status: str, error: str | None) -> Row:
    numbers = ("committed_offset", "log_start_offset", "high_watermark", "last_stable_offset", "lag")
    return {
        "group": group,
        "topic": lag and lag.topic,
        "partition": None if lag is None else lag.partition,
        **{name: None if lag is None else getattr(lag, name) for name in numbers},
        "status": status,
        "error": error,
    }
