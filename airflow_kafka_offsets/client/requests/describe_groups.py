"""Group descriptions: DescribeGroups (key 15) and ConsumerGroupDescribe (key 69, KIP-848), sent to the coordinators.

The first request only knows classic groups and the second only KIP-848 groups; each answers "dead" or "not found" for
the other's groups (E33). So both are sent at the same time. A group that neither knows may be of a kind with its own
request, which isn't sent here: streams (KIP-1071) or share (KIP-932). It is looked up in its coordinator's list
(:mod:`.list_groups`), and is unknown if it isn't there either (E19). Before version 6 (Kafka 4.0, KIP-1043),
DescribeGroups answers Dead both for unknown groups and for groups that are being removed.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.response_errors import Code, named_error, response_error
from airflow_kafka_offsets.client.connection.transport import RequestFailedError
from airflow_kafka_offsets.client.requests.list_groups import look_up_listed, undescribed
from airflow_kafka_offsets.client.requests.messages import ConsumerGroupDescribeRequest
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


def parse_consumer_group_describe(response: Any) -> dict[str, GroupDescription]:
    """KIP-848 groups by group id; all other groups are unknown."""
    return {group.group_id: _consumer(group) for group in response.groups}


def _consumer(answer: Any) -> GroupDescription:
    # A broker in ZooKeeper mode supports the request, but answers UNSUPPORTED_VERSION because it has no such groups.
    if answer.error_code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION):
        return GroupDescription(answer.group_id)
    error = response_error(answer.error_code, answer.error_message)
    if error is not None:
        return GroupDescription(answer.group_id, error=error)
    members = map(_consumer_member, answer.members)
    return _described(answer.group_id, answer.group_state, GroupKind.CONSUMER, CONSUMER_PROTOCOL, members)


def _consumer_member(answer: Any) -> GroupMember:
    member = _member(answer, _assigned(answer.assignment), answer.subscribed_topic_names)
    target = tuple(sorted(_assigned(answer.target_assignment)))
    return replace(member, target=target, topic_regex=answer.subscribed_topic_regex or "")


def _assigned(assignment: Any) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    ]


def join_descriptions(classic: GroupDescription, consumer: GroupDescription | None) -> GroupDescription:
    """Combine both answers about a group: the one that knows the group, else the one in error, else unknown."""
    answers = [classic] if consumer is None else [classic, consumer]
    return next(
        (answer for answer in answers if answer.kind), next((answer for answer in answers if answer.error), classic)
    )


async def fetch_descriptions(session: Session, groups: Collection[str]) -> GroupDescriptions:
    """Ask all coordinators concurrently; returns an element for every group, by the deadline. Groups that come back
    unknown take one more round."""

    async def classic(node: NodeId, groups: list[str], attempt: Deadline) -> dict[str, GroupDescription]:
        version = await session.transport.version(node, DescribeGroupsRequest, attempt)
        request = DescribeGroupsRequest[version](groups=groups)
        return parse_describe_groups(await session.transport.send(node, request, attempt))

    async def consumer(node: NodeId, groups: list[str], attempt: Deadline) -> dict[str, GroupDescription]:
        try:
            version = await session.transport.version(node, ConsumerGroupDescribeRequest, attempt)
        except RequestFailedError as failed:
            if failed.error.code == Code.UNSUPPORTED_VERSION:
                return {}  # before Kafka 3.7 there are no such groups
            raise
        request = ConsumerGroupDescribeRequest(version=version, group_ids=groups)
        return parse_consumer_group_describe(await session.transport.send(node, request, attempt))

    async def ask(node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, GroupDescription]:
        works = [partial(request, node, groups, attempt) for request in (classic, consumer)]
        ours, theirs = await session.transport.gather(works)
        joined = {group: join_descriptions(ours[group], theirs.get(group)) for group in groups if group in ours}
        return {group: believed(found) for group, found in joined.items()}

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
