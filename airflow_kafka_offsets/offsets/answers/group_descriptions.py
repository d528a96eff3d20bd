"""Groups: which protocol a consumer group speaks, in which state it is, who is in it (KIP-848 and classic ones)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_offsets.errors import ResponseError, shorten
from airflow_kafka_offsets.offsets.answer_set import ByGroup
from airflow_kafka_offsets.offsets.partitions import TopicPartition


class GroupKind(StrEnum):
    """Which protocol a group's members speak."""

    CLASSIC = "classic"
    """Members agree on their assignment among themselves; also a group that only commits."""
    CONSUMER = "consumer"
    """The coordinator assigns (KIP-848, Kafka 4.0)."""


UNKNOWN, EMPTY, DEAD = "Unknown", "Empty", "Dead"
"""States by which groups without members are told apart: no such group (E19), nobody in it now (E21), being removed.
The others (``Stable``, ``PreparingRebalance``, ``Assigning``, …) are Kafka's own names, and have members."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One active member of a group.

    :param member_id: the id that the coordinator knows it by.
    :param client_id: what the consumer calls itself.
    :param host: where it connects from.
    :param assignment: partitions that it reads, in order; empty while the group rebalances, and for members that don't
        speak the consumer protocol (Kafka Connect).
    :param topics: topics that it subscribes to, in order.
    """

    member_id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()

    def __str__(self) -> str:
        reads = f" reading {shorten(map(str, self.assignment))}" if self.assignment else ""
        return f"{self.client_id} at {self.host.removeprefix('/')}{reads}"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group.

    :param group: group id.
    :param state: Kafka's name for its state, or :data:`UNKNOWN`.
    :param kind: which protocol it uses; None when unknown.
    :param protocol_type: ``consumer``, ``connect``, …; empty for a group that only commits, and when unknown.
    :param members: its active members, in order of their ids.
    :param error: why it can't be described; its state is then :data:`UNKNOWN` too, and says nothing.
    """

    group: str
    state: str = UNKNOWN
    kind: GroupKind | None = None
    protocol_type: str = ""
    members: tuple[GroupMember, ...] = ()
    error: ResponseError | None = None

    @property
    def is_unknown(self) -> bool:
        """There is no such consumer group. Before Kafka 4.0 that is also said of one that is just being removed."""
        return self.error is None and self.state == UNKNOWN

    def topics(self) -> set[str]:
        """Topics that members subscribe to or are assigned."""
        assigned = {each.topic for member in self.members for each in member.assignment}
        return assigned.union(*(member.topics for member in self.members))

    def assignment(self) -> list[TopicPartition]:
        """Partitions that members read."""
        return [each for member in self.members for each in member.assignment]


class GroupDescriptions(ByGroup[GroupDescription]):
    """Several groups."""

    asked = "Describing groups"
    __slots__ = ()
