"""Lag: how far a group's commits are behind the log, and what the number means.

The rules are those of franz-go's kadm, kept apart where kadm lets cases run together: a number comes with a status, and
a total is no number while one of its parts is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.committed import CommittedOffset, GroupOffsets
from airflow_kafka_offsets.offsets.extents import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import PartitionMap
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class LagStatus(StrEnum):
    """What a partition's lag means."""

    OK = "ok"
    """Lag is end offset minus committed offset."""
    NO_COMMIT = "no_commit"
    """The group never committed here, or the commit expired (E18, E20): lag counts from the log start."""
    BELOW_LOG_START = "below_log_start"
    """The commit points at deleted records: lag counts them, ``lost`` says how many they are (E9)."""
    AHEAD_OF_LOG = "ahead_of_log"
    """The commit lies past the log's end: truncated, re-created or copied (E17). Lag is unknown."""
    UNKNOWN_GROUP = "unknown_group"
    """No such group: misspelt, deleted, or never started (E19). Lag is unknown."""
    ERROR = "error"
    """Kafka answered with an error; lag is unknown."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of one group on one partition.

    :param topic: topic name.
    :param partition: partition number.
    :param status: what ``lag`` means.
    :param lag: offsets between commit and log end; an upper bound on records where transactions or compaction leave
        gaps (E11). None when unknown, never 0 for "don't know".
    :param committed_offset: next offset the group will read; None without a commit.
    :param log_start_offset: first offset that still exists; None when unknown.
    :param high_watermark: end of the log under read_uncommitted; None when unknown.
    :param last_stable_offset: end of the log under read_committed; None when unknown.
    :param error: Kafka's error for this partition.
    """

    topic: str
    partition: int
    status: LagStatus
    lag: int | None = None
    committed_offset: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    error: ResponseError | None = None

    @property
    def lost(self) -> int:
        """Offsets between the commit and the log start: deleted before the group read them."""
        if self.status is not LagStatus.BELOW_LOG_START:
            return 0
        assert self.log_start_offset is not None and self.committed_offset is not None
        return self.log_start_offset - self.committed_offset


class PartitionLags(PartitionMap[PartitionLag]):
    """Lag by partition."""

    asked = "Measuring lag"
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of one group.

    :param group: group id.
    :param partitions: lag by partition.
    :param unknown: there is no such group on the cluster.
    :param error: Kafka's error for the group as a whole; its partitions' lag is then unknown.
    """

    group: str
    partitions: PartitionLags = field(default_factory=PartitionLags)
    unknown: bool = False
    error: ResponseError | None = None

    @property
    def never_committed(self) -> bool:
        """The group exists, has committed nothing, and nobody named the topics to count on."""
        return self.error is not None and self.error.name == LagStatus.NO_COMMIT.name

    @property
    def total(self) -> int | None:
        """Sum over the partitions; None while the group or any partition is unknown or in error, or there is none."""
        if self.unknown or self.error is not None or not len(self.partitions):
            return None
        lags = [each.lag for each in self.partitions]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    def worst(self, count: int = 3) -> list[PartitionLag]:
        """The partitions furthest behind, unknown ones first."""
        ranked = sorted(self.partitions, key=lambda each: (each.lag is not None, -(each.lag or 0)))
        return ranked[:count]

    def with_status(self, *statuses: LagStatus) -> list[PartitionLag]:
        """The partitions with one of these statuses, in order."""
        return [each for each in self.partitions if each.status in statuses]


class GroupLags:
    """The lag of several groups; iterates by group id."""

    __slots__ = ("_groups",)

    def __init__(self, groups: Iterable[GroupLag] = ()) -> None:
        self._groups = {each.group: each for each in groups}

    def __iter__(self) -> Iterator[GroupLag]:
        return (self._groups[name] for name in sorted(self._groups))

    def __len__(self) -> int:
        return len(self._groups)

    def lookup(self, group: str) -> GroupLag | None:
        """One group's lag; None when it wasn't asked for."""
        return self._groups.get(group)


def partition_lag(
    commit: CommittedOffset | None, extent: LogExtent, isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> PartitionLag:
    """The lag of one partition from its commit and its extent.

    :param commit: what the group committed; None or an offset of None means never.
    :param extent: the log's extent, asked *after* the commit, so that an ordinary race can't make lag negative (E16).
    :param isolation_level: which end counts: high watermark or last stable offset (E13).
    """
    error = (commit.error if commit else None) or extent.error
    committed_offset = commit.offset if commit else None
    status, lag = (
        (LagStatus.ERROR, None) if error else _measure(committed_offset, extent, extent.end_offset(isolation_level))
    )
    return PartitionLag(
        topic=extent.topic,
        partition=extent.partition,
        status=status,
        lag=lag,
        committed_offset=committed_offset,
        log_start_offset=extent.log_start_offset,
        high_watermark=extent.high_watermark,
        last_stable_offset=extent.last_stable_offset,
        error=error,
    )


def _measure(committed: int | None, extent: LogExtent, end: int | None) -> tuple[LagStatus, int | None]:
    start, high_watermark = extent.log_start_offset, extent.high_watermark
    assert start is not None and end is not None and high_watermark is not None, "an extent without error is complete"
    if committed is None:
        return LagStatus.NO_COMMIT, end - start
    if committed > high_watermark:
        return LagStatus.AHEAD_OF_LOG, None
    if committed < start:
        return LagStatus.BELOW_LOG_START, max(0, end - committed)
    return LagStatus.OK, max(0, end - committed)


def group_lag(
    commits: GroupOffsets,
    extents: LogExtents,
    *,
    unknown: bool = False,
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> GroupLag:
    """The lag of one group over every partition in ``extents``.

    :param commits: the group's commits, asked before the extents.
    :param extents: all partitions to judge: every partition of every topic that the group touches, and any it committed
        on that no longer exists (in error, E25).
    :param unknown: the cluster knows no such group.
    """
    if unknown or commits.error is not None:
        status = LagStatus.UNKNOWN_GROUP if unknown else LagStatus.ERROR
        lags = (_without_commits(extent, status, commits.error) for extent in extents)
    else:
        lags = (
            partition_lag(commits.offsets.lookup(extent.topic, extent.partition), extent, isolation_level)
            for extent in extents
        )
    return GroupLag(commits.group, PartitionLags(lags), unknown=unknown, error=commits.error)


def _without_commits(extent: LogExtent, status: LagStatus, error: ResponseError | None) -> PartitionLag:
    return PartitionLag(
        topic=extent.topic,
        partition=extent.partition,
        status=status,
        log_start_offset=extent.log_start_offset,
        high_watermark=extent.high_watermark,
        last_stable_offset=extent.last_stable_offset,
        error=error or extent.error,
    )
