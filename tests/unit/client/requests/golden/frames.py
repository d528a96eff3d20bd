"""Golden frames as tests take them: the JSON files beside this one, which ``python -m dev.golden_frames`` writes.

Which classes speak an API is said here too; a new one is entered in :data:`CLASSES`, and its frames are tested.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse

from airflow_kafka_offsets.client.requests.messages import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)

FOLDER = Path(__file__).parent

CLASSES = {
    "consumer_group_describe": (ConsumerGroupDescribeRequest, ConsumerGroupDescribeRequest.response_class),
    "describe_configs": (DescribeConfigsRequest, DescribeConfigsResponse),
    "describe_groups": (DescribeGroupsRequest, DescribeGroupsResponse),
    "describe_producers": (DescribeProducersRequest, DescribeProducersResponse),
    "describe_share_group_offsets": (DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequest.response_class),
    "find_coordinator": (FindCoordinatorRequest, FindCoordinatorResponse),
    "list_groups": (ListGroupsRequest, ListGroupsResponse),
    "list_offsets": (ListOffsetsRequest, ListOffsetsResponse),
    "metadata": (MetadataRequest, MetadataResponse),
    "offset_commit": (OffsetCommitRequest, OffsetCommitResponse),
    "offset_fetch": (OffsetFetchRequest, OffsetFetchResponse),
    "offset_for_leader_epoch": (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    "share_group_describe": (ShareGroupDescribeRequest, ShareGroupDescribeRequest.response_class),
    "streams_group_describe": (StreamsGroupDescribeRequest, StreamsGroupDescribeRequest.response_class),
}
"""Request and response class of each API: kafka-python's, or ours where it has none."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One golden frame.

    :param api: name of its file.
    :param kind: ``request`` or ``response``.
    :param what: what it shows.
    :param fields: the message, as Kafka's converters to JSON name its fields.
    :param bytes: header and body.
    """

    api: str
    kind: str
    version: int
    what: str
    fields: Mapping[str, Any]
    bytes: bytes

    def __str__(self) -> str:
        return f"{self.api}-{self.kind}-v{self.version}-{self.what}"

    @property
    def message_class(self) -> Any:
        return CLASSES[self.api][self.kind == "response"]

    def decode(self) -> Any:
        """The message as its class reads it."""
        return self.message_class.decode(self.bytes, version=self.version, header=True)


def frames(api: str, kind: str, *what: str, since: int = 0, until: int = 32767) -> list[Frame]:
    """Frames of one API; those that show one of some things, or all."""
    entries = json.loads((FOLDER / f"{api}.json").read_text(encoding="utf-8"))
    return [
        Frame(api, kind, each["version"], each["what"], each["fields"], bytes.fromhex(each["frame"]))
        for each in entries
        if each["message"] == kind and (not what or each["what"] in what) and since <= each["version"] <= until
    ]


def every(frames: list[Frame]) -> pytest.MarkDecorator:
    """Run a test on each frame. There must be some: a name that fits none would test nothing."""
    assert frames
    return pytest.mark.parametrize("frame", frames, ids=str)


def encoded(request: Any) -> bytes:
    """Header and body of a request, with the client and correlation ids that the golden ones have."""
    request.with_header(correlation_id=7, client_id="golden")
    return bytes(request.encode(header=True))
