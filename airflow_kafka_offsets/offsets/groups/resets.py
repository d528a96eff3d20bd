"""Resets: where a group's commits should go, partition by partition, before anything is written.

A plan is a dry run: for each partition, it says where the group is, where it would go, and anything unexpected. An
offset outside the log is never replaced by the log's opposite end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import OLDER_THAN_ASKED, ListedOffset, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import PartitionMap, SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class ResetStep(NamedTuple):
    """What a reset does to one partition.

    :param committed_offset: the group's committed offset; None without a commit.
    :param new_offset: the committed offset after the reset; None when the commit stays as it is, or when in error.
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

    def to_listed(self, listed: ListedOffset, extent: LogExtent, isolation_level: IsolationLevel) -> ResetStep:
        """The step to what a leader answered: earliest, latest, or the first record at or after an instant.

        :param listed: the answer, requested after the extent: without a matching record, the earlier log end is used
            (E2).
        :param isolation_level: which log end that is.
        """
        if listed.error is not None:
            return self._replace(error=listed.error)
        if listed.outcome is ListOutcome.OLDER_THAN_ASKED:
            return self._replace(error=OLDER_THAN_ASKED)
        if listed.outcome is ListOutcome.NO_TIMESTAMPS:
            why = "none of the log's records has a timestamp, so no instant is before or after them"
            return self._replace(error=ResponseError("INVALID_TIMESTAMP", 32, False, why))
        if listed.offset is not None:
            return self.to(listed.offset, listed.leader_epoch)
        remark = f"no record at or after {listed.spec} ({listed.outcome}): the log's end"
        return self.to(extent.end_offset(isolation_level), extent.leader_epoch, remark)

    def to_seen(self, seen: SeenOffset | None, extent: LogExtent) -> ResetStep:
        """The step to an offset that the ledger has, or to the log start if its records are gone.

        :param seen: None for a partition that was added later, which starts at its log start.
        """
        start = extent.log_start_offset
        assert start is not None, "an extent without error has its start"
        if seen is None:
            return self.to(start, extent.leader_epoch, "a partition that was added later: the log start")
        if seen.offset < start:
            gone = f"{seen.offset} is {start - seen.offset} before the log start {start}"
            return self.to(start, extent.leader_epoch, gone)
        if extent.ends_before(seen.offset):
            why = f"the log ends at {extent.high_watermark}, before {seen.offset}: it was truncated"
            return self._replace(error=ResponseError("OFFSET_OUT_OF_RANGE", 1, False, why))
        return self.to(seen.offset, seen.leader_epoch)

    def forwards(self) -> ResetStep:
        """The step if it doesn't go back; else the commit stays."""
        if None in (self.committed_offset, self.new_offset) or self.new_offset >= self.committed_offset:  # type: ignore[operator]
            return self
        stays = f"stays at {self.committed_offset}: {self.new_offset} would be back"
        return self.to(None, None, "; ".join(filter(None, (stays, self.remark))))


class ResetPlan(PartitionMap[ResetStep]):
    """What a reset does, by partition.

    :param topic_ids: ids of the topics when it was planned, by name, as far as brokers have them.
    """

    asked = "Planning the reset"

    def __init__(self, elements: Iterable[ResetStep] = (), topic_ids: Mapping[str, str] | None = None) -> None:
        super().__init__(elements)
        self.topic_ids = topic_ids or {}

    def _of(self, elements: Iterable[ResetStep]) -> Self:
        return type(self)(elements, self.topic_ids)

    def commits(self) -> CommittedOffsets:
        """The commits to write."""
        return CommittedOffsets(
            CommittedOffset(step.topic, step.partition, step.new_offset, step.leader_epoch)
            for step in self
            if step.new_offset is not None
        )

    def with_epochs(self, commits: Iterable[CommittedOffset]) -> ResetPlan:
        """The plan with the offsets' own leader epochs, or why they aren't known.

        :param commits: :meth:`commits`, once the leaders were asked.
        """
        own = {TopicPartition.of(each): each for each in commits}
        return self._of(
            step
            if (each := own.get(TopicPartition.of(step))) is None
            else step._replace(new_offset=each.offset, leader_epoch=each.leader_epoch, error=each.error)
            for step in self
        )


def plan_reset(
    commits: CommittedOffsets,
    extents: LogExtents,
    places: Mapping[TopicPartition, ListedOffset | SeenOffset],
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    *,
    backwards: bool = False,
    topic_ids: Mapping[str, str] | None = None,
) -> ResetPlan:
    """A step for every partition whose log was asked.

    :param commits: the group's commits, requested first.
    :param extents: where the logs start and end, high watermark included, requested next.
    :param places: where to go: what leaders answered, requested last, or offsets that the ledger has.
    :param isolation_level: which log end stands for a record that there isn't.
    :param backwards: move commits back too; without it, those that are further already stay, unless they are past the
        log's end.
    """

    def step(extent: LogExtent) -> ResetStep:
        key = TopicPartition.of(extent)
        commit, place = commits.lookup(*key), places.get(key)
        error = (commit and commit.error) or extent.error
        start = ResetStep(*key, committed_offset=None if commit is None else commit.offset, error=error)
        if error is not None:
            return start
        if isinstance(place, ListedOffset):
            moved = start.to_listed(place, extent, isolation_level)
        else:
            moved = start.to_seen(place, extent)
        is_past_log = start.committed_offset is not None and extent.ends_before(start.committed_offset)
        return moved if backwards or is_past_log else moved.forwards()

    return ResetPlan(map(step, extents), topic_ids)
