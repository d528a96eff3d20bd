"""Group descriptions: DescribeGroups (key 15) and, for each newer kind of group, a request of its own, sent to the
coordinators: ConsumerGroupDescribe (key 69, KIP-848), ShareGroupDescribe (77, KIP-932), StreamsGroupDescribe (89,
KIP-1071).

Each request knows one kind alone, and answers "dead" or "not found" for the groups of others (E33). So the first two,
for the kinds that nearly all groups are of, are sent at the same time, and all of them for a group that neither knew.
One that is still unknown is looked up in its coordinator's list (:mod:`.list_groups`), and doesn't exist if it isn't
there either (E19). Before version 6 (Kafka 4.0, KIP-1043), DescribeGroups answers Dead both for unknown groups and for
groups that are being removed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.wire import Code, named_error, response_error
from airflow_kafka_offsets.client.requests.list_groups import look_up_listed, undescribed
from airflow_kafka_offsets.client.requests.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from airflow_kafka_offsets.client.routing.fan_out import FanOut
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.groups import (
    CONSUMER_PROTOCOL,
    DEAD,
    UNKNOWN,
    GroupDescription,
    GroupDescriptions,
    GroupKind,
    GroupMember,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition

_TELLS_UNKNOWN = 6
_NOT_READY = "NotReady"
"""State of a streams group whose topics aren't all known yet."""
_JUST_TAKEN_OVER = named_error(Code.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator may not know all of its groups yet")


def parse_describe_groups(response: Any) -> dict[str, GroupDescription]:
    """Classic groups by group id; all other groups are unknown."""
    version = response.API_VERSION
    return {group.group_id: _classic(group, version) for group in response.groups}


def _classic(answer: Any, version: int) -> GroupDescription:
    if answer.error_code == Code.GROUP_ID_NOT_FOUND or (answer.group_state == DEAD and version < _TELLS_UNKNOWN):
        return GroupDescription(answer.group_id)
    error = response_error(answer.error_code, answer.error_message)
    if error is not None:
        return GroupDescription(answer.group_id, error=error)
    read = _classic_member if answer.protocol_type == CONSUMER_PROTOCOL else _foreign_member
    try:
        members = tuple(map(read, answer.members))
    except (ValueError, struct.error) as unreadable:
        why = f"a member's metadata or assignment is not in the consumer protocol ({unreadable})"
        return GroupDescription(answer.group_id, error=named_error(Code.INCONSISTENT_GROUP_PROTOCOL, why))
    return _described(answer.group_id, answer.group_state, GroupKind.CLASSIC, answer.protocol_type, members)


def _described(
    group: str, state: str, kind: GroupKind, protocol_type: str, members: Iterable[GroupMember]
) -> GroupDescription:
    in_order = tuple(sorted(members, key=lambda member: member.member_id))
    return GroupDescription(group, state or UNKNOWN, kind, protocol_type, in_order)


def _foreign_member(answer: Any) -> GroupMember:
    return GroupMember(answer.member_id, answer.client_id, answer.client_host)


def _classic_member(answer: Any) -> GroupMember:
    """A member that uses the consumer protocol. While a group rebalances, its members' metadata is empty (Kafka's
    ``describeNoMetadata``); before Kafka 4.0, so is their assignment.
    """
    assignment: list[TopicPartition] = []
    topics: list[str] = []
    if answer.member_assignment:
        assigned = ConsumerProtocolAssignment.decode(answer.member_assignment).assigned_partitions
        assignment = [TopicPartition(topic.topic, number) for topic in assigned for number in topic.partitions]
    if answer.member_metadata:
        topics = ConsumerProtocolSubscription.decode(answer.member_metadata).topics
    return _member(answer, assignment, topics)


def _member(answer: Any, assignment: Iterable[TopicPartition], topics: Iterable[str]) -> GroupMember:
    return GroupMember(
        answer.member_id, answer.client_id, answer.client_host, tuple(sorted(assignment)), tuple(sorted(topics))
    )


def _consumer_members(group: Any) -> Iterator[GroupMember]:
    for member in group.members:
        target = tuple(sorted(_assigned(member.target_assignment)))
        found = _member(member, _assigned(member.assignment), member.subscribed_topic_names)
        yield replace(found, target=target, topic_regex=member.subscribed_topic_regex or "")


def _share_members(group: Any) -> Iterator[GroupMember]:
    for member in group.members:
        yield _member(member, _assigned(member.assignment), member.subscribed_topic_names)


def _streams_members(group: Any) -> Iterator[GroupMember]:
    """Members with all topics that the topology reads, since tasks are assigned by subtopology. Until the coordinator
    has found all of these topics and resolved regular expressions, nothing tells what a member reads.
    """
    known = group.group_state != _NOT_READY and group.topology is not None
    topics = {
        topic
        for part in (group.topology.subtopologies or () if known else ())
        for topic in (*part.source_topics, *(internal.name for internal in part.repartition_source_topics))
    }
    for member in group.members:
        yield _member(member, (), topics)


def _assigned(assignment: Any) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    ]


def join_descriptions(answers: Sequence[GroupDescription]) -> GroupDescription:
    """Combine the answers about a group: the one that knows the group, else one in error, else unknown."""
    return next((each for each in answers if each.kind), next((each for each in answers if each.error), answers[0]))


@dataclass(frozen=True, slots=True)
class NewerKind:
    """A kind of group that DescribeGroups doesn't know.

    :param request: the class of the request that describes it.
    :param members: reads the members of one group.
    :param at_least: the request's first stable version.
    """

    kind: GroupKind
    request: Any
    members: Callable[[Any], Iterable[GroupMember]]
    at_least: int = 0

    def parse(self, response: Any) -> dict[str, GroupDescription]:
        """Groups of this kind by group id; all other groups are unknown."""
        return {group.group_id: self._read(group) for group in response.groups}

    def _read(self, answer: Any) -> GroupDescription:
        # A broker in ZooKeeper mode supports the request, but answers UNSUPPORTED_VERSION: it has no such groups.
        if answer.error_code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION):
            return GroupDescription(answer.group_id)
        error = response_error(answer.error_code, answer.error_message)
        if error is not None:
            return GroupDescription(answer.group_id, error=error)
        return _described(answer.group_id, answer.group_state, self.kind, str(self.kind), self.members(answer))


CONSUMER = NewerKind(GroupKind.CONSUMER, ConsumerGroupDescribeRequest, _consumer_members)
STREAMS = NewerKind(GroupKind.STREAMS, StreamsGroupDescribeRequest, _streams_members)
SHARE = NewerKind(GroupKind.SHARE, ShareGroupDescribeRequest, _share_members, at_least=1)


async def fetch_descriptions(session: Session, groups: Collection[str]) -> GroupDescriptions:
    """Ask all coordinators concurrently; returns an element for every group, by the deadline. Groups that come back
    unknown take one more round, and a third if they still are."""

    async def classic(node: NodeId, groups: list[str], attempt: Deadline) -> dict[str, GroupDescription]:
        version = await session.transport.version(node, DescribeGroupsRequest, attempt)
        request = DescribeGroupsRequest[version](groups=groups)
        return parse_describe_groups(await session.transport.send(node, request, attempt))

    async def newer(kind: NewerKind, node: NodeId, groups: list[str], attempt: Deadline) -> dict[str, GroupDescription]:
        version = await session.transport.version_if_any(node, kind.request, attempt, at_least=kind.at_least)
        if version is None:
            return {}  # such a broker has no such groups
        request = kind.request(version=version, group_ids=groups)
        return kind.parse(await session.transport.send(node, request, attempt))

    async def ask(node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, GroupDescription]:
        works = [partial(classic, node, groups, attempt), partial(newer, CONSUMER, node, groups, attempt)]
        if again := [group for group in groups if group in doubted]:
            works += [partial(newer, kind, node, again, attempt) for kind in (STREAMS, SHARE)]
        answers = await session.transport.gather(works)
        return {
            group: believed(join_descriptions([answer[group] for answer in answers if group in answer]))
            for group in groups
            if group in answers[0]
        }

    doubted: set[str] = set()

    def believed(found: GroupDescription) -> GroupDescription:
        """The first "unknown" counts as an error that may pass, because a coordinator that has just taken over may not
        know its own groups yet; the second is believed."""
        if not found.no_such_group or found.group in doubted:
            return found
        doubted.add(found.group)
        return undescribed(found.group, _JUST_TAKEN_OVER)

    first = session.half()  # groups that come back unknown take another round
    found = await FanOut(first, session.coordinators, ask, lambda group: group.error, undescribed).run(groups)
    unknown = [group.group for group in found.values() if group.no_such_group]
    if unknown:
        found |= await look_up_listed(session, unknown)
    return GroupDescriptions(found.values())
