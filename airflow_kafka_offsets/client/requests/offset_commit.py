"""OffsetCommit (key 8): change a group's offsets, through its coordinator.

Requests are sent as an administrator's, without a member id and generation. Kafka accepts these only while the group
has no active members. The request is idempotent. Versions: 2 is the first without client timestamps, 6 adds leader
epochs (KIP-320), 10 replaces topic names with topic ids. Version 10 is used if the caller knows the ids; it refuses to
commit offsets of a topic that has since been re-created.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.wire import Code, left_out, or_minus_one, response_error
from airflow_kafka_offsets.client.requests.offset_fetch import TopicIds, newest_version
from airflow_kafka_offsets.client.requests.offset_fetch_bulk import TOPIC_IDS
from airflow_kafka_offsets.client.routing.fan_out import FanOut, passing_error
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import CommitRefusedError, ConfigurationError, ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic

_OLDEST_COMMIT = 2
_LEFT_OUT = left_out("the coordinator")
_REFUSES_COMMITS = (
    Code.ILLEGAL_GENERATION,
    Code.UNKNOWN_MEMBER_ID,
    Code.REBALANCE_IN_PROGRESS,
    Code.STALE_MEMBER_EPOCH,
)
"""Errors when a group with active members, classic or KIP-848, gets a commit that isn't from one of them."""
_NO_COMMITS = "there is no such group that commits offsets; share groups don't"


class WrittenOffsets(CommittedOffsets):
    """The result for each partition: the offset as written, or the error."""

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
        if commit is None or commit.offset is None or commit.offset < 0:
            raise ConfigurationError(f"No offset is given for {piece}; a commit needs one of 0 or more.")
        return topic_class.OffsetCommitRequestPartition(
            partition_index=commit.partition,
            committed_offset=commit.offset,
            committed_leader_epoch=or_minus_one(commit.leader_epoch),
            committed_metadata=commit.metadata,
        )

    return OffsetCommitRequest[version](
        group_id=group,
        topics=[
            topic_class(
                name=topic,
                partitions=list(map(partition, pieces)),
                **({} if version < TOPIC_IDS else {"topic_id": uuid.UUID((topic_ids or {})[topic])}),
            )
            for topic, pieces in by_topic(offsets.partitions()).items()
        ],
    )


def parse_offset_commit(offsets: CommittedOffsets, response: Any, topic_ids: TopicIds | None = None) -> WrittenOffsets:
    """The result of each commit."""
    names = {topic_id: topic for topic, topic_id in (topic_ids or {}).items()}
    errors = {
        TopicPartition(topic.name or names.get(str(topic.topic_id), ""), answer.partition_index): answer.error_code
        for topic in response.topics
        for answer in topic.partitions
    }
    hints = {Code.GROUP_ID_NOT_FOUND.value: _NO_COMMITS}
    return _written(offsets, {piece: response_error(code, hints.get(code)) for piece, code in errors.items()})


def _written(wanted: CommittedOffsets, errors: Mapping[TopicPartition, ResponseError | None]) -> WrittenOffsets:
    """The given elements, with errors in place of those that failed."""
    found = ((commit, errors.get(TopicPartition.of(commit), _LEFT_OUT)) for commit in wanted)
    return WrittenOffsets(
        commit if error is None else CommittedOffset(commit.topic, commit.partition, error=error)
        for commit, error in found
    )


async def send_commit(
    session: Session, group: str, offsets: CommittedOffsets, topic_ids: TopicIds | None = None
) -> WrittenOffsets:
    """Commit these offsets: retry until everything is written or refused, or until the deadline.

    :raises CommitRefusedError: when the group has active members.
    """
    newest, known = newest_version(offsets.partitions(), topic_ids), WrittenOffsets()

    async def ask(node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, WrittenOffsets]:
        nonlocal known
        version = await session.transport.version(
            node, OffsetCommitRequest, attempt, at_least=_OLDEST_COMMIT, at_most=newest
        )
        request = offset_commit_request(group, offsets, version, topic_ids)
        known = parse_offset_commit(offsets, await session.transport.send(node, request, attempt), topic_ids)
        return {group: known}

    def failed(_: str, error: ResponseError) -> WrittenOffsets:
        done = known.ok()
        return _written(offsets, {piece: None if piece in done else error for piece in offsets.partitions()})

    found = await FanOut(session, session.coordinators, ask, passing_error, failed).run([group])
    for commit in found[group]:
        if commit.error is not None and commit.error.code in _REFUSES_COMMITS:
            raise CommitRefusedError(
                f"Group {group} has active members, so Kafka refused to change its offsets "
                f"({commit.error}). Stop its consumers, wait until the group is empty (their session times "
                "out), and try again."
            )
    return found[group]
