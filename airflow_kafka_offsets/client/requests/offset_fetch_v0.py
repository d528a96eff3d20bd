"""OffsetFetch version 0: commits that old consumers kept in ZooKeeper, asked of any broker.

Spoken by brokers in ZooKeeper mode (until Kafka 3.9). Such a broker says UNKNOWN_TOPIC_OR_PARTITION of a partition that
doesn't exist and of one without a commit; the topics' metadata tells them apart.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from kafka.protocol.consumer import OffsetFetchRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.response_errors import UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION
from airflow_kafka_offsets.client.connection.transport import NodeId, RequestFailedError
from airflow_kafka_offsets.client.requests.offset_fetch import offset_fetch_request, parse_offset_fetch
from airflow_kafka_offsets.client.routing.any_broker import ask_any
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets, GroupOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition


async def fetch_zookeeper_offsets(session: Session, group: str, partitions: Collection[TopicPartition]) -> GroupOffsets:
    """A group's commits in ZooKeeper.

    :raises ClusterUnreachableError: when no broker answers by the deadline.
    """

    async def ask(node: NodeId, attempt: Deadline) -> GroupOffsets:
        try:
            await session.transport.version(node, OffsetFetchRequest, attempt, at_most=0)
        except RequestFailedError as failed:
            if failed.error.code != UNSUPPORTED_VERSION:
                raise
            return GroupOffsets(group, error=failed.error)
        request = offset_fetch_request(group, partitions, 0)
        return parse_offset_fetch(group, await session.transport.send(node, request, attempt))

    metadata, found = await session.beside(
        partial(session.leaders.describe, {each.topic for each in partitions}, session.deadline),
        partial(ask_any, session.transport, ask, session.deadline),
    )
    existing = {TopicPartition(topic.topic, each.partition) for topic in metadata for each in topic.partitions}
    commits = (_no_commit(each) if _is_missing(each, existing) else each for each in found.offsets)
    return GroupOffsets(group, CommittedOffsets(commits), found.error)


def _is_missing(commit: CommittedOffset, existing: Collection[TopicPartition]) -> bool:
    """Whether there is just no commit on a partition that exists."""
    unknown = commit.error is not None and commit.error.code == UNKNOWN_TOPIC_OR_PARTITION
    return unknown and TopicPartition(commit.topic, commit.partition) in existing


def _no_commit(commit: CommittedOffset) -> CommittedOffset:
    return CommittedOffset(commit.topic, commit.partition)
