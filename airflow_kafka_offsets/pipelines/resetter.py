"""Moving a group: plans where its committed offsets should go, and writes that. Below the Airflow classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.errors import CommitRefusedError, ConfigurationError, OffsetsError, ResponseError, shorten
from airflow_kafka_offsets.offsets.answers.groups import GroupDescription
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset
from airflow_kafka_offsets.offsets.groups.resets import ResetPlan, plan_reset
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec, SpecKind
from airflow_kafka_offsets.offsets.windows.boundaries import refuse_future
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

Target = OffsetSpec | FixedOffsets
"""Where a group goes: earliest, latest, the first record at or after an instant; or offsets such as a window's end."""
_SPECS = (SpecKind.EARLIEST, SpecKind.LATEST, SpecKind.TIMESTAMP)


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
        _refuse_target(target)
        metadata = self.client.topics(self._topics(target)).raise_for_errors()
        if isinstance(target, FixedOffsets):
            target.refuse_other_source(metadata.cluster_id, metadata.topic_ids)
        partitions = partitions_of(metadata)
        commits = self.client.committed_offsets({self.group: partitions}).lookup(self.group)
        assert commits is not None, "every group has an element"
        if commits.error is not None:
            raise OffsetsError("Fetching committed offsets", [(f"group {self.group}", commits.error)])
        extents = self.client.log_extents(partitions)
        plan = plan_reset(
            commits.offsets,
            extents,
            self._places(target, partitions),
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
        return self._committed_topics() if self.topics is None else sorted(self.topics)

    def _committed_topics(self) -> list[str]:
        (found,) = self.client.committed_offsets({self.group: None}).raise_for_errors()
        if not len(found.offsets):
            self._refuse_unknown(
                self.describe(), "name its topics (--topics) and allow it with new_group (--new-group)"
            )
            raise ConfigurationError(f"Group {self.group} has no commits: name the topics to reset.")
        return sorted({each.topic for each in found.offsets})

    def _places(
        self, target: Target, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, ListedOffset | SeenOffset]:
        if isinstance(target, FixedOffsets):
            return {TopicPartition.of(each): each for each in target.seen}
        listed = self.client.list_offsets(partitions, target, isolation_level=self.isolation_level)
        return {TopicPartition.of(each): each for each in listed}

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


def _refuse_target(target: Target) -> None:
    if isinstance(target, FixedOffsets):
        return
    if target.kind not in _SPECS:
        raise ConfigurationError(f"A group can go to earliest, latest or an instant, not to {target}.")
    if target.timestamp_ms is not None:
        refuse_future(target.timestamp_ms, now_ms(), "Name a past instant, or reset to latest.")
