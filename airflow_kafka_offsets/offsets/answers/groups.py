"""Groups, as their coordinators tell of them: what they have committed, and who is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from airflow_kafka_offsets.compat.python_versions import Self, StrEnum
from airflow_kafka_offsets.errors import LogTruncatedError, ResponseError, shorten
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import AnswerSet, Element, PartitionMap, TopicPartition


class GroupElement(Element, Protocol):
    """An element about one group."""

    @property
    def group(self) -> str: ...


G = TypeVar("G", bound=GroupElement)


class ByGroup(AnswerSet[G]):
    """Elements by consumer group."""

    @staticmethod
    def key(element: G) -> str:
        return element.group

    @classmethod
    def label(cls, element: G) -> str:
        return f"group {element.group}"

    def lookup(self, group: str) -> G | None:
        """None when it wasn't asked for."""
        return self._elements.get(group)


class CommittedOffset(NamedTuple):
    """What a group has committed on one partition (OffsetFetch, key 9; OffsetCommit, key 8).

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


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The commits of one group.

    :param offsets: commits by partition. Empty for a group that is unknown or never committed: OffsetFetch can't tell
        which (E19); a description of the group can.
    :param error: Kafka's error for the group as a whole; ``offsets`` is then empty.
    :param untold: where nobody can tell whether a log was cut below the commit, and why; by the partition's name.
    """

    group: str
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    error: ResponseError | None = None
    untold: Mapping[str, str] = field(default_factory=dict)

    def remark(self) -> str:
        """What is untold, in words; empty where nothing is."""
        if not self.untold:
            return ""
        partitions = shorten(f"{name} ({why})" for name, why in sorted(self.untold.items()))
        return f"whether a log was truncated below the commit is unknown on {partitions}"

    @property
    def has_commits(self) -> bool:
        """Whether the group has committed anywhere, or can't say."""
        return self.error is not None or any(
            commit.offset is not None or commit.error for commit in self.offsets.unordered()
        )


class GroupsOffsets(ByGroup[GroupOffsets]):
    """The commits of several groups."""

    asked = "Fetching committed offsets"

    def raise_for_errors(self) -> Self:
        """Return self when every group and every partition is good.

        :raises OffsetsError: naming the groups, or else the partitions, in error.
        """
        super().raise_for_errors()
        for group in self:
            group.offsets.raise_for_errors()
        return self


def with_extents(commits: CommittedOffsets, extents: LogExtents) -> Iterator[tuple[CommittedOffset, LogExtent]]:
    """The commits that have an offset and whose logs are known, with these; in no order."""
    for topic, committed in commits.by_topic.items():
        logs = extents.by_topic.get(topic, {})
        for number, commit in committed.items():
            extent = logs.get(number)
            if commit.offset is not None and extent is not None and extent.error is None:
                yield commit, extent


def refuse_commits_past_end(commits: CommittedOffsets, extents: LogExtents, group: str) -> None:
    """Refuse to go by commits that lie past their logs' ends: they are of other logs (E17).

    :param extents: the logs, asked after the commits.
    :raises LogTruncatedError: naming partitions, and where their logs end.
    """
    past = [
        f"{commit.topic}-{commit.partition} ends at {extent.high_watermark}, below {commit.offset}"
        for commit in commits
        if commit.offset is not None
        and (extent := extents.lookup(commit.topic, commit.partition)) is not None
        and extent.high_watermark is not None
        and extent.high_watermark < commit.offset
    ]
    if past:
        raise LogTruncatedError(
            f"Group {group} has committed past the end of logs: {shorten(past)}. Its commits belong to "
            "another log: the topic was re-created, the log was truncated, or they were copied. Nothing "
            "was written. Decide where the group should continue, and move it there with "
            "kafka-offsets reset."
        )


def lies_ahead(commits: Mapping[TopicPartition, int], partition: TopicPartition, offset: int) -> bool:
    """Whether a reader has still to come to an offset.

    :param commits: how far it has come; a partition that it hasn't begun is absent, and all of it lies ahead.
    """
    committed = commits.get(partition)
    return committed is None or committed < offset


class GroupKind(StrEnum):
    """Which protocol a group's members speak."""

    CLASSIC = "classic"
    """Members agree on their assignment among themselves; also a group that only commits."""
    CONSUMER = "consumer"
    """The coordinator assigns (KIP-848, Kafka 4.0)."""
    STREAMS = "streams"
    """The coordinator assigns tasks of Kafka Streams (KIP-1071, Kafka 4.1). Not described here."""
    SHARE = "share"
    """Members share partitions (KIP-932, Kafka 4.0), and commit no offsets. Not described here."""
    OTHER = "other"
    """One that is younger than this package. Not described here."""

    @classmethod
    def _missing_(cls, value: object) -> GroupKind:
        return cls.OTHER

    @property
    def is_described(self) -> bool:
        """Whether this package asks for such groups' members."""
        return self in (GroupKind.CLASSIC, GroupKind.CONSUMER)


CONSUMER_PROTOCOL = "consumer"
"""Protocol type of groups whose members read topics; those of Kafka Connect and others agree on something else."""

UNKNOWN, EMPTY, DEAD = "Unknown", "Empty", "Dead"
"""States by which groups without members are told apart: no such group (E19), nobody in it now (E21), being removed.
The others (``Stable``, ``PreparingRebalance``, ``Assigning``, …) are Kafka's own names, and have members."""
_WITHOUT_MEMBERS = (EMPTY, DEAD)
STABLE, ASSIGNING = "Stable", "Assigning"
"""States on which it depends whether members' topics are told: see :attr:`GroupDescription.untold`."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One active member of a group.

    :param member_id: the id that the coordinator knows it by.
    :param client_id: what the consumer calls itself.
    :param host: where it connects from.
    :param assignment: partitions that it reads, in order; empty for members that don't speak the consumer protocol
        (Kafka Connect). While a classic group rebalances, what it read before, or empty before Kafka 4.0.
    :param topics: topics that it subscribes to by name, in order; empty while a classic group rebalances.
    :param target: partitions that it is to read (KIP-848), in order; empty in a classic group.
    :param topic_regex: regular expression that it subscribes by besides (KIP-848); empty without one.
    """

    member_id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    target: tuple[TopicPartition, ...] = ()
    topic_regex: str = ""

    def __str__(self) -> str:
        reads = f" reading {shorten(map(str, self.assignment))}" if self.assignment else ""
        return f"{self.client_id} at {self.host.removeprefix('/')}{reads}"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group, classic or of KIP-848; of one that no request describes, what the list of groups says.

    :param state: Kafka's name for its state, or :data:`UNKNOWN`.
    :param kind: which protocol it uses; None when unknown.
    :param protocol_type: ``consumer``, ``connect``, …; empty for a group that only commits, and when unknown.
    :param members: its active members, in order of their ids.
    :param error: why it can't be described; its state is then :data:`UNKNOWN` too, and says nothing.
    :param listed: of one that isn't described, whether its coordinator lists it among the groups of all kinds; None
        when it is described, and when the list doesn't tell kinds (before Kafka 3.8).
    """

    group: str
    state: str = UNKNOWN
    kind: GroupKind | None = None
    protocol_type: str = ""
    members: tuple[GroupMember, ...] = ()
    error: ResponseError | None = None
    listed: bool | None = None

    @property
    def may_have_members(self) -> bool:
        """Whether somebody is in it, or may be as far as it is told."""
        return bool(self.members) or (bool(self.listed) and self.state not in _WITHOUT_MEMBERS)

    @property
    def is_unknown(self) -> bool:
        """There is no such consumer group. Before Kafka 4.0 that is also said of one that is just being removed."""
        return self.error is None and self.state == UNKNOWN

    def topics(self) -> set[str]:
        """Topics that members subscribe to, are assigned or are to be assigned, as far as they are told."""
        assigned = {key.topic for member in self.members for key in (*member.assignment, *member.target)}
        return assigned.union(*(member.topics for member in self.members))

    @property
    def untold(self) -> ResponseError | None:
        """Why members may read more than :meth:`topics`; None when that is all.

        A classic group's coordinator tells subscriptions only while the group is stable. A KIP-848 group's tells names
        always, but what an expression matches only by what it has assigned, some seconds later; and of several
        expressions nobody can tell which one an assignment comes from. Members of other protocols read no topics, but
        for those of kinds that aren't described: they never tell.
        """
        name_them = "name the topics (topics=, --topics)"
        if self.kind is not None and not self.kind.is_described:
            name = self.protocol_type if self.kind is GroupKind.OTHER else self.kind
            why = f"of which this package can't ask what its members read; {name_them}"
            if self.kind is GroupKind.SHARE:
                why = "which commits no offsets: there is no lag to measure"
            said = f"it is a {name} group ({self.state}), {why}"
            return ResponseError("INCONSISTENT_GROUP_PROTOCOL", 23, False, said)
        why = self._why_untold() if self.protocol_type == CONSUMER_PROTOCOL else ""
        return ResponseError("REBALANCE_IN_PROGRESS", 27, True, f"{why}; wait, or {name_them}") if why else None

    def _why_untold(self) -> str:
        if self.listed:
            why = f"the group is listed ({self.state}), and its coordinator doesn't describe it"
            return why if self.may_have_members else ""
        if self.kind is GroupKind.CLASSIC:
            if self.state == STABLE or all(member.topics for member in self.members):
                return ""
            return f"the group is {self.state}, and Kafka says what all members read only when it is {STABLE}"
        expressions = {member.topic_regex for member in self.members if member.topic_regex}
        if len(expressions) > 1:
            return f"members subscribe by {len(expressions)} regular expressions; Kafka doesn't say what each matches"
        named = {topic for member in self.members for topic in member.topics}
        if expressions and (self.state == ASSIGNING or self.topics() <= named):
            return f"members subscribe by a regular expression; Kafka doesn't say yet what it matches ({self.state})"
        return ""

    def assignment(self) -> list[TopicPartition]:
        """Partitions that members read."""
        return [partition for member in self.members for partition in member.assignment]


class GroupDescriptions(ByGroup[GroupDescription]):
    """Several groups."""

    asked = "Describing groups"
