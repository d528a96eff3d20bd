"""Committed offsets: what groups have recorded as read (OffsetFetch, key 9; OffsetCommit, key 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from airflow_kafka_offsets.errors import LogTruncatedError, ResponseError, shorten
from airflow_kafka_offsets.offsets.answer_set import ByGroup
from airflow_kafka_offsets.offsets.answers.log_extents import LogExtents
from airflow_kafka_offsets.offsets.partitions import PartitionMap, TopicPartition


class CommittedOffset(NamedTuple):
    """What a group has committed on one partition.

    :param topic: topic name.
    :param partition: partition number.
    :param offset: next offset to read; None when the group never committed here or the commit expired.
    :param leader_epoch: epoch that was committed with it (v5+, KIP-320): of the last batch read, or a newer one; None
        when there is none.
    :param metadata: the committer's own words; may be empty.
    :param error: Kafka's error for this partition alone; its offset is then None.
    :param cut_at: where an unclean election cut the log below the commit, though it may have grown past it since; None
        where it didn't, where nobody can tell, and where nobody has asked the leader.
    """

    topic: str
    partition: int
    offset: int | None = None
    leader_epoch: int | None = None
    metadata: str = ""
    error: ResponseError | None = None
    cut_at: int | None = None


class CommittedOffsets(PartitionMap[CommittedOffset]):
    """Committed offsets by partition."""

    asked = "Fetching committed offsets"
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The commits of one group.

    :param group: group id.
    :param offsets: commits by partition. Empty for a group that is unknown or never committed: OffsetFetch can't tell
        which (E19); a description of the group can.
    :param error: Kafka's error for the group as a whole; ``offsets`` is then empty.
    """

    group: str
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    error: ResponseError | None = None

    @property
    def has_commits(self) -> bool:
        """Whether the group has committed anywhere, or can't say."""
        return self.error is not None or any(each.offset is not None or each.error for each in self.offsets.unordered())


class GroupsOffsets(ByGroup[GroupOffsets]):
    """The commits of several groups."""

    asked = "Fetching committed offsets"
    __slots__ = ()

    def raise_for_errors(self) -> Self:
        """Return self when every group and every partition is good.

        :raises OffsetsError: naming the groups, or else the partitions, in error.
        """
        super().raise_for_errors()
        for each in self:
            each.offsets.raise_for_errors()
        return self


def refuse_cut_commits(commits: CommittedOffsets, group: str, way: str = "") -> None:
    """Refuse to go by commits of a log that was cut below them, though it has grown past them again (S15).

    :param way: what else may be done, added to the advice.
    :raises LogTruncatedError: naming partitions, and where they were cut.
    """
    cut = [
        f"{each.topic}-{each.partition} was cut at {each.cut_at}, below {each.offset}"
        for each in commits
        if each.cut_at is not None
    ]
    if cut:
        raise LogTruncatedError(
            f"Logs were truncated after group {group} had committed, and hold other records now: {shorten(cut)}. A "
            "replica that was behind leads now (unclean leader election). Nothing was written. Decide where the "
            f"group is to go on, and move it there by airflow kafka-offsets reset{way}."
        )


def refuse_commits_past_end(commits: CommittedOffsets, extents: LogExtents, group: str) -> None:
    """Refuse to go by commits that lie past their logs' ends: they are of other logs (E17).

    :param extents: the logs, asked after the commits.
    :raises LogTruncatedError: naming partitions, and where their logs end.
    """
    past = [
        f"{each.topic}-{each.partition} ends at {extent.high_watermark}, below {each.offset}"
        for each in commits
        if each.offset is not None
        and (extent := extents.lookup(each.topic, each.partition)) is not None
        and extent.high_watermark is not None
        and extent.high_watermark < each.offset
    ]
    if past:
        raise LogTruncatedError(
            f"Group {group} has committed past the end of logs: {shorten(past)}. Its commits are of another log: the "
            "topic was made again, the log was cut, or they were copied. Nothing was written. Decide where the group "
            "is to go on, and move it there by airflow kafka-offsets reset."
        )


def lies_ahead(commits: Mapping[TopicPartition, int], partition: TopicPartition, offset: int) -> bool:
    """Whether a reader has still to come to an offset.

    :param commits: how far it has come; a partition that it hasn't begun is absent, and all of it lies ahead.
    """
    committed = commits.get(partition)
    return committed is None or committed < offset
