"""DescribeShareGroupOffsets (key 90, KIP-932): how far share groups have come, from their coordinators.

Version 1 (Kafka 4.2, KIP-1226) adds the lag, which nobody but the broker can count: records are finished in any order.
Version 0 has no such field, and isn't used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.wire import (
    Code,
    left_out,
    named_error,
    numbers_by_topic,
    or_none,
    response_error,
)
from airflow_kafka_offsets.client.requests.messages import DescribeShareGroupOffsetsRequest
from airflow_kafka_offsets.client.routing.fan_out import FanOut, error_within
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import (
    ShareGroupOffsets,
    ShareGroupsOffsets,
    ShareOffset,
    ShareOffsets,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition

Wanted = Mapping[str, Collection[TopicPartition] | None]
"""Partitions by group; None for all that the group has members on or had some."""

_HAS_LAG = 1
_LEFT_OUT = left_out("the coordinator")
_NO_LAG = named_error(
    Code.UNSUPPORTED_VERSION, "brokers before Kafka 4.2 don't count the lag of share groups (KIP-1226)"
)


def describe_share_group_offsets_request(wanted: Wanted, version: int) -> Any:
    """A request for some groups."""
    group_class = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    return DescribeShareGroupOffsetsRequest(
        version=version,
        groups=[
            group_class(group_id=group, topics=None if partitions is None else numbers_by_topic(partitions))
            for group, partitions in wanted.items()
        ],
    )


def parse_describe_share_group_offsets(wanted: Wanted, response: Any) -> dict[str, ShareGroupOffsets]:
    """How far each group in a response has come; a partition that was asked for and is missing is in error."""
    return {answer.group_id: _group(answer, wanted.get(answer.group_id)) for answer in response.groups}


def _group(answer: Any, wanted: Collection[TopicPartition] | None) -> ShareGroupOffsets:
    error = response_error(answer.error_code, answer.error_message)
    if error is not None:
        return ShareGroupOffsets(answer.group_id, error=error)
    found = [_offset(topic.topic_name, row) for topic in answer.topics for row in topic.partitions]
    missing = set(wanted or ()) - set(map(TopicPartition.of, found))
    found += [ShareOffset(*piece, error=_LEFT_OUT) for piece in missing]
    return ShareGroupOffsets(answer.group_id, ShareOffsets(found))


def _offset(topic: str, row: Any) -> ShareOffset:
    error, start = response_error(row.error_code, row.error_message), or_none(row.start_offset)
    if error is not None or start is None:
        return ShareOffset(topic, row.partition_index, error=error)
    return ShareOffset(topic, row.partition_index, start, or_none(row.lag), row.leader_epoch)


async def fetch_share_offsets(session: Session, wanted: Wanted) -> ShareGroupsOffsets:
    """Ask all coordinators concurrently; returns an element for every group, by the deadline."""

    async def ask(node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, ShareGroupOffsets]:
        transport = session.transport
        version = await transport.version_if_any(node, DescribeShareGroupOffsetsRequest, attempt, at_least=_HAS_LAG)
        if version is None:
            return {group: ShareGroupOffsets(group, error=_NO_LAG) for group in groups}
        asked = {group: wanted[group] for group in groups}
        request = describe_share_group_offsets_request(asked, version)
        return parse_describe_share_group_offsets(asked, await transport.send(node, request, attempt))

    def failed(group: str, error: ResponseError) -> ShareGroupOffsets:
        return ShareGroupOffsets(group, error=error)

    results = await FanOut(session, session.coordinators, ask, error_within, failed).run(wanted)
    return ShareGroupsOffsets(results.values())
