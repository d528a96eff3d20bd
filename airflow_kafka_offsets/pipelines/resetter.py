"""The resetter: plans a reset of a group's committed offsets, and executes it. Below the Airflow classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.errors import (
    CommitRefusedError,
    ConfigurationError,
    OffsetsError,
    ResponseError,
    TopicChangedError,
    shorten,
)
from airflow_kafka_offsets.offsets.answers.groups import GroupDescription
from airflow_kafka_offsets.offsets.groups.resets import (
    Aim,
    ByShift,
    ResetPlan,
    ToListed,
    ToNothing,
    ToOffset,
    ToSnapshot,
    doubts_of,
    plan_reset,
)
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec, SpecKind
from airflow_kafka_offsets.offsets.windows.boundaries import refuse_future
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.pipelines.log_changes import refuse_rewritten

_PLACES = (SpecKind.EARLIEST, SpecKind.LATEST, SpecKind.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a group is reset to. Exactly one field is set.

    :param spec: earliest, latest, or the first record at or after an instant.
    :param shift_by: offsets to move each commit by; negative moves back.
    :param offset: the same offset on every partition.
    :param snapshot: the offsets of a stored snapshot.
    :param nothing: delete the commits.
    """

    spec: OffsetSpec | None = None
    shift_by: int | None = None
    offset: int | None = None
    snapshot: OffsetSnapshot | None = None
    nothing: bool = False

    def __post_init__(self) -> None:
        given = [way for way in (self.spec, self.shift_by, self.offset, self.snapshot) if way is not None]
        if len(given) + self.nothing != 1:
            raise ConfigurationError(
                "Give exactly one target for the group: an instant, earliest or latest, an offset, a shift, a "
                "snapshot, or no commits at all."
            )
        if self.spec is not None and self.spec.kind not in _PLACES:
            raise ConfigurationError(f"A group can go to earliest, latest or an instant, not to {self.spec}.")


class Resetter:
    """Resets one group.

    :param topics: topics to reset, with all their partitions. None for the topics of the snapshot, else those that the
        group has commits on; a shift or a deletion then covers only the partitions with a commit.
    :param numbers: partition numbers to reset in those topics; None for all.
    :param isolation_level: decides which log end ``latest`` means.
    """

    def __init__(
        self,
        client: OffsetsClient,
        group: str,
        *,
        topics: Sequence[str] | None = None,
        numbers: Collection[int] | None = None,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> None:
        self._client = client
        self._group = group
        self._topics = topics
        self._numbers = None if numbers is None else frozenset(numbers)
        self._isolation_level = isolation_level
        self._topic_ids: dict[str, str] = {}
        """Topic ids at the time of the plan."""

    def plan(self, destination: Destination) -> ResetPlan:
        """What a reset would write. Writes nothing.

        :raises OffsetsError: when a topic or the group's commits can't be fetched.
        :raises TopicChangedError: when the snapshot belongs to another cluster, or a topic was re-created since.
        :raises ConfigurationError: when there is no partition to reset, or the snapshot doesn't cover a topic.
        :raises InstantError: for an instant in the future.
        """
        if destination.spec is not None and destination.spec.timestamp_ms is not None:
            refuse_future(destination.spec.timestamp_ms, now_ms(), "Name a past instant, or reset to latest.")
        partitions = self._partitions(destination)
        self._topic_ids = self._ids_of({partition.topic for partition in partitions})
        found = self._client.committed_offsets({self._group: partitions})
        commits = found.lookup(self._group)
        assert commits is not None, "every group has an element"
        if commits.error is not None:
            raise OffsetsError("Fetching committed offsets", [(f"group {self._group}", commits.error)])
        extents = self._client.log_extents(partitions)
        doubts: dict[TopicPartition, str] = {}
        if destination.shift_by is not None:
            marked = self._client.mark_truncated(found, extents).lookup(self._group)
            assert marked is not None
            doubts = doubts_of(commits.offsets, marked.offsets)
        plan = plan_reset(partitions, commits.offsets, extents, self._aim(destination, partitions, doubts))
        return plan.with_epochs(self._client.own_epochs(plan.commits()))

    def _ids_of(self, topics: Collection[str]) -> dict[str, str]:
        """The topics' ids; topics that are gone, or whose brokers don't support topic ids, are left out."""
        found = TopicsMetadata(topic for topic in self._client.topics(sorted(topics)) if not topic.is_unknown)
        return {topic.topic: topic.topic_id for topic in found.raise_for_errors() if topic.topic_id is not None}

    def _partitions(self, destination: Destination) -> list[TopicPartition]:
        if self._topics is not None or destination.snapshot is not None:
            snapshot = destination.snapshot
            strange = [] if snapshot is None else sorted(set(self._topics or ()) - set(snapshot.topics))
            if strange:
                raise ConfigurationError(f"The snapshot doesn't cover {', '.join(strange)}: leave those topics out.")
            partitions = self._client.partitions_of(self._topics or sorted(snapshot.topics if snapshot else ()))
        elif destination.spec is not None or destination.offset is not None:
            partitions = self._client.partitions_of(sorted({partition.topic for partition in self._committed()}))
        else:
            partitions = self._committed()  # a shift or a deletion needs a commit, whose topic may be gone
        if self._numbers is None:
            return partitions
        missing = self._numbers - {partition.partition for partition in partitions}
        if missing:
            where = ", ".join(sorted({partition.topic for partition in partitions}))
            raise ConfigurationError(f"There is nothing to reset on partition {min(missing)} of {where}.")
        return [partition for partition in partitions if partition.partition in self._numbers]

    def _committed(self) -> list[TopicPartition]:
        (found,) = self._client.committed_offsets({self._group: None}).raise_for_errors()
        if not len(found.offsets):
            self._refuse_unknown(self.describe())
            raise ConfigurationError(f"Group {self._group} has no commits: name the topics to reset.")
        return found.offsets.partitions()

    def _aim(
        self, destination: Destination, partitions: list[TopicPartition], doubts: Mapping[TopicPartition, str]
    ) -> Aim:
        if destination.spec is not None:
            listed = self._client.list_offsets(partitions, destination.spec, isolation_level=self._isolation_level)
            return ToListed(listed, self._isolation_level)
        if destination.shift_by is not None:
            return ByShift(destination.shift_by, doubts)
        if destination.offset is not None:
            return ToOffset(destination.offset)
        if destination.snapshot is not None:
            return self._to_snapshot(destination.snapshot)
        return ToNothing()

    def _to_snapshot(self, snapshot: OffsetSnapshot) -> ToSnapshot:
        check_topics(snapshot, self._client.cluster_id(), self._client.topic_facts(sorted(snapshot.topics)))
        refuse_rewritten(self._client, snapshot)
        return ToSnapshot(snapshot.boundaries)

    def execute(self, plan: ResetPlan, *, new_group: bool = False) -> None:
        """Write a plan.

        :param new_group: create the group when there is none of that name.
        :raises OffsetsError: when the plan has an error (nothing is written then), or Kafka refuses a partition.
        :raises TopicChangedError: when a topic was re-created since this resetter planned.
        :raises CommitRefusedError: when the group has active members, with their names.
        """
        plan.raise_for_errors()
        self._refuse(new_group)
        commits, deletions = plan.commits(), plan.deletions()
        if len(commits):
            self._refuse_other_topics()
            # Brokers that support topic ids check them once more.
            self._client.commit_offsets(self._group, commits, topic_ids=self._topic_ids).raise_for_errors()
        if deletions:
            self._client.delete_offsets(self._group, deletions).raise_for_errors()

    def _refuse_other_topics(self) -> None:
        if not self._topic_ids:
            return
        # A topic that can't be described raises an error here.
        found = self._client.topics(sorted(self._topic_ids)).raise_for_errors()
        now = {topic.topic: topic.topic_id for topic in found if topic.topic_id is not None}
        changed = [topic for topic, topic_id in self._topic_ids.items() if now.get(topic, topic_id) != topic_id]
        if changed:
            raise TopicChangedError(
                f"Topic {changed[0]} was re-created since the reset was planned: its id was "
                f"{self._topic_ids[changed[0]]}, now it is {now[changed[0]]}. Nothing was written. Run the reset "
                "again.",
                topic=changed[0],
            )

    def describe(self) -> GroupDescription:
        """The group as it is now.

        :raises OffsetsError: when it can't be described.
        """
        (described,) = self._client.describe_groups([self._group]).raise_for_errors()
        return described

    def _refuse(self, new_group: bool) -> None:
        described = self.describe()
        if described.members:
            raise CommitRefusedError(
                f"Group {self._group} has {len(described.members)} active members, which own its commits: "
                f"{shorten(map(str, described.members))}. Stop them, wait until the group is empty, and try "
                "again."
            )
        if described.may_have_members:
            raise CommitRefusedError(
                f"Group {self._group} is a {described.kind} group ({described.state}), whose active members own its "
                "commits and can't be listed here. Stop them, wait until the group is empty, and try again."
            )
        if not new_group:
            self._refuse_unknown(described)

    def _refuse_unknown(self, described: GroupDescription) -> None:
        if described.no_such_group:
            why = "no such group: check its name, or create it with new_group (--new-group)"
            error = ResponseError("GROUP_ID_NOT_FOUND", 69, False, why)
            raise OffsetsError("Resetting offsets", [(f"group {self._group}", error)])
