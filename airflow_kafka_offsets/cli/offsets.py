"""``kafka-offsets list`` and ``lag``: partition leaders' answers to ListOffsets, and the lag of consumer groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client
from airflow_kafka_offsets.cli.instants import place
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_remark, print_rows, row_of
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError, shorten
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset
from airflow_kafka_offsets.offsets.answers.records import FirstRecords, ReadPosition, RecordAges
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.instants import duration_text, iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

_TOPIC = Column("topic", folds=True)
_PARTITION = Column("partition", "part")
_ERROR = Column("error", folds=True, unless=(None,))
_COLUMNS = (_TOPIC, _PARTITION, Column("offset"), Column("timestamp", unless=(None,)), Column("outcome"), _ERROR)
_AGE = Column("age_s", "age", unless=(None,), as_text=lambda age_s: duration_text(age_s) if age_s else "0 s")
_SEGMENT_COLUMNS = (_TOPIC, _PARTITION, Column("offsets", folds=True), _ERROR)
_MEASURED = (
    *("topic", "partition", "committed_offset", "leader_epoch", "metadata"),
    *("log_start_offset", "high_watermark", "last_stable_offset", "lag", "status", "error"),
)
"""A row's fields for a partition's lag."""
_SUM_COLUMNS = (
    Column("group", folds=True),
    Column("topic", folds=True, unless=(None,)),
    Column("partitions"),
    Column("lag"),
    Column("unknown", unless=(0,)),
    _AGE,
)

Ages = dict[tuple[str, str, int], float | None]
"""Seconds by group, topic and partition; 0 if nothing is left to read. None if nobody knows: the lag is unknown,
records were deleted before they were read, or the first one can't be read or has no timestamp of the past."""


@command
def list_offsets(args: Any) -> int:
    """Print one row per partition."""
    spec = place(args.at)
    with kafka_client(args) as client:
        partitions = _only(client.partitions_of(args.topics), args.partitions)
        if args.segments:
            return _list_segments(client, partitions, spec, args)
        listed = client.list_offsets(partitions, spec, isolation_level=IsolationLevel.of(args.isolation))
    print_rows([_row(offset) for offset in listed], args, _COLUMNS)
    return 1 if len(listed.errors()) else 0


def _row(listed: ListedOffset) -> Row:
    at_ms = listed.timestamp_ms
    return (
        row_of(listed, "topic", "partition", "offset", "timestamp_ms")
        | {"timestamp": None if at_ms is None else iso_instant(at_ms)}
        | row_of(listed, "leader_epoch", "outcome", "error")
    )


def _list_segments(client: OffsetsClient, partitions: list[TopicPartition], before: OffsetSpec, args: Any) -> int:
    if before.timestamp_ms is None and before not in (OffsetSpec.LATEST, OffsetSpec.EARLIEST):
        raise ConfigurationError("--segments takes --at latest, earliest, or an instant.")
    found = client.segment_offsets(partitions, before)
    rows = [row_of(segments, "topic", "partition", "offsets", "error") for segments in found]
    print_rows(rows, args, _SEGMENT_COLUMNS)
    return 1 if len(found.errors()) else 0


def _only(partitions: list[TopicPartition], wanted: Sequence[int] | None) -> list[TopicPartition]:
    if wanted is None:
        return partitions
    numbers = set(wanted)
    chosen = [key for key in partitions if key.partition in numbers]
    missing = numbers - {key.partition for key in chosen}
    if missing:
        raise ConfigurationError(f"None of these topics has a partition {shorten(map(str, sorted(missing)))}.")
    return chosen


@command
def measure_lag(args: Any) -> int:
    """Print one row per partition. A group without partitions, or with an error that none of its partitions has, gets a
    row of its own.
    """
    if bool(args.groups) == args.all_groups:
        raise ConfigurationError("Either name groups or pass --all-groups. Give --topics after the groups.")
    if args.zookeeper and (args.all_groups or not args.topics):
        raise ConfigurationError("--zookeeper needs groups and --topics by name: ZooKeeper's commits can't be listed.")
    level = IsolationLevel.of(args.isolation)
    with kafka_client(args) as client:
        lags = _lags(client, args, level)
        ages = _ages(client, lags, level) if args.age else {}
    for lag in lags:
        if lag.remark:
            print_remark(f"group {lag.group}: {lag.remark}")
    rows, columns = [row for lag in lags for row in _lag_rows(lag, ages)], _lag_columns(level)
    if args.by != "partition":
        rows, columns = _summed(rows, by_topic=args.by == "topic"), _SUM_COLUMNS
    if args.lag is not None:  # an unknown lag may be higher
        rows = [row for row in rows if row["lag"] is None or row["lag"] > args.lag]
    print_rows(rows, args, columns)
    return 1 if any(lag.total is None for lag in lags) else 0


def _summed(rows: Iterable[Row], *, by_topic: bool) -> list[Row]:
    """A row per group, or per group and topic. A sum is unknown while one of its parts is."""
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group"], row["topic"] if by_topic else None].append(row)
    return [
        {
            "group": group,
            "topic": topic,
            "partitions": sum(row["partition"] is not None for row in parts),
            "lag": None if unknown else sum(row["lag"] for row in parts),
            "unknown": unknown,
            "age_s": None if None in ages else max(ages),
        }
        for (group, topic), parts in found.items()
        for unknown, ages in [(sum(row["lag"] is None for row in parts), [row["age_s"] for row in parts])]
    ]


def _lags(client: OffsetsClient, args: Any, level: IsolationLevel) -> list[GroupLag]:
    if args.zookeeper:
        return _zookeeper_lags(client, args, level)
    groups = client.all_groups() if args.all_groups else args.groups
    return list(client.group_lags(groups, topics=args.topics, isolation_level=level, both_ends=True))


def _zookeeper_lags(client: OffsetsClient, args: Any, level: IsolationLevel) -> list[GroupLag]:
    partitions = client.partitions_of(args.topics)
    commits = [client.zookeeper_offsets(group, partitions) for group in args.groups]
    extents = client.log_extents(partitions)
    return [GroupLag(offsets, extents, isolation_level=level) for offsets in commits]


def _lag_columns(level: IsolationLevel) -> tuple[Column, ...]:
    """The columns, with the log end that the lag is measured by."""
    end = "last_stable_offset" if level is IsolationLevel.READ_COMMITTED else "high_watermark"
    return (
        Column("group", folds=True),
        Column("topic", folds=True, unless=(None,)),
        Column("partition", "part", unless=(None,)),
        Column("committed_offset", "committed", unless=(None,)),
        Column(end, "end", unless=(None,)),
        Column("lag"),
        Column("status"),
        _AGE,
        _ERROR,
    )


def _lag_rows(lag: GroupLag, ages: Ages) -> Iterator[Row]:
    group, errors = {"group": lag.group}, [own.error for own in lag.partitions]
    if not errors or (lag.error is not None and lag.error not in errors):
        error = None if lag.error is None else str(lag.error)
        yield group | dict.fromkeys((*_MEASURED, "age_s")) | {"status": str(_status(lag)), "error": error}
    for own in lag.partitions:
        yield group | row_of(own, *_MEASURED) | {"age_s": ages.get((lag.group, own.topic, own.partition))}


def _status(lag: GroupLag) -> LagStatus:
    """The status of a group as a whole."""
    if lag.no_such_group:
        return LagStatus.UNKNOWN_GROUP
    return LagStatus.NO_COMMIT if lag.never_committed else LagStatus.ERROR


def _ages(client: OffsetsClient, lags: Iterable[GroupLag], level: IsolationLevel) -> Ages:
    """Read the first unread record of each partition that a group is behind on."""
    partitions = {(lag.group, own.topic, own.partition): own for lag in lags for own in lag.partitions}
    records = client.first_records({_position(own) for own in partitions.values() if own.lag}, isolation_level=level)
    now = now_ms()
    return {key: _age_s(own, records, now) for key, own in partitions.items()}


def _age_s(own: PartitionLag, records: FirstRecords, now: int) -> float | None:
    if own.lag is None or own.lost:
        return None
    position = _position(own)
    if own.lag == 0 or records.nothing_before(position, position.offset + own.lag):
        return 0
    first = records.lookup(*position)
    if first is None or first.error is not None or first.missing_codec:
        return None
    age_ms = RecordAges.of([first], now).known_ms
    return None if age_ms is None else age_ms / 1000


def _position(own: PartitionLag) -> ReadPosition:
    """Where the group goes on reading."""
    return ReadPosition(own.topic, own.partition, max(own.committed_offset or 0, own.log_start_offset or 0))
