"""Messages that kafka-python 3.0 lacks, in its own schema language: those about kinds of groups that are newer
than it.

Each class has the name of its schema, which is a file in this folder. A request knows the class of its response.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.api_message import ApiMessage

from airflow_kafka_offsets.client.connection.kafka_python import OwnMessage

_Made: Any = type(ApiMessage)


def _request(api: str) -> Any:
    """The class of an API's requests."""
    response = _Made(f"{api}Response", (OwnMessage, ApiMessage), {"__module__": __name__}, load_json=__name__)
    fields = {"__module__": __name__, "response_class": response}
    return _Made(f"{api}Request", (OwnMessage, ApiMessage), fields, load_json=__name__)


ConsumerGroupDescribeRequest = _request("ConsumerGroupDescribe")
"""Key 69, KIP-848."""
ShareGroupDescribeRequest = _request("ShareGroupDescribe")
"""Key 77, KIP-932."""
StreamsGroupDescribeRequest = _request("StreamsGroupDescribe")
"""Key 89, KIP-1071."""
DescribeShareGroupOffsetsRequest = _request("DescribeShareGroupOffsets")
"""Key 90, KIP-932 and KIP-1226."""
