"""ListOffsets in bulk says and reads just what kafka-python's own codec does, on every flexible version."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from airflow_kafka_offsets.client.requests.list_offsets import (
    FIRST_BULK_VERSION,
    decode_list_offsets,
    encode_list_offsets,
    list_offsets_request,
    listed_offset,
    parse_list_offsets,
    wire_timestamp,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from tests.unit.client.requests.golden.frames import Frame, every, frames

VERSIONS = st.integers(FIRST_BULK_VERSION, ListOffsetsRequest.max_version)
TOPICS = st.text("aü-.7", min_size=1, max_size=200)
PARTITIONS = st.dictionaries(
    st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1)), st.none() | st.integers(0, 99)
)
SPECS = st.sampled_from([OffsetSpec.LATEST, OffsetSpec.EARLIEST, OffsetSpec.at(1_795_240_800_000)])
NUMBERS = st.integers(-1, 2**62)
LATEST = partial(listed_offset, OffsetSpec.LATEST)

TOPIC = ListOffsetsResponse.ListOffsetsTopicResponse
ANSWERS = st.builds(
    TOPIC.ListOffsetsPartitionResponse,
    partition_index=st.integers(0, 500),
    error_code=st.sampled_from([0, 0, 3, 6, 78, -1]),
    timestamp=NUMBERS,
    offset=NUMBERS,
    leader_epoch=st.integers(-1, 2**31 - 1),
)
RESPONSES = st.builds(
    ListOffsetsResponse,
    throttle_time_ms=st.integers(0, 2**31 - 1),
    topics=st.lists(st.builds(TOPIC, name=TOPICS, partitions=st.lists(ANSWERS)), unique_by=lambda topic: topic.name),
)


class TestRequests:
    @given(PARTITIONS, SPECS, st.sampled_from(IsolationLevel), VERSIONS)
    def test_are_the_bytes_that_kafka_python_writes(
        self,
        partitions: dict[TopicPartition, int | None],
        spec: OffsetSpec,
        isolation_level: IsolationLevel,
        version: int,
    ) -> None:
        asked: dict[str, Any] = {"epochs": partitions.get, "timeout_ms": 1500, "version": version}
        timestamp = wire_timestamp(spec)
        theirs = list_offsets_request(partitions, timestamp, isolation_level, **asked)
        assert encode_list_offsets(partitions, timestamp, isolation_level, **asked) == bytes(theirs.encode())


class TestResponses:
    @given(RESPONSES, SPECS, VERSIONS)
    def test_are_read_as_kafka_python_reads_them(self, response: Any, spec: OffsetSpec, version: int) -> None:
        body = bytes(response.encode(version=version))
        read = decode_list_offsets(body, partial(listed_offset, spec))
        assert read.elements == parse_list_offsets(ListOffsetsResponse.decode(body, version=version), spec)
        assert read.throttle_time_ms == response.throttle_time_ms

    @every(frames("list_offsets", "response", since=FIRST_BULK_VERSION))
    def test_of_kafka_itself_are_read_too(self, frame: Frame) -> None:
        flexible_header = 5
        read = decode_list_offsets(frame.bytes[flexible_header:], LATEST)
        assert read.elements == parse_list_offsets(frame.decode(), OffsetSpec.LATEST)

    def test_with_fields_of_later_versions_are_read_past_them(self) -> None:
        """KIP-482: a row with a tagged field is longer than the others."""
        row, tagged = bytes(26) + b"\0", bytes(26) + b"\1\5\2hi"
        body = bytes(4) + b"\2" + b"\2t" + b"\3" + tagged + row[:3] + b"\1" + row[4:] + b"\0" + b"\0"
        read = decode_list_offsets(body, LATEST)
        assert sorted(read.elements) == [TopicPartition("t", 0), TopicPartition("t", 1)]

    @given(RESPONSES, st.data())
    def test_that_are_damaged_are_refused_or_read_and_nothing_else(self, response: Any, data: st.DataObject) -> None:
        body = bytearray(response.encode(version=11))
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] ^= data.draw(st.integers(1, 255))
        with contextlib.suppress(ValueError):
            decode_list_offsets(bytes(body[: data.draw(st.integers(at, len(body)))]), LATEST)

    def test_that_end_early_are_refused(self) -> None:
        with pytest.raises(ValueError, match="ends early"):
            decode_list_offsets(b"\0\0\0", LATEST)
