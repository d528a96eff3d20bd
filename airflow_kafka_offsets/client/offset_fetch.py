"""OffsetFetch (key 9): what groups have committed, asked of their coordinators.

Versions: 1 is the first that reads Kafka's own commits (0 reads ZooKeeper), 2 can ask for everything a group committed,
5 knows leader epochs (KIP-320), 7 RequireStable (KIP-447), 8 several groups (KIP-709). Version 10 replaces topic names
by topic ids, which say nothing of a topic that was deleted since: this client stops at 9, and names it (E25).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest

from airflow_kafka_offsets.client.coordinators import Coordinators
from airflow_kafka_offsets.client.deadline import Deadline
from airflow_kafka_offsets.client.fan_out import FanOut, Question
from airflow_kafka_offsets.client.partitions_by_topic import by_topic
from airflow_kafka_offsets.client.response_errors import UNKNOWN_TOPIC_OR_PARTITION, response_error
from airflow_kafka_offsets.client.transport import NodeId, Transport
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.committed import CommittedOffset, CommittedOffsets, GroupOffsets, GroupsOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition

Wanted = Mapping[str, Iterable[TopicPartition] | None]
"""Partitions by group; None for everything that the group has committed."""

_NEWEST = 9
_BATCHED = 8


def offset_fetch_requests(wanted: Wanted, version: int) -> list[Any]:
    """One request for all groups, or one for each where the broker is too old."""
    if version >= _BATCHED:
        group_class = OffsetFetchRequest.OffsetFetchRequestGroup
        topic_class = group_class.OffsetFetchRequestTopics
        groups = [group_class(group_id=each, topics=_topics(wanted[each], topic_class)) for each in wanted]
        return [OffsetFetchRequest[version](groups=groups, require_stable=True)]
    topic_class = OffsetFetchRequest.OffsetFetchRequestTopic
    return [
        OffsetFetchRequest[version](group_id=group, topics=_topics(partitions, topic_class), require_stable=True)
        for group, partitions in wanted.items()
    ]


def _topics(partitions: Iterable[TopicPartition] | None, topic_class: Any) -> list[Any] | None:
    if partitions is None:
        return None
    return [
        topic_class(name=topic, partition_indexes=[each.partition for each in pieces])
        for topic, pieces in by_topic(partitions).items()
    ]


def parse_offset_fetch(groups: Iterable[str], responses: Iterable[Any]) -> dict[str, GroupOffsets]:
    """The commits of each group, whatever the version.

    :param groups: the groups in the order of the requests, which before version 8 is all that tells them apart.
    """
    answers: dict[str, GroupOffsets] = {}
    for group, response in zip(groups, responses, strict=False):
        if response.API_VERSION >= _BATCHED:
            return {each.group_id: _group(each.group_id, each) for each in response.groups}
        answers[group] = _group(group, response)
    return answers


def _group(group: str, answer: Any) -> GroupOffsets:
    error = response_error(answer.error_code or 0)
    if error is not None:
        return GroupOffsets(group, error=error)
    commits = (_commit(topic.name, each) for topic in answer.topics for each in topic.partitions)
    return GroupOffsets(group, CommittedOffsets(commits))


def _commit(topic: str, answer: Any) -> CommittedOffset:
    error = response_error(answer.error_code)
    if error is not None or answer.committed_offset < 0:
        return CommittedOffset(topic, answer.partition_index, error=error)
    epoch = answer.committed_leader_epoch
    return CommittedOffset(
        topic,
        answer.partition_index,
        answer.committed_offset,
        epoch if epoch is not None and epoch >= 0 else None,
        answer.metadata or "",
    )


def passing_error(offsets: GroupOffsets) -> ResponseError | None:
    """What is worth asking the group's coordinator again for: the group's own error, or a partition's that may pass,
    such as UNSTABLE_OFFSET_COMMIT while a transaction commits (E31). A missing topic isn't the coordinator's to find.
    """
    if offsets.error is not None:
        return offsets.error
    errors = (each.error for each in offsets.offsets if each.error is not None)
    return next((each for each in errors if each.retriable and each.code != UNKNOWN_TOPIC_OR_PARTITION), None)


async def fetch_offsets(
    transport: Transport, coordinators: Coordinators, wanted: Wanted, deadline: Deadline
) -> GroupsOffsets:
    """Ask all coordinators at the same time; an element for every group, by the deadline."""

    async def ask(node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, GroupOffsets]:
        floor = 2 if any(wanted[group] is None for group in groups) else 1
        version = await transport.version(node, OffsetFetchRequest, attempt, at_least=floor, at_most=_NEWEST)
        requests = offset_fetch_requests({group: wanted[group] for group in groups}, version)
        send = [partial(transport.send, node, request, attempt) for request in requests]
        return parse_offset_fetch(groups, await transport.gather(send))

    question = Question(ask, passing_error, lambda group, error: GroupOffsets(group, error=error))
    results = await FanOut(transport, coordinators, question, deadline).run(wanted)
    return GroupsOffsets(results.values())
