"""Moving a group: plans where its committed offsets should go, partition by partition, and writes that.

A plan is a dry run: for each partition, it says where the group is, where it would go, and anything unexpected. An
offset outside the log is never replaced by the log's opposite end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import CommitRefusedError, ConfigurationError, OffsetsError, ResponseError, shorten
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets, GroupDescription
from airflow_kafka_offsets.offsets.answers.listed_offsets import OLDER_THAN_ASKED, ListedOffset, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import PartitionMap, SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec, SpecKind
from airflow_kafka_offsets.offsets.windows.boundaries import refuse_future
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

Target = OffsetSpec | FixedOffsets
"""Where a group goes: earliest, latest, the first record at or after an instant; or offsets such as a window's end."""
_SPECS = (SpecKind.EARLIEST, SpecKind.LATEST, SpecKind.TIMESTAMP)


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


@dataclass(frozen=True, slots=True)
class Resetter:
    """Moves one group.

    :param topics: all partitions of these topics. None for the topics of a window, else those that the group has
        commits on.
    :param isolation_level: decides which log end ``latest`` means.
    :param backwards: move commits back too; without it, those that are further already stay.
    """

    client: OffsetsClient
    group: str
    topics: Sequence[str] | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    backwards: bool = False

    def plan(self, target: Target) -> ResetPlan:
        """What a reset would write. Writes nothing.

        :raises OffsetsError: when a topic or the group's commits can't be fetched.
        :raises TopicChangedError: when a window belongs to another cluster, or a topic was re-created since.
        :raises ConfigurationError: when no topic is known, a window doesn't have one of the topics, or for another kind
            of offset than ``earliest``, ``latest`` and an instant.
        :raises InstantError: for an instant in the future.
        """
        if isinstance(target, OffsetSpec) and target.kind not in _SPECS:
            raise ConfigurationError(f"A group can go to earliest, latest or an instant, not to {target}.")
        if isinstance(target, OffsetSpec) and target.timestamp_ms is not None:
            refuse_future(target.timestamp_ms, now_ms(), "Name a past instant, or reset to latest.")
        metadata = self.client.topics(self._topics(target)).raise_for_errors()
        if isinstance(target, FixedOffsets):
            target.refuse_other_source(metadata.cluster_id, metadata.topic_ids)
        partitions = partitions_of(metadata)
        commits = self.client.committed_offsets({self.group: partitions}).lookup(self.group)
        assert commits is not None, "every group has an element"
        if commits.error is not None:
            raise OffsetsError("Fetching committed offsets", [(f"group {self.group}", commits.error)])
        extents = self.client.log_extents(partitions)
        if isinstance(target, FixedOffsets):
            places: Iterable[ListedOffset | SeenOffset] = target.seen
        else:
            places = self.client.list_offsets(partitions, target, isolation_level=self.isolation_level)
        plan = plan_reset(
            commits.offsets,
            extents,
            {TopicPartition.of(each): each for each in places},
            self.isolation_level,
            backwards=self.backwards,
            topic_ids={topic: known for topic, known in metadata.topic_ids.items() if known is not None},
        )
        return plan.with_epochs(self.client.own_epochs(plan.commits()))

    def _topics(self, target: Target) -> list[str]:
        if isinstance(target, FixedOffsets):
            strange = sorted(set(self.topics or ()) - set(target.names()))
            if strange:
                raise ConfigurationError(f"{target.source} doesn't have {', '.join(strange)}: leave those topics out.")
            return sorted(self.topics or target.names())
        if self.topics is not None:
            return sorted(self.topics)
        (found,) = self.client.committed_offsets({self.group: None}).raise_for_errors()
        if not len(found.offsets):
            self._refuse_unknown(
                self.describe(), "name its topics (--topics) and allow it with new_group (--new-group)"
            )
            raise ConfigurationError(f"Group {self.group} has no commits: name the topics to reset.")
        return sorted({each.topic for each in found.offsets})

    def execute(self, plan: ResetPlan, *, new_group: bool = False) -> None:
        """Write a plan.

        :param new_group: create the group when there is none of that name.
        :raises OffsetsError: when the plan has an error (nothing is written then), there is no such group, or Kafka
            refuses a partition: brokers from 4.1 on also if its topic was re-created since it was planned.
        :raises CommitRefusedError: when the group has active members, with their names.
        """
        plan.raise_for_errors()
        described = self.describe()
        why = members_of(described)
        if why:
            raise CommitRefusedError(
                f"Group {self.group} {why}, which own its commits. Stop them, wait until the group is empty, and try "
                "again."
            )
        if not new_group:
            self._refuse_unknown(described)
        self.client.commit_offsets(self.group, plan.commits(), topic_ids=plan.topic_ids).raise_for_errors()

    def describe(self) -> GroupDescription:
        """The group as it is now.

        :raises OffsetsError: when it can't be described.
        """
        (described,) = self.client.describe_groups([self.group]).raise_for_errors()
        return described

    def _refuse_unknown(self, described: GroupDescription, way: str = "allow it with new_group (--new-group)") -> None:
        if described.no_such_group:
            why = f"there is no such group: check its name; or, to create it, {way}"
            error = ResponseError("GROUP_ID_NOT_FOUND", 69, False, why)
            raise OffsetsError("Resetting offsets", [(f"group {self.group}", error)])


def members_of(described: GroupDescription) -> str:
    """Who else owns a group's commits now, in words; empty for a group without members."""
    if described.members:
        return f"has {len(described.members)} active members ({shorten(map(str, described.members))})"
    if described.may_have_members:
        return f"is a {described.kind} group ({described.state}) with active members, which can't be listed here"
    return ""
