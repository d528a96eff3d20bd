"""OffsetDelete (key 47, KIP-496): forget a group's commits on some partitions, asked of its coordinator.

Kafka refuses it for topics that an active member subscribes to. Forgetting what isn't there is no error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.consumer import OffsetDeleteRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.response_errors import left_out, response_error
from airflow_kafka_offsets.client.connection.transport import NodeId
from airflow_kafka_offsets.client.requests.offset_commit import WrittenOffsets
from airflow_kafka_offsets.client.requests.offset_fetch import passing_error
from airflow_kafka_offsets.client.routing.fan_out import FanOut
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.client.wire import numbers_by_topic
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset
from airflow_kafka_offsets.offsets.partitions import TopicPartition


def offset_delete_request(group: str, partitions: Collection[TopicPartition], version: int) -> Any:
    """A request for one group."""
    return OffsetDeleteRequest[version](group_id=group, topics=numbers_by_topic(partitions))


def parse_offset_delete(partitions: Collection[TopicPartition], response: Any) -> WrittenOffsets:
    """What became of each partition: no offset and no error, or the error. One of the group is each partition's."""
    error = response_error(response.error_code)
    if error is not None:
        return _failed(partitions, error)
    codes = {
        TopicPartition(topic.name, answer.partition_index): answer.error_code
        for topic in response.topics
        for answer in topic.partitions
    }
    return WrittenOffsets(
        CommittedOffset(*piece, error=response_error(codes[piece]) if piece in codes else left_out("the coordinator"))
        for piece in partitions
    )


def _failed(partitions: Collection[TopicPartition], error: ResponseError) -> WrittenOffsets:
    return WrittenOffsets(CommittedOffset(*piece, error=error) for piece in partitions)


async def send_delete(session: Session, group: str, partitions: Collection[TopicPartition]) -> WrittenOffsets:
    """Ask the group's coordinator. Asking twice does no harm."""

    async def ask(node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, WrittenOffsets]:
        version = await session.transport.version(node, OffsetDeleteRequest, attempt)
        response = await session.transport.send(node, offset_delete_request(group, partitions, version), attempt)
        return {group: parse_offset_delete(partitions, response)}

    def failed(_: str, error: ResponseError) -> WrittenOffsets:
        return _failed(partitions, error)

    results = await FanOut(session, session.coordinators, ask, passing_error, failed).run([group])
    return results[group]
