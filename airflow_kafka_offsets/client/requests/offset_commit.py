"""OffsetCommit (key 8): write a group's offsets, asked of its coordinator.

Written as an administrator writes them: without a member id and generation, which Kafka takes only while the group has
no active members. Versions: 2 is the first without timestamps of the client's own, 6 knows leader epochs (KIP-320), 10
takes topic ids instead of names: it is spoken when the caller knows the ids, and then refuses to commit offsets of a
topic that was re-created since.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.response_errors import left_out, response_error
from airflow_kafka_offsets.client.connection.transport import NodeId
from airflow_kafka_offsets.client.requests.offset_fetch import TopicIds, newest_version, passing_error
from airflow_kafka_offsets.client.routing.fan_out import FanOut
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.client.wire import or_minus_one
from airflow_kafka_offsets.errors import CommitRefusedError, ConfigurationError, ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic

_OLDEST, _TOPIC_IDS = 2, 10
_HAS_MEMBERS = frozenset({22, 25, 27, 68, 86, 113})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS and STALE_MEMBER_EPOCH: what a group with active members
says to a commit that comes from none of them, classic or KIP-848. NON_EMPTY_GROUP and GROUP_SUBSCRIBED_TO_TOPIC: what
it says to a deletion."""


class WrittenOffsets(CommittedOffsets):
    """What became of each commit: the offset as written, or the error."""

    asked = "Committing offsets"


def offset_commit_request(
    group: str, offsets: CommittedOffsets, version: int, topic_ids: TopicIds | None = None
) -> Any:
    """A request for one group.

    :raises ConfigurationError: when an element has no offset.
    """
    topic_class = OffsetCommitRequest.OffsetCommitRequestTopic

    def partition(piece: TopicPartition) -> Any:
        commit = offsets.lookup(*piece)
        if commit is None or commit.offset is None:
            raise ConfigurationError(f"No offset is given for {piece}: an unknown offset can't be committed.")
        return topic_class.OffsetCommitRequestPartition(
            partition_index=commit.partition,
            committed_offset=commit.offset,
            committed_leader_epoch=or_minus_one(commit.leader_epoch),
            committed_metadata=commit.metadata,
        )

    return OffsetCommitRequest[version](
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            topic_class(
                name=topic,
                partitions=list(map(partition, pieces)),
                **({} if version < _TOPIC_IDS else {"topic_id": uuid.UUID((topic_ids or {})[topic])}),
            )
            for topic, pieces in by_topic(offsets.partitions()).items()
        ],
    )


def parse_offset_commit(offsets: CommittedOffsets, response: Any, topic_ids: TopicIds | None = None) -> WrittenOffsets:
    """What became of each commit."""
    names = {topic_id: topic for topic, topic_id in (topic_ids or {}).items()}
    errors = {
        TopicPartition(topic.name or names.get(str(topic.topic_id), ""), answer.partition_index): answer.error_code
        for topic in response.topics
        for answer in topic.partitions
    }
    return WrittenOffsets(
        _written(offsets, piece, response_error(errors[piece]) if piece in errors else left_out("the coordinator"))
        for piece in offsets.partitions()
    )


def _written(offsets: CommittedOffsets, piece: TopicPartition, error: ResponseError | None) -> CommittedOffset:
    asked = offsets.lookup(*piece)
    if error is not None or asked is None:
        return CommittedOffset(piece.topic, piece.partition, error=error)
    return asked


def refuse_active_group(group: str, written: WrittenOffsets) -> WrittenOffsets:
    """What became of a group's commits.

    :raises CommitRefusedError: when the group has active members.
    """
    for commit in written:
        if commit.error is not None and commit.error.code in _HAS_MEMBERS:
            raise CommitRefusedError(
                f"Group {group} has active members, so Kafka refused to change its offsets "
                f"({commit.error}). Stop its consumers, wait until the group is empty (their session times "
                "out), and try again."
            )
    return written


async def send_commit(
    session: Session, group: str, offsets: CommittedOffsets, topic_ids: TopicIds | None = None
) -> WrittenOffsets:
    """Ask the group's coordinator. Asking twice does no harm: the same offsets are written again."""
    newest = newest_version(offsets.partitions(), topic_ids)
    known = WrittenOffsets()

    def failed(_: str, error: ResponseError) -> WrittenOffsets:
        done = known.ok()
        return WrittenOffsets(
            _written(offsets, piece, None if piece in done else error) for piece in offsets.partitions()
        )

    async def ask(node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, WrittenOffsets]:
        version = await session.transport.version(node, OffsetCommitRequest, attempt, at_least=_OLDEST, at_most=newest)
        nonlocal known
        response = await session.transport.send(
            node, offset_commit_request(group, offsets, version, topic_ids), attempt
        )
        known = parse_offset_commit(offsets, response, topic_ids)
        return {group: known}

    results = await FanOut(session, session.coordinators, ask, passing_error, failed).run([group])
    return results[group]
