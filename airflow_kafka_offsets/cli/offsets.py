"""``kafka-offsets list``, ``lag`` and ``reset``: leaders' answers to ListOffsets, the lag of groups, and moving one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client, stored_ledger
from airflow_kafka_offsets.cli.instants import place
from airflow_kafka_offsets.cli.ledger import named_windows
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_remark, print_rows, row_of
from airflow_kafka_offsets.cli.values import refuse_beside
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.left_to_read import Behind, age_of
from airflow_kafka_offsets.errors import ConfigurationError, shorten
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset
from airflow_kafka_offsets.offsets.answers.records import RecordAges
from airflow_kafka_offsets.offsets.instants import duration_text, iso_instant, now_ms
from airflow_kafka_offsets.offsets.lag import GroupLag, LagStatus
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.pipelines.resetter import ResetPlan, ResetStep, Resetter, Target, members_of

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
_RESET_COLUMNS = (
    *(_TOPIC, _PARTITION, Column("committed_offset", "committed"), Column("new_offset", "new")),
    *(Column("moves_by", "by"), Column("remark", folds=True, unless=(None,)), _ERROR),
)

Ages = dict[tuple[str, str, int], RecordAges]
"""How old the first unread record is, by group, topic and partition, where the lag is known."""


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
    _say_unknown(ages)
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
    return list(client.group_lags(groups, topics=args.topics, isolation_level=level))


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
        yield group | row_of(own, *_MEASURED) | {"age_s": _age_s(ages.get((lag.group, own.topic, own.partition)))}


def _status(lag: GroupLag) -> LagStatus:
    """The status of a group as a whole."""
    if lag.no_such_group:
        return LagStatus.UNKNOWN_GROUP
    return LagStatus.NO_COMMIT if lag.never_committed else LagStatus.ERROR


def _ages(client: OffsetsClient, lags: Iterable[GroupLag], level: IsolationLevel) -> Ages:
    """Read the first unread record of each partition that a group is behind on."""
    known = [(lag, own) for lag in lags for own in lag.partitions if own.lag is not None]
    behind = {(lag.group, own.topic, own.partition): Behind.of(own, lag.isolation_level) for lag, own in known}
    unread = {each.position for each in behind.values() if each.lag}
    records = client.first_records(unread, isolation_level=level)
    now = now_ms()
    return {key: age_of(each, records, now) if each.lag else RecordAges(0) for key, each in behind.items()}


def _say_unknown(ages: Ages) -> None:
    why = dict.fromkeys(each for age in ages.values() for each in age.unknown)
    if why:
        print_remark(f"the age of the first unread record is unknown on {shorten(why)}.")


def _age_s(age: RecordAges | None) -> float | None:
    return None if age is None or age.known_ms is None else age.known_ms / 1000


@command
def reset(args: Any) -> int:
    """Print one row per partition, and a line on stderr that says what was done."""
    target = _target(args)
    with kafka_client(args) as client:
        resetter = Resetter(client, args.group, args.topics, IsolationLevel.of(args.isolation), args.backwards)
        plan = resetter.plan(target)
        print_rows([_reset_row(step) for step in plan], args, _RESET_COLUMNS)
        if args.execute:
            resetter.execute(plan, new_group=args.new_group)
            print_remark(f"group {args.group}: commits on {len(plan.commits())} of {len(plan)} partitions written.")
        else:
            print_remark(f"nothing was changed: {_what_next(resetter, plan)}.")
    return 1 if len(plan.errors()) else 0


def _target(args: Any) -> Target:
    if (args.to is None) == (args.to_window is None):
        raise ConfigurationError("Say where the group goes with --to or --to-window: exactly one of them.")
    if args.to is not None:
        refuse_beside(args, "--to", "--at", "--ledger")
        return place(args.to)
    pipeline, colon, window = args.to_window.partition(":")
    if bool(colon) == (args.at is not None):
        raise ConfigurationError(
            f"--to-window takes PIPELINE:WINDOW, or PIPELINE with --at for the window at a time; not {args.to_window!r}"
            f"{' with --at' if args.at is not None else ' alone'}."
        )
    ledger = stored_ledger(args, pipeline)
    (name,) = named_windows(ledger, [window] if colon else [], [] if colon else [args.at])
    return FixedOffsets.of_window_end(ledger.pinned(ledger.window(name)).manifest)


def _what_next(resetter: Resetter, plan: ResetPlan) -> str:
    described = resetter.describe()
    if why := members_of(described):
        return f"the group {why}, which have to be stopped first"
    if len(plan.errors()):
        return "nor would --execute change anything, because some partitions are in error"
    if described.no_such_group:
        return "there is no such group: check its name, or create it by --execute with --new-group"
    return "add --execute to write this"


def _reset_row(step: ResetStep) -> Row:
    moved = None if None in (step.committed_offset, step.new_offset) else step.new_offset - step.committed_offset  # type: ignore[operator]
    row = row_of(step, "topic", "partition", "committed_offset", "new_offset") | {"moves_by": moved}
    return row | row_of(step, "leader_epoch") | {"remark": step.remark or None} | row_of(step, "error")
