"""DescribeLogDirs (key 35, KIP-113, Kafka 1.0): sizes of logs on brokers' disks, from the partition leaders.

Each broker reports its own replicas. The leader's size matters, because retention by size is based on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.response_errors import Code, named_error
from airflow_kafka_offsets.client.routing.fan_out import FanOut
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.client.wire import numbers_by_topic
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.logs import LogSize, LogSizes
from airflow_kafka_offsets.offsets.partitions import TopicPartition

_HINTS = {
    Code.NOT_LEADER_OR_FOLLOWER: "the broker named as its leader has no replica of it",
    Code.CLUSTER_AUTHORIZATION_FAILED: "the connection's user may not describe log directories; "
    "it needs the ACL Describe on the cluster",
}


def describe_log_dirs_request(partitions: Iterable[TopicPartition], version: int) -> Any:
    """A request for one broker."""
    return DescribeLogDirsRequest[version](topics=numbers_by_topic(partitions))


def parse_describe_log_dirs(response: Any, asked: Iterable[TopicPartition]) -> dict[TopicPartition, LogSize]:
    """One broker's answer, with an element for each partition that it was asked about.

    Ignores copies that are still being moved to another directory of the broker.
    """
    sizes = {
        TopicPartition(topic.name, answer.partition_index): answer.partition_size
        for directory in response.results
        for topic in directory.topics
        for answer in topic.partitions
        if not answer.is_future_key
    }
    missing = _why_missing(response)
    return {
        piece: LogSize(*piece, sizes[piece]) if piece in sizes else LogSize(*piece, error=missing) for piece in asked
    }


def _why_missing(response: Any) -> ResponseError:
    """Why a partition is in none of the directories: the broker's error, a directory's error, or another leader.

    Before version 3, a missing permission gives an answer without directories; otherwise there is always one.
    """
    codes = (response.error_code, *(directory.error_code for directory in response.results))
    silent = Code.NOT_LEADER_OR_FOLLOWER if response.results else Code.CLUSTER_AUTHORIZATION_FAILED
    code = next(filter(None, codes), silent)
    return named_error(code, _HINTS.get(code, ""))


async def fetch_log_sizes(session: Session, partitions: Iterable[TopicPartition]) -> LogSizes:
    """Ask all leaders concurrently; returns an element for every partition, by the deadline."""

    async def ask(node: NodeId, pieces: list[TopicPartition], attempt: Deadline) -> Mapping[TopicPartition, LogSize]:
        version = await session.transport.version(node, DescribeLogDirsRequest, attempt)
        response = await session.transport.send(node, describe_log_dirs_request(pieces, version), attempt)
        return parse_describe_log_dirs(response, pieces)

    sizes: Mapping[TopicPartition, LogSize] = await FanOut(
        session, session.leaders, ask, lambda size: size.error, lambda piece, error: LogSize(*piece, error=error)
    ).run(partitions)
    return LogSizes(sizes.values())
