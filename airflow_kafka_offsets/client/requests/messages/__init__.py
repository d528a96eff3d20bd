"""Messages that kafka-python 3.0 lacks, in its own schema language: those that describe the kinds of groups that are
newer than it.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

from airflow_kafka_offsets.client.connection.kafka_python import OwnMessage

_HERE = __name__


class ConsumerGroupDescribeResponse(OwnMessage, ApiMessage, load_json=_HERE):
    """Describes KIP-848 groups and their members."""


class ConsumerGroupDescribeRequest(OwnMessage, ApiMessage, load_json=_HERE):
    """Asks for descriptions of KIP-848 groups, whose members are assigned by the coordinator (key 69)."""

    response_class = ConsumerGroupDescribeResponse


class ShareGroupDescribeResponse(OwnMessage, ApiMessage, load_json=_HERE):
    """Describes share groups and their members."""


class ShareGroupDescribeRequest(OwnMessage, ApiMessage, load_json=_HERE):
    """Asks for descriptions of share groups (key 77, KIP-932)."""

    response_class = ShareGroupDescribeResponse


class StreamsGroupDescribeResponse(OwnMessage, ApiMessage, load_json=_HERE):
    """Describes streams groups, their topologies and members."""


class StreamsGroupDescribeRequest(OwnMessage, ApiMessage, load_json=_HERE):
    """Asks for descriptions of streams groups (key 89, KIP-1071)."""

    response_class = StreamsGroupDescribeResponse


class DescribeShareGroupOffsetsResponse(OwnMessage, ApiMessage, load_json=_HERE):
    """Says how far share groups have come."""


class DescribeShareGroupOffsetsRequest(OwnMessage, ApiMessage, load_json=_HERE):
    """Asks how far share groups have come (key 90, KIP-932, KIP-1226)."""

    response_class = DescribeShareGroupOffsetsResponse


__all__ = [
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
]
