"""Groups, as their coordinators report them: what they have committed, and who their members are.

The members of a share group (KIP-932) share the records of a partition, and finish them in any order. So its position
is two numbers: an offset before which all is finished, and how much is not finished after it.
"""

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
        """The element of one group; None when the group wasn't asked for."""
        return self._elements.get(group)


class CommittedOffset(NamedTuple):
    """What a group has committed on one partition (OffsetFetch, key 9; OffsetCommit, key 8).

    :param offset: next offset to read; None when the group never committed here or the commit expired.
    :param leader_epoch: epoch committed with the offset (v5+, KIP-320): that of the last batch read, or a newer one;
        None when none was committed.
    :param metadata: the committer's own text; may be empty.
    :param error: Kafka's error for this partition alone; ``offset`` is then None.
    :param truncated_at: where an unclean leader election truncated the log below the commit, even if the log has grown
        past it since; None when it wasn't truncated, when nobody can tell, or when the leader wasn't asked.
    :param counted_lag: for a share group, Kafka's own count of what it hasn't finished (:class:`.ShareOffset`), which
        ``offset`` alone doesn't tell; None for all other groups.
    """

    topic: str
    partition: int
    offset: int | None = None
    leader_epoch: int | None = None
    metadata: str = ""
    error: ResponseError | None = None
    truncated_at: int | None = None
    counted_lag: int | None = None


class CommittedOffsets(PartitionMap[CommittedOffset]):
    """Committed offsets by partition."""

    asked = "Fetching committed offsets"


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The commits of one group.

    :param offsets: commits by partition. Empty for a group that is unknown or never committed: OffsetFetch can't tell
        the two apart (E19); a description of the group can.
    :param error: Kafka's error for the group as a whole, or that it is of a kind without commits; ``offsets`` is then
        empty.
    :param untold: why nobody can tell whether a log was truncated below the commit, by partition name.
    """

    group: str
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    error: ResponseError | None = None
    untold: Mapping[str, str] = field(default_factory=dict)

    def remark(self) -> str:
        """``untold`` in words; empty when there is none."""
        if not self.untold:
            return ""
        partitions = shorten(f"{name} ({why})" for name, why in sorted(self.untold.items()))
        return f"whether a log was truncated below the commit is unknown on {partitions}"

    @property
    def has_commits(self) -> bool:
        """Whether the group has committed on any partition, or may have, because of an error."""
        return self.error is not None or any(
            commit.offset is not None or commit.error for commit in self.offsets.unordered()
        )


class GroupsOffsets(ByGroup[GroupOffsets]):
    """The commits of several groups."""

    asked = "Fetching committed offsets"

    def raise_for_errors(self) -> Self:
        """Return self when no group and no partition is in error.

        :raises OffsetsError: naming the groups in error, or else the partitions.
        """
        super().raise_for_errors()
        for group in self:
            group.offsets.raise_for_errors()
        return self


def with_extents(commits: CommittedOffsets, extents: LogExtents) -> Iterator[tuple[CommittedOffset, LogExtent]]:
    """Each commit with its log's extent, when the offset and the extent are known; unordered."""
    for topic, committed in commits.by_topic.items():
        logs = extents.by_topic.get(topic, {})
        for number, commit in committed.items():
            extent = logs.get(number)
            if commit.offset is not None and extent is not None and extent.error is None:
                yield commit, extent


def refuse_commits_past_end(commits: CommittedOffsets, extents: LogExtents, group: str) -> None:
    """Refuse commits that lie past the end of their log: they belong to another log (E17).

    :param extents: the logs' extents, requested after the commits.
    :raises LogTruncatedError: naming partitions, and where their logs end.
    """
    past = [
        f"{commit.topic}-{commit.partition} ends at {extent.high_watermark}, below {commit.offset}"
        for commit in commits
        if commit.offset is not None
        and (extent := extents.lookup(commit.topic, commit.partition)) is not None
        and extent.ends_before(commit.offset)
    ]
    if past:
        raise LogTruncatedError(
            f"Group {group} has committed past the end of logs: {shorten(past)}. Its commits belong to "
            "another log: the topic was re-created, the log was truncated, or they were copied. Nothing "
            "was written. Decide where the group should continue, and move it there with "
            "kafka-offsets reset."
        )


def lies_ahead(commits: Mapping[TopicPartition, int], partition: TopicPartition, offset: int) -> bool:
    """Whether a reader hasn't reached an offset yet.

    :param commits: the reader's committed offsets; a partition that it hasn't started is absent, and lies ahead.
    """
    committed = commits.get(partition)
    return committed is None or committed < offset


class GroupKind(StrEnum):
    """Which protocol a group's members use."""

    CLASSIC = "classic"
    """Members agree on their assignment among themselves. Also a group that only commits."""
    CONSUMER = "consumer"
    """The coordinator assigns (KIP-848, Kafka 4.0)."""
    STREAMS = "streams"
    """The coordinator assigns Kafka Streams tasks (KIP-1071, Kafka 4.1)."""
    SHARE = "share"
    """Members share partitions (KIP-932, Kafka 4.1). Commits nothing: its progress is kept elsewhere (KIP-1226)."""
    OTHER = "other"
    """A kind that is newer than this package. Only listed, never described."""

    @classmethod
    def _missing_(cls, value: object) -> GroupKind:
        return cls.OTHER


CONSUMER_PROTOCOL = "consumer"
"""Protocol type of groups whose members read topics. Kafka Connect and others have protocol types of their own."""

UNKNOWN, EMPTY, DEAD = "Unknown", "Empty", "Dead"
"""States of groups without members: no such group (E19), empty (E21), being removed. Groups in other states
(``Stable``, ``PreparingRebalance``, ``Assigning``, …, all Kafka's own names) have members."""
_WITHOUT_MEMBERS = (EMPTY, DEAD)
_OF_CONSUMERS = (GroupKind.CLASSIC, GroupKind.CONSUMER)
STABLE, ASSIGNING = "Stable", "Assigning"
"""States that decide whether members' topics are known: see :attr:`GroupDescription.topics_unknown`."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One active member of a group.

    :param member_id: its id at the coordinator.
    :param client_id: the consumer's ``client.id``.
    :param host: the host that it connects from.
    :param assignment: partitions that it reads, in order; empty for members that don't use the consumer protocol
        (Kafka Connect). While a classic group rebalances: the previous ones, or empty before Kafka 4.0.
    :param topics: topics that it subscribes to by name, in order; empty while a classic group rebalances.
    :param target: partitions that it will be assigned (KIP-848), in order; empty in a classic group.
    :param topic_regex: regular expression that it also subscribes by (KIP-848); empty when there is none.
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
    """One group. For a group that no request describes: what the list of groups says.

    :param state: Kafka's name for its state, or :data:`UNKNOWN`.
    :param kind: which protocol it uses; None when unknown.
    :param protocol_type: ``consumer``, ``connect``, …; empty for a group that only commits, and when unknown.
    :param members: its active members, in order of their ids.
    :param error: why the group can't be described; ``state`` is then :data:`UNKNOWN` too, and means nothing.
    :param listed: for a group that isn't described: whether its coordinator lists it among the groups of all kinds.
        None when it is described, or when the list has no kinds (before Kafka 3.8).
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
        """Whether the group has members, or may have, as far as is known."""
        return bool(self.members) or (bool(self.listed) and self.state not in _WITHOUT_MEMBERS)

    @property
    def no_such_group(self) -> bool:
        """Whether there is no such consumer group. Before Kafka 4.0, also true of a group that is being removed."""
        return self.error is None and self.state == UNKNOWN

    @property
    def has_stopped(self) -> bool:
        """Whether it is of a kind that reads through members, and has none. Never true of one that only commits."""
        return bool(self.protocol_type) and not self.may_have_members

    def topics(self) -> set[str]:
        """Topics that members subscribe to, are assigned or will be assigned, as far as is known."""
        assigned = {key.topic for member in self.members for key in (*member.assignment, *member.target)}
        return assigned.union(*(member.topics for member in self.members))

    @property
    def topics_unknown(self) -> ResponseError | None:
        """Why members may read more than :meth:`topics`; None when they don't.

        A classic group's coordinator reports all subscriptions only while the group is stable. A KIP-848 group's
        coordinator always reports topic names, but what a regular expression matches shows only in its assignments,
        some seconds later; with several expressions, nobody can tell which one an assignment comes from. A streams
        group's coordinator reports what the topology reads once it has found all of these topics. Members of a share
        group subscribe by name. Members that use other protocols read no topics.
        """
        name_them = "name the topics (topics=, --topics)"
        if self.listed and self.kind not in _OF_CONSUMERS:
            return self._is_another(f"and its coordinator doesn't say what its members read; {name_them}")
        why = self._why_unknown()
        return ResponseError("REBALANCE_IN_PROGRESS", 27, True, f"{why}; wait, or {name_them}") if why else None

    @property
    def commits_nothing(self) -> ResponseError | None:
        """Why a group without commits isn't one that has read nothing: it keeps its progress elsewhere, or isn't known
        to commit. None for a group that commits what it has read.
        """
        if self.kind is GroupKind.SHARE:
            return self._is_another("which commits no offsets: it can't be moved or followed by them, only measured")
        if self.kind is GroupKind.OTHER:
            return self._is_another("and this package doesn't know whether such a group commits offsets; it has none")
        if self.kind is GroupKind.CLASSIC and self.protocol_type not in (CONSUMER_PROTOCOL, ""):
            return self._is_another("whose members aren't consumers, and it has committed no offsets")
        return None

    def _is_another(self, why: str) -> ResponseError:
        """The error of a group that isn't one of consumers."""
        name = self.kind if self.kind in (GroupKind.STREAMS, GroupKind.SHARE) else self.protocol_type
        said = f"it is a {name} group ({self.state}), {why}"
        return ResponseError("INCONSISTENT_GROUP_PROTOCOL", 23, False, said)

    def _why_unknown(self) -> str:
        if self.kind is GroupKind.STREAMS and self.members and not self.topics():
            return f"the group is {self.state}, and Kafka hasn't found all topics yet that its topology reads"
        if self.protocol_type != CONSUMER_PROTOCOL:
            return ""
        if self.listed:
            why = f"the group is listed ({self.state}), but its coordinator doesn't describe it"
            return why if self.may_have_members else ""
        if self.kind is GroupKind.CLASSIC:
            if self.state == STABLE or all(member.topics for member in self.members):
                return ""
            return f"the group is {self.state}, and Kafka reports what all members read only when it is {STABLE}"
        expressions = {member.topic_regex for member in self.members if member.topic_regex}
        if len(expressions) > 1:
            return f"members subscribe by {len(expressions)} regular expressions; Kafka doesn't say what each matches"
        named = {topic for member in self.members for topic in member.topics}
        if expressions and (self.state == ASSIGNING or self.topics() <= named):
            return (
                f"members subscribe by a regular expression; Kafka hasn't reported yet what it matches ({self.state})"
            )
        return ""

    def assignment(self) -> list[TopicPartition]:
        """Partitions assigned to members."""
        return [partition for member in self.members for partition in member.assignment]


class GroupDescriptions(ByGroup[GroupDescription]):
    """Several groups."""

    asked = "Describing groups"


_NOT_COUNTED = ResponseError(
    "NOT_COUNTED",
    -1,
    True,
    "Kafka knows where the share group is, but hasn't counted its lag since the broker's upgrade to 4.2; it does once "
    "the group finishes a record there",
)


class ShareOffset(NamedTuple):
    """How far a share group has come on one partition (DescribeShareGroupOffsets, key 90).

    :param start_offset: all before it is finished (accepted, rejected, or delivered as often as allowed). Some after it
        may be too: Kafka stores it before it moves it past what was finished last. None while the group has finished
        nothing here, and while Kafka can't read how far it has come: the broker answers the same.
    :param lag: offsets from there to the high watermark that aren't finished (KIP-1226, Kafka 4.2). None without a
        ``start_offset``, and while Kafka hasn't counted them.
    :param leader_epoch: epoch of the leader that reported this last; None without a ``start_offset``.
    :param error: Kafka's error for this partition alone; nothing else is then known.
    """

    topic: str
    partition: int
    start_offset: int | None = None
    lag: int | None = None
    leader_epoch: int | None = None
    error: ResponseError | None = None

    def as_commit(self) -> CommittedOffset:
        """The position as lag is measured from it: an unknown count is an error, and no position is no commit."""
        error = _NOT_COUNTED if self.start_offset is not None and self.lag is None else self.error
        offset = None if error is not None else self.start_offset
        return CommittedOffset(self.topic, self.partition, offset, error=error, counted_lag=self.lag)


class ShareOffsets(PartitionMap[ShareOffset]):
    """Share offsets by partition."""

    asked = "Describing share groups' offsets"


@dataclass(frozen=True, slots=True)
class ShareGroupOffsets:
    """How far one share group has come.

    :param offsets: by partition. Without named partitions, those on which the group has members or had some.
    :param error: Kafka's error for the group as a whole; ``offsets`` is then empty.
    """

    group: str
    offsets: ShareOffsets = field(default_factory=ShareOffsets)
    error: ResponseError | None = None

    def as_commits(self) -> GroupOffsets:
        """The positions as lag is measured from them."""
        commits = CommittedOffsets(offset.as_commit() for offset in self.offsets.unordered())
        return GroupOffsets(self.group, commits, self.error)


class ShareGroupsOffsets(ByGroup[ShareGroupOffsets]):
    """How far several share groups have come."""

    asked = "Describing share groups' offsets"
