"""Groups: lists the groups that exist (ListGroups, key 16).

Each broker lists the groups that it coordinates, so all brokers' lists together contain all groups. Versions: 4 adds
states (KIP-518), 5 types (KIP-848). Group details come from :mod:`.describe_groups`. For a group that it can't
describe, the coordinator's list says whether the group exists, and its kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import ListGroupsRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.wire import Code, response_error
from airflow_kafka_offsets.client.routing.fan_out import FanOut, Locator
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.groups import UNKNOWN, GroupDescription, GroupKind

_READING_PROTOCOLS = ("consumer", "", "share", "streams")
"""Protocol types of groups that read topics, and of groups that only commit. Others, such as Kafka Connect, have their
own."""
_TELLS_TYPES = 5
_OFFSETS_TOPIC = "__consumer_offsets"
"""Kafka's internal topic for commits. A partition's leader coordinates the groups in that partition."""
_NOT_TO_BE_SEEN = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class BrokerGroups:
    """The groups that one broker coordinates.

    :param groups: group ids; empty if in error.
    :param error: why the broker couldn't list them.
    """

    groups: frozenset[str]
    error: ResponseError | None = None


def parse_list_groups(response: Any) -> BrokerGroups:
    """One broker's groups that read topics, and those that only commit offsets."""
    reading = frozenset(group.group_id for group in response.groups if group.protocol_type in _READING_PROTOCOLS)
    return BrokerGroups(reading, response_error(response.error_code))


def parse_listed(response: Any, groups: Iterable[str]) -> dict[str, GroupDescription]:
    """What the coordinator's list says about some groups, of any kind.

    :param response: of version 5 or later.
    """
    error = response_error(response.error_code)
    if error is not None:
        return {group: GroupDescription(group, error=error) for group in groups}
    listed = {answer.group_id: answer for answer in response.groups}
    return {
        group: _listed(listed[group]) if group in listed else GroupDescription(group, listed=False) for group in groups
    }


def _listed(answer: Any) -> GroupDescription:
    kind = GroupKind(answer.group_type.lower())
    named = answer.protocol_type or ("" if kind is GroupKind.CLASSIC else answer.group_type.lower())
    return GroupDescription(answer.group_id, answer.group_state or UNKNOWN, kind, named, listed=True)


class _Itself:
    """The :class:`.fan_out.Locator` of brokers: each answers for itself."""

    async def locate(self, pieces: Collection[int], deadline: Deadline) -> Mapping[int, int | ResponseError]:
        return {node: node for node in pieces}

    def drop(self, pieces: Iterable[int]) -> None:
        pass


def undescribed(group: str, error: ResponseError) -> GroupDescription:
    """A group for which there is only an error."""
    return GroupDescription(group, error=error)


async def look_up_listed(session: Session, groups: Collection[str]) -> dict[str, GroupDescription]:
    """Look up groups that can't be described in their coordinators' lists; returns an element for every group, by the
    deadline. Brokers that don't report types (before Kafka 3.8) aren't asked: all their groups can be described.
    """

    async def ask(node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, GroupDescription]:
        version = await session.transport.version_if_any(node, ListGroupsRequest, attempt, at_least=_TELLS_TYPES)
        if version is None:
            return {group: GroupDescription(group) for group in groups}
        response = await session.transport.send(node, ListGroupsRequest[version](), attempt)
        return parse_listed(response, groups)

    return await FanOut(session, session.coordinators, ask, lambda found: found.error, undescribed).run(groups)


async def fetch_groups(session: Session) -> list[str]:
    """Ids of all groups that read topics or commit offsets, in order. Asks all brokers concurrently.

    :raises OffsetsError: naming the brokers that couldn't list their groups, and the leaderless partitions of the
        offsets topic, whose groups no broker lists; or the offsets topic, when it can't be told whether there are any.
    """
    offsets_topic = await session.leaders.describe_all([_OFFSETS_TOPIC], session.deadline)

    async def ask(node: NodeId, brokers: list[int], attempt: Deadline) -> Mapping[int, BrokerGroups]:
        version = await session.transport.version(node, ListGroupsRequest, attempt)
        listed = parse_list_groups(await session.transport.send(node, ListGroupsRequest[version](), attempt))
        return dict.fromkeys(brokers, listed)

    locator: Locator[int] = _Itself()
    listed = await FanOut(
        session, locator, ask, lambda groups: groups.error, lambda _, error: BrokerGroups(frozenset(), error)
    ).run(session.transport.brokers())
    failures = [(f"broker {broker}", groups.error) for broker, groups in listed.items() if groups.error is not None]
    # The topic doesn't exist before the first group, and may not be describable: then the brokers' lists are trusted.
    failures += [each for each in offsets_topic.failures() if each[1].code not in _NOT_TO_BE_SEEN]
    failures += [
        (f"{topic.topic}-{partition.partition}", partition.error)
        for topic in offsets_topic
        for partition in topic.partitions
        if partition.error is not None
    ]
    if failures:
        raise OffsetsError("Listing groups", failures)
    return sorted(frozenset().union(*(groups.groups for groups in listed.values())))
