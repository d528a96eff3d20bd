"""Messages that kafka-python 3.0 lacks, in its own schema language: ConsumerGroupDescribe (key 69, KIP-848)."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

from airflow_kafka_offsets.client.connection.kafka_python import OwnMessage

_HERE = __name__


class ConsumerGroupDescribeResponse(OwnMessage, ApiMessage, load_json=_HERE):
    """Describes KIP-848 groups and their members."""


class ConsumerGroupDescribeRequest(OwnMessage, ApiMessage, load_json=_HERE):
    """Asks for descriptions of KIP-848 groups, whose members are assigned by the coordinator."""

    response_class = ConsumerGroupDescribeResponse


__all__ = ["ConsumerGroupDescribeRequest", "ConsumerGroupDescribeResponse"]
