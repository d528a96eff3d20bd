"""``airflow kafka-offsets lag``: how far groups are behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client
from airflow_kafka_offsets.cli.printing import command, print_rows
from airflow_kafka_offsets.cli.tables import Column, Row
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_MEASURED = (
    *("committed_offset", "leader_epoch", "metadata"),
    *("log_start_offset", "high_watermark", "last_stable_offset", "lag"),
)
"""Fields of a partition's lag, as rows have them."""


@command
def lag(args: Any) -> int:
    """A row a partition. What is wrong with a group and with none of its partitions gets a row of its own; so does a
    group without a partition to judge.
    """
    if bool(args.groups) == args.all_groups:
        raise ConfigurationError("Name groups, or say --all-groups; one of the two. Write --topics after the groups.")
    if args.zookeeper and (args.all_groups or not args.topics):
        raise ConfigurationError("--zookeeper takes groups and --topics by name: ZooKeeper's commits can't be listed.")
    level = IsolationLevel.of(args.isolation)
    with kafka_client(args) as client:
        if args.zookeeper:
            lags = _zookeeper_lags(client, args, level)
        else:
            groups = client.all_groups() if args.all_groups else args.groups
            lags = list(client.group_lags(groups, topics=args.topics, isolation_level=level, both_ends=True))
    print_rows([row for each in lags for row in _rows(each)], args, _columns(level))
    return 1 if any(each.total is None for each in lags) else 0


def _zookeeper_lags(client: OffsetsClient, args: Any, level: IsolationLevel) -> list[GroupLag]:
    partitions = client.partitions_of(args.topics)
    commits = [client.zookeeper_offsets(each, partitions) for each in args.groups]
    extents = client.log_extents(partitions)
    return [GroupLag(each, extents, isolation_level=level) for each in commits]


def _columns(level: IsolationLevel) -> tuple[Column, ...]:
    """The end is that by which the lag is measured."""
    end = "last_stable_offset" if level is IsolationLevel.READ_COMMITTED else "high_watermark"
    return (
        Column("group", folds=True),
        Column("topic", folds=True, unless=(None,)),
        Column("partition", "part", unless=(None,)),
        Column("committed_offset", "committed", unless=(None,)),
        Column(end, "end", unless=(None,)),
        Column("lag"),
        Column("status"),
        Column("error", folds=True, unless=(None,)),
    )


def _rows(lag: GroupLag) -> Iterator[Row]:
    errors = [each.error for each in lag.partitions]
    if not errors or (lag.error is not None and lag.error not in errors):
        yield _row(lag.group, None, str(_group_status(lag)), None if lag.error is None else str(lag.error))
    for each in lag.partitions:
        yield _row(lag.group, each, str(each.status), None if each.error is None else str(each.error))


def _group_status(lag: GroupLag) -> LagStatus:
    if lag.unknown:
        return LagStatus.UNKNOWN_GROUP
    return LagStatus.NO_COMMIT if lag.never_committed else LagStatus.ERROR


def _row(group: str, lag: PartitionLag | None, status: str, error: str | None) -> Row:
    return {
        "group": group,
        "topic": lag and lag.topic,
        "partition": None if lag is None else lag.partition,
        **{name: None if lag is None else getattr(lag, name) for name in _MEASURED},
        "status": status,
        "error": error,
    }
