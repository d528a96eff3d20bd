"""Lag: how far a group's commits are behind the log, and what the number means.

The rules are those of franz-go's kadm, but keep cases apart that kadm combines: every number has a status, and a total
is None while any of its parts is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import ByGroup, CommittedOffset, GroupDescription, GroupOffsets
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import PartitionMap, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class LagStatus(StrEnum):
    """What a partition's lag means."""

    OK = "ok"
    """Lag is end offset minus committed offset; for a share group, what Kafka counts as not finished yet."""
    NO_COMMIT = "no_commit"
    """The group never committed here, or the commit expired (E18, E20): lag is counted from the log start."""
    BELOW_LOG_START = "below_log_start"
    """The commit points at deleted records: lag counts them, and ``lost`` says how many there are (E9)."""
    AHEAD_OF_LOG = "ahead_of_log"
    """The commit lies past the log end: the log was truncated, the topic re-created or the commit copied (E17). Lag is
    unknown."""
    LOG_TRUNCATED = "log_truncated"
    """The log was truncated below the commit and has grown past it again: other records are there now (S15). Lag is
    unknown."""
    UNKNOWN_GROUP = "unknown_group"
    """No such group: misspelt, deleted, or never started (E19). Lag is unknown."""
    ERROR = "error"
    """Kafka answered with an error; lag is unknown."""


class PartitionLag(NamedTuple):
    """The lag of one group on one partition, with everything that it was computed from.

    :param status: what ``lag`` means.
    :param lag: offsets between commit and log end; an upper bound on records when transactions or compaction leave gaps
        (E11). For a share group, Kafka's own count, up to the high watermark at any isolation level. None when unknown,
        never 0 for "don't know".
    :param committed_offset: next offset the group will read; for a share group, one before which it has finished
        all. None without a commit.
    :param leader_epoch: epoch committed with it (KIP-320); None when there is none.
    :param metadata: the committer's own text; may be empty.
    :param log_start_offset: first offset that still exists; None when unknown.
    :param high_watermark: end of the log under read_uncommitted; None when unknown or not requested.
    :param last_stable_offset: end of the log under read_committed; None when unknown or not requested.
    """

    topic: str
    partition: int
    status: LagStatus
    lag: int | None = None
    committed_offset: int | None = None
    leader_epoch: int | None = None
    metadata: str = ""
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    error: ResponseError | None = None

    def end_offset(self, isolation_level: IsolationLevel) -> int | None:
        """End of the log at that isolation level; None when unknown or not requested."""
        return self.last_stable_offset if isolation_level is _READ_COMMITTED else self.high_watermark

    @property
    def lost(self) -> int:
        """Number of offsets between the commit and the log start: deleted before the group read them. An upper bound
        for a share group, which may have finished some of them."""
        if self.status is not LagStatus.BELOW_LOG_START:
            return 0
        assert self.log_start_offset is not None and self.committed_offset is not None
        return self.log_start_offset - self.committed_offset


class PartitionLags(PartitionMap[PartitionLag]):
    """Lag by partition."""

    asked = "Measuring lag"


class GroupLag:
    """The lag of one group.

    Partitions are measured on first use, and the total is computed without them: a poll of a thousand groups mostly
    wants to know who is behind.

    :param commits: the group's commits, requested before the extents. Their error is the group's own, and leaves the
        lag of all partitions unknown.
    :param extents: all partitions to judge: every partition of every topic that the group touches, and any partition
        that it committed on and that no longer exists (in error, E25).
    :param error: why these may not be all the partitions that the group reads. The total is then unknown; the lags of
        the partitions aren't.
    :param description: kind, state and members of the group; None when nobody asked, because its topics were named and
        it has commits on them. An unknown group has no lag anywhere, whatever the logs hold.
    :param isolation_level: which end counts.
    """

    __slots__ = ("_commits", "_error", "_isolation_level", "_partitions", "description", "extents")

    def __init__(
        self,
        commits: GroupOffsets,
        extents: LogExtents,
        *,
        error: ResponseError | None = None,
        description: GroupDescription | None = None,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> None:
        self.description = description
        self._commits = commits
        self.extents = extents
        self._error = error
        self._isolation_level = isolation_level
        self._partitions: PartitionLags | None = None

    def __repr__(self) -> str:
        return f"GroupLag({self.group!r}, {self.total}, error={self.error!r}, {self.partitions!r})"

    @property
    def group(self) -> str:
        return self._commits.group

    @property
    def isolation_level(self) -> IsolationLevel:
        """Which end counts."""
        return self._isolation_level

    @property
    def topics(self) -> list[str]:
        """The topics that are judged, unordered."""
        return list({extent.topic for extent in self.extents})

    @property
    def error(self) -> ResponseError | None:
        """The error for the group; its total is then None. Partitions still have lags, unless the error is that of the
        commits: it is then the partitions' error too.
        """
        return self._commits.error or self._error

    @property
    def partitions(self) -> PartitionLags:
        if self._partitions is None:
            self._partitions = self._measure()
        return self._partitions

    def _measure(self) -> PartitionLags:
        level, error = self._isolation_level, self._commits.error
        if error is not None:
            failed = CommittedOffset("", -1, error=error)
            return PartitionLags(partition_lag(failed, extent, level) for extent in self.extents)
        lags = (partition_lag(*pair, level) for pair in self._pairs())
        if self.no_such_group:
            lags = (lag._replace(status=LagStatus.UNKNOWN_GROUP, lag=None) for lag in lags)
        return PartitionLags(lags)

    def _pairs(self) -> Iterator[tuple[CommittedOffset | None, LogExtent]]:
        """Commit and extent of each partition, unordered."""
        for topic, extents in self.extents.by_topic.items():
            commits = self._commits.offsets.by_topic.get(topic, {})
            for number, extent in extents.items():
                yield commits.get(number), extent

    def on(self, partitions: Iterable[TopicPartition]) -> GroupLag:
        """The same group, judged on some of its partitions only. Partitions that it wasn't judged on are left out."""
        return GroupLag(
            self._commits,
            self.extents.of_keys(partitions),
            error=self._error,
            description=self.description,
            isolation_level=self._isolation_level,
        )

    @property
    def no_such_group(self) -> bool:
        """Whether there is no such group on the cluster (E19)."""
        return self.error is None and self.description is not None and self.description.no_such_group

    @property
    def remark(self) -> str:
        """What the commits leave unknown although the lag is known, in words; may be empty."""
        return self._commits.remark()

    @property
    def never_committed(self) -> bool:
        """Whether the group exists but has committed nothing, and nobody named the topics to count on."""
        return self.error is not None and self.error.name == LagStatus.NO_COMMIT.name

    @property
    def total(self) -> int | None:
        """Sum over the partitions; None when the group or any partition is unknown or in error, or there are none."""
        if self.no_such_group or self.error is not None or not len(self.extents):
            return None
        total = 0
        stable = self._isolation_level is _READ_COMMITTED  # once, and not a call for each of very many partitions
        for commit, extent in self._pairs():
            offset = None if commit is None or commit.counted_lag is not None else commit.offset
            end = extent.last_stable_offset if stable else extent.high_watermark
            if commit is not None and commit.truncated_at is not None:
                return None
            if offset is not None and end is not None and offset <= end:
                total += end - offset  # also below the log start; elements in error have no offset or no end
                continue
            lag = partition_lag(commit, extent, self._isolation_level).lag
            if lag is None:
                return None
            total += lag
        return total


class GroupLags(ByGroup[GroupLag]):
    """The lag of several groups."""

    asked = "Measuring lag"


_NOTHING = CommittedOffset("", -1)
_READ_COMMITTED = IsolationLevel.READ_COMMITTED


def partition_lag(
    commit: CommittedOffset | None,
    extent: LogExtent,
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> PartitionLag:
    """The lag of one partition from its commit and its extent.

    :param commit: the group's commit; None, or an offset of None, means that it never committed.
    :param extent: the log's extent, requested *after* the commit, so that an ordinary race can't make lag negative
        (E16).
    :param isolation_level: which end counts: high watermark or last stable offset (E13).
    """
    commit = commit or _NOTHING
    error = commit.error or extent.error
    status, lag = (LagStatus.ERROR, None) if error else _measure(commit, extent, isolation_level)
    return PartitionLag(
        extent.topic,
        extent.partition,
        status,
        lag,
        commit.offset,
        commit.leader_epoch,
        commit.metadata,
        extent.log_start_offset,
        extent.high_watermark,
        extent.last_stable_offset,
        error,
    )


def _measure(
    commit: CommittedOffset, extent: LogExtent, isolation_level: IsolationLevel
) -> tuple[LagStatus, int | None]:
    committed = commit.offset
    start, end = extent.log_start_offset, extent.end_offset(isolation_level)
    assert start is not None and end is not None, "an extent without error has its start and the end that counts"
    if committed is None:
        return LagStatus.NO_COMMIT, max(0, end - start)  # the log may have been trimmed between the two answers
    if committed > end:  # one between last stable offset and high watermark is a read_uncommitted reader's
        assert extent.high_watermark is not None, "a commit past the end that counts is held against it"
        if extent.ends_before(committed):
            return LagStatus.AHEAD_OF_LOG, None
    if commit.truncated_at is not None:
        return LagStatus.LOG_TRUNCATED, None
    lag = max(0, end - committed) if commit.counted_lag is None else commit.counted_lag
    return (LagStatus.OK if committed >= start else LagStatus.BELOW_LOG_START), lag
