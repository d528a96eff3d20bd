"""ListOffsets version 0: the start offset of each log segment and the log's end, newest first, asked of the leaders.

The first version of the request answers another question than all later ones: not which record, but which segments
were written before a moment, at most ``max_num_offsets`` of them. Brokers speak it until Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from airflow_kafka_offsets.client.connection.response_errors import response_error
from airflow_kafka_offsets.client.requests.list_offsets import wire_timestamp
from airflow_kafka_offsets.client.routing.leader_requests import LeaderRequest, ask_leaders
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.logs import SegmentOffsets, SegmentsOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic
from airflow_kafka_offsets.offsets.specs import OffsetSpec, SpecKind

_KINDS = (SpecKind.LATEST, SpecKind.EARLIEST, SpecKind.TIMESTAMP)
_MOST_OFFSETS = 2**31 - 1


def refuse_segments_of(before: OffsetSpec, max_offsets: int) -> None:
    """Refuse what version 0 takes for something else: a broker answers "at most 0" with none, as if there were none.

    :raises ConfigurationError: naming the argument.
    """
    if not isinstance(before, OffsetSpec) or before.kind not in _KINDS:
        raise ConfigurationError(f"before= is {', '.join(_KINDS)} (an instant) as an OffsetSpec, not {before!r}.")
    if isinstance(max_offsets, bool) or not isinstance(max_offsets, int) or not 1 <= max_offsets <= _MOST_OFFSETS:
        raise ConfigurationError(f"max_offsets is a number from 1 to {_MOST_OFFSETS}, not {max_offsets!r}.")


def segment_offsets_request(partitions: Iterable[TopicPartition], before: OffsetSpec, max_offsets: int) -> Any:
    """A request for one leader."""
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    partition_class = topic_class.ListOffsetsPartition
    asked = {"timestamp": wire_timestamp(before), "max_num_offsets": max_offsets}
    return ListOffsetsRequest[0](
        topics=[
            topic_class(
                name=topic,
                partitions=[partition_class(partition_index=each.partition, **asked) for each in pieces],
            )
            for topic, pieces in by_topic(partitions).items()
        ]
    )


def parse_segment_offsets(response: Any) -> dict[TopicPartition, SegmentOffsets]:
    """The answers of one leader."""
    return {
        TopicPartition(topic.name, each.partition_index): SegmentOffsets(
            topic.name, each.partition_index, tuple(each.old_style_offsets), response_error(each.error_code)
        )
        for topic in response.topics
        for each in topic.partitions
    }


async def fetch_segment_offsets(
    session: Session, partitions: Iterable[TopicPartition], before: OffsetSpec, max_offsets: int
) -> SegmentsOffsets:
    """Ask all leaders at the same time; an element for every partition, by the deadline."""
    request = LeaderRequest(
        ListOffsetsRequest,
        build=lambda pieces, _, __: segment_offsets_request(pieces, before, max_offsets),
        parse=parse_segment_offsets,
        failed=lambda piece, error: SegmentOffsets(*piece, error=error),
        at_most=0,
    )
    return SegmentsOffsets(await ask_leaders(session, request, partitions))
