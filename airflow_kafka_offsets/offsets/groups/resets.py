"""Resets: where a group's commits should go, partition by partition, before anything is written.

A plan is a dry run: for each partition, it says where the group is, where it would go, and anything unexpected. An
offset outside the log is never replaced by the log's opposite end: a shift that underflows stops at the log start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import OLDER_THAN_ASKED, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import PartitionMap, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary


class ResetStep(NamedTuple):
    """What a reset does to one partition.

    :param committed_offset: the group's committed offset; None without a commit.
    :param new_offset: the committed offset after the reset; None when the commit would be deleted, or when in error.
    :param leader_epoch: the leader epoch that the new offset was seen under; once leaders were asked, its own, which is
        committed with it. None if unknown, and never that of the old commit (E34).
    :param remark: anything unexpected; may be empty.
    :param error: why there is no new offset. A plan with an error is not carried out.
    """

    topic: str
    partition: int
    committed_offset: int | None = None
    new_offset: int | None = None
    leader_epoch: int | None = None
    remark: str = ""
    error: ResponseError | None = None

    def to(self, offset: int | None, leader_epoch: int | None, remark: str = "") -> ResetStep:
        """The step to an offset, with the leader epoch that it was seen under."""
        return self._replace(new_offset=offset, leader_epoch=leader_epoch, remark=remark)

    def refused(self, name: str, code: int, why: str) -> ResetStep:
        return self._replace(error=ResponseError(name, code, False, why))


class ResetPlan(PartitionMap[ResetStep]):
    """What a reset does, by partition."""

    asked = "Planning the reset"

    def commits(self) -> CommittedOffsets:
        """The commits to write."""
        return CommittedOffsets(
            CommittedOffset(step.topic, step.partition, step.new_offset, step.leader_epoch)
            for step in self
            if step.new_offset is not None
        )

    def with_epochs(self, commits: CommittedOffsets) -> ResetPlan:
        """The plan with the offsets' own leader epochs, or why they aren't known.

        :param commits: :meth:`commits`, once the leaders were asked.
        """
        told = (
            self._step_of(commit)._replace(
                new_offset=commit.offset, leader_epoch=commit.leader_epoch, error=commit.error
            )
            for commit in commits
        )
        return ResetPlan([*self, *told])

    def _step_of(self, commit: CommittedOffset) -> ResetStep:
        step = self.lookup(commit.topic, commit.partition)
        assert step is not None, "commits are those of the plan"
        return step

    def deletions(self) -> list[TopicPartition]:
        """The partitions whose commits are to be deleted."""
        return [TopicPartition.of(step) for step in self if step.new_offset is None]


class Aim(Protocol):
    """Where a reset goes."""

    def step(self, step: ResetStep, extent: LogExtent) -> ResetStep:
        """Fill in the new offset of one partition, or why there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ToListed:
    """To what leaders answered: earliest, latest, or the first record at or after an instant.

    :param listed: the answers, requested after the extents: without a matching record, the earlier log end is used
        (E2).
    :param isolation_level: which log end that is.
    """

    listed: ListedOffsets
    isolation_level: IsolationLevel

    def step(self, step: ResetStep, extent: LogExtent) -> ResetStep:
        answer = self.listed.lookup(step.topic, step.partition)
        assert answer is not None, "every partition of the plan was asked for"
        if answer.error is not None:
            return step._replace(error=answer.error)
        if answer.outcome is ListOutcome.OLDER_THAN_ASKED:
            return step._replace(error=OLDER_THAN_ASKED)
        if answer.outcome is ListOutcome.NO_TIMESTAMPS:
            why = "none of the log's records has a timestamp, so no instant is before or after them; choose an offset"
            return step.refused("INVALID_TIMESTAMP", 32, why)
        if answer.offset is not None:
            return step.to(answer.offset, answer.leader_epoch)
        remark = f"no record at or after {answer.spec} ({answer.outcome}): the log's end"
        return step.to(extent.end_offset(self.isolation_level), extent.leader_epoch, remark)


@dataclass(frozen=True, slots=True)
class ByShift:
    """Forward or backward from the group's committed offset, but never out of the log.

    :param by: number of offsets; negative goes back.
    :param doubts: why a commit may belong to another log than the present one, by partition. These aren't shifted.
    """

    by: int
    doubts: Mapping[TopicPartition, str] = field(default_factory=dict)

    def step(self, step: ResetStep, extent: LogExtent) -> ResetStep:
        if step.committed_offset is None:
            return step.refused("NO_COMMIT", -1, "there is no commit to shift")
        doubt = self.doubts.get(TopicPartition.of(step))
        if doubt is not None:
            return step.refused("LOG_TRUNCATED", 75, f"{doubt}; instead of a shift, choose a place in the present log")
        if extent.ends_before(step.committed_offset):
            why = f"the group committed {step.committed_offset}, past the log's end {extent.high_watermark}: in another"
            return step.refused("OFFSET_OUT_OF_RANGE", 1, f"{why} log; instead of a shift, choose a place in this one")
        return _kept_in_log(step, step.committed_offset + self.by, extent)


@dataclass(frozen=True, slots=True)
class ToOffset:
    """To one offset, which must lie in the log of each partition."""

    offset: int

    def step(self, step: ResetStep, extent: LogExtent) -> ResetStep:
        kept = _kept_in_log(step, self.offset, extent)
        return step.refused("OFFSET_OUT_OF_RANGE", 1, kept.remark) if kept.remark else kept


@dataclass(frozen=True, slots=True)
class ToSnapshot:
    """To a stored snapshot, or to the log start if its records are gone.

    :param boundaries: the snapshot's boundaries, by partition. Partitions that it lacks were added later, and start at
        their log start.
    """

    boundaries: Mapping[TopicPartition, Boundary]

    def step(self, step: ResetStep, extent: LogExtent) -> ResetStep:
        known = self.boundaries.get(TopicPartition.of(step))
        if known is None:
            return step.to(extent.log_start_offset, extent.leader_epoch, "not in the snapshot: the log start")
        kept = _kept_in_log(step, known.offset, extent)
        return kept if kept.remark else kept.to(known.offset, known.leader_epoch)


class ToNothing:
    """To no commit at all: the group starts as if it were new."""

    def step(self, step: ResetStep, extent: LogExtent) -> ResetStep:
        return step


def _kept_in_log(step: ResetStep, offset: int, extent: LogExtent) -> ResetStep:
    """Go to an offset, or to the nearest end of the log."""
    start, end = extent.log_start_offset, extent.high_watermark
    assert start is not None and end is not None, "an extent without error has both"
    if offset < start:
        return step.to(start, extent.leader_epoch, f"{offset} is {start - offset} before the log start {start}")
    if offset > end:
        return step.to(end, extent.leader_epoch, f"{offset} is {offset - end} past the log's end {end}")
    return step.to(offset, extent.leader_epoch)


def doubts_of(commits: CommittedOffsets, marked: CommittedOffsets) -> dict[TopicPartition, str]:
    """The partitions whose commits may belong to another log than the present one, and why.

    :param commits: the commits as Kafka has them.
    :param marked: the same commits, after leaders were asked whether logs were truncated below them.
    """
    found = {}
    for commit in marked:
        key = TopicPartition.of(commit)
        before = commits.lookup(*key)
        if commit.truncated_at is not None:
            found[key] = f"the log was truncated at {commit.truncated_at} since the group committed {commit.offset}"
        elif commit.error is not None and (before is None or before.error is None):
            found[key] = str(commit.error)
    return found


def plan_reset(
    partitions: Iterable[TopicPartition], commits: CommittedOffsets, extents: LogExtents, aim: Aim
) -> ResetPlan:
    """A step for every partition.

    :param commits: the group's commits, requested first.
    :param extents: where the logs start and end, high watermark included, requested next.
    """

    def step(piece: TopicPartition) -> ResetStep:
        commit, extent = commits.lookup(*piece), extents.lookup(*piece)
        assert extent is not None, "every partition of the plan was asked for"
        error = (commit and commit.error) or extent.error
        start = ResetStep(*piece, committed_offset=None if commit is None else commit.offset, error=error)
        return start if error is not None else aim.step(start, extent)

    return ResetPlan(map(step, partitions))
