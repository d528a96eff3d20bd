"""DeleteRecords (key 21, KIP-107): move the log start forwards, asked of the leaders. What lies before it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest

from airflow_kafka_offsets.client.connection.response_errors import response_error
from airflow_kafka_offsets.client.requests.partitions_by_topic import by_topic
from airflow_kafka_offsets.client.routing.leader_requests import LeaderRequest, ask_leaders
from airflow_kafka_offsets.client.routing.session import Call
from airflow_kafka_offsets.offsets.answers.log_extents import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import TopicPartition


def delete_records_request(offsets: Mapping[TopicPartition, int], timeout_ms: int, version: int) -> Any:
    """A request for one leader."""
    topic_class = DeleteRecordsRequest.DeleteRecordsTopic
    partition_class = topic_class.DeleteRecordsPartition
    return DeleteRecordsRequest[version](
        topics=[
            topic_class(
                name=topic,
                partitions=[partition_class(partition_index=each.partition, offset=offsets[each]) for each in pieces],
            )
            for topic, pieces in by_topic(offsets).items()
        ],
        timeout_ms=timeout_ms,
    )


def parse_delete_records(response: Any) -> dict[TopicPartition, LogExtent]:
    """Each partition's new log start."""
    return {
        TopicPartition(topic.name, each.partition_index): LogExtent(
            topic.name,
            each.partition_index,
            log_start_offset=each.low_watermark if each.low_watermark >= 0 else None,
            error=response_error(each.error_code),
        )
        for topic in response.topics
        for each in topic.partitions
    }


async def send_delete_records(call: Call, offsets: Mapping[TopicPartition, int]) -> LogExtents:
    """Ask all leaders at the same time. Asking twice does no harm."""

    def build(pieces: list[TopicPartition], version: int, timeout_ms: int) -> Any:
        return delete_records_request({each: offsets[each] for each in pieces}, timeout_ms, version)

    request = LeaderRequest(
        DeleteRecordsRequest,
        build=build,
        parse=parse_delete_records,
        failed=lambda piece, error: LogExtent(*piece, error=error),
    )
    return LogExtents(await ask_leaders(call, request, offsets))
