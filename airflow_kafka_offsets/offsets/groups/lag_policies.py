"""Lag policies: which partitions of a group count in a wait, and what they count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.partitions import TopicPartition

NoCommit = Literal["from_log_start", "wait", "ignore"]
"""What a partition without a commit counts (E18)."""


class Behind(NamedTuple):
    """A partition that a group is behind on.

    :param position: where it would go on reading.
    :param lag: offsets between there and the end.
    :param lost: how many offsets were deleted before it read them; they are part of its lag (E9).
    """

    position: ReadPosition
    lag: int
    lost: int = 0

    @property
    def end_offset(self) -> int:
        """The end that its lag was measured to."""
        return self.position.offset + self.lag - self.lost

    def __str__(self) -> str:
        return f"{self.position.topic}-{self.position.partition}"


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """Where a group stands.

    :param behind: the partitions that it is behind on.
    :param ahead: partitions where its commit lies past the log's end (E17); its total is unknown then.
    :param cut: partitions whose log was cut below its commit, and has grown again; its total is unknown then.
    :param uncommitted: partitions that count, and that it never committed on.
    :param why_unknown: why its total isn't known, in words; empty when it is.
    """

    group: str
    behind: tuple[Behind, ...] = ()
    ahead: tuple[TopicPartition, ...] = ()
    cut: tuple[TopicPartition, ...] = ()
    uncommitted: int = 0
    why_unknown: str = ""

    @property
    def total(self) -> int | None:
        """Offsets that it is behind; None when unknown."""
        return None if self.why_unknown else sum(partition.lag for partition in self.behind)

    @property
    def lost(self) -> int:
        """Offsets that were deleted before it read them."""
        return sum(partition.lost for partition in self.behind)

    def without(self, cleared: Iterable[Behind]) -> GroupStanding:
        """The same without partitions that turned out to have nothing left to read."""
        gone = set(cleared)
        return replace(self, behind=tuple(partition for partition in self.behind if partition not in gone))


def judge_group(lag: GroupLag, *, no_commit: NoCommit, only_read: bool) -> GroupStanding:
    """Apply the policies.

    :param only_read: leave out topics that no member reads (E22), as long as there are members and all their topics are
        told.
    :raises OffsetsError: when the group or a partition that counts is in error.
    """
    if lag.unknown:
        return GroupStanding(lag.group, why_unknown="doesn't exist yet")
    if lag.never_committed:
        return GroupStanding(lag.group, why_unknown="has committed nothing yet")
    if lag.error is not None:
        raise OffsetsError("Measuring lag", [(f"group {lag.group}", lag.error)])
    if lag.total == 0 and no_commit == "from_log_start":
        return GroupStanding(
            lag.group
        )  # and none of its partitions need be looked at, which is most polls of most groups
    return _judge_partitions(lag.group, _counting(lag, only_read), no_commit)


def _counting(lag: GroupLag, only_read: bool) -> list[PartitionLag]:
    members = lag.description if only_read else None
    read = set() if members is None or members.untold else members.topics()
    return [partition for partition in lag.partitions if not read or partition.topic in read]


def _with_status(partitions: Iterable[PartitionLag], status: LagStatus) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition.of(partition) for partition in partitions if partition.status is status)


def _judge_partitions(group: str, partitions: list[PartitionLag], no_commit: NoCommit) -> GroupStanding:
    failures = [
        (f"group {group} on {partition.topic}-{partition.partition}", partition.error)
        for partition in partitions
        if partition.error
    ]
    if failures:
        raise OffsetsError("Measuring lag", failures)
    ahead = _with_status(partitions, LagStatus.AHEAD_OF_LOG)
    cut = _with_status(partitions, LagStatus.LOG_TRUNCATED)
    uncommitted = [partition for partition in partitions if partition.status is LagStatus.NO_COMMIT]
    if not partitions:
        why = "has members that read no partition"
    elif ahead:
        why = f"has committed past the log's end on {ahead[0]}"
    elif cut:
        why = f"has a commit on {cut[0]}, whose log was truncated below it"
    elif no_commit == "wait" and uncommitted:
        first = uncommitted[0]
        why = f"has no commit on {len(uncommitted)} partitions, {first.topic}-{first.partition} for one"
    elif no_commit == "ignore" and len(uncommitted) == len(partitions):
        why = "has committed nothing yet"
    else:
        why = ""
    counted = (
        partition for partition in partitions if partition.status is not LagStatus.NO_COMMIT or no_commit != "ignore"
    )
    behind = tuple(_behind(partition) for partition in counted if partition.lag)
    return GroupStanding(group, behind, ahead, cut, 0 if no_commit == "ignore" else len(uncommitted), why)


def _behind(partition: PartitionLag) -> Behind:
    assert partition.lag is not None and partition.log_start_offset is not None, (
        "a partition with a lag has its log start"
    )
    committed = partition.committed_offset
    start = partition.log_start_offset if committed is None else max(committed, partition.log_start_offset)
    return Behind(ReadPosition(partition.topic, partition.partition, start), partition.lag, partition.lost)
