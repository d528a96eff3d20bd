"""The decoder of OffsetFetch answers, held against kafka-python's: the same commits, and no surprises."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from kafka.protocol.consumer import OffsetFetchResponse

from airflow_kafka_offsets.client.connection.wire import response_error
from airflow_kafka_offsets.client.requests.offset_fetch_bulk import decode_offset_fetch
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets, GroupOffsets

VERSIONS = (8, 9, 10)
GROUP = OffsetFetchResponse.OffsetFetchResponseGroup
TOPIC = GROUP.OffsetFetchResponseTopics
PARTITION = TOPIC.OffsetFetchResponsePartitions
IDS = [str(uuid.UUID(int=number)) for number in range(1, 6)]
NAMES = {IDS[0]: "flights", IDS[1]: "größer ✓", IDS[2]: "a" * 249}
"""Topic names by id; the other ids are of topics that nobody named."""

LONG = "ü" * 64
"""Its length takes two bytes to say."""
CODES = st.sampled_from([0, 0, 0, 3, 29, 88, -1, 9999])
METADATA = st.one_of(st.none(), st.just(""), st.just(LONG), st.just("x" * 16_384), st.text(max_size=20))
PARTITIONS = st.builds(
    PARTITION,
    partition_index=st.integers(0, 2**31 - 1),
    committed_offset=st.one_of(st.just(-1), st.integers(0, 2**63 - 1)),
    committed_leader_epoch=st.one_of(st.just(-1), st.integers(0, 2**31 - 1)),
    metadata=st.one_of(st.sampled_from(["", None]), METADATA),
    error_code=CODES,
)
TOPICS = st.builds(
    TOPIC,
    name=st.sampled_from(list(NAMES.values())),
    topic_id=st.sampled_from(IDS).map(uuid.UUID),
    partitions=st.lists(PARTITIONS, max_size=6, unique_by=lambda each: each.partition_index),
)
GROUPS = st.builds(
    GROUP,
    group_id=st.text(max_size=10),
    topics=st.lists(TOPICS, max_size=3, unique_by=(lambda each: each.name, lambda each: each.topic_id)),
    error_code=CODES,
)
ANSWERS = st.builds(
    OffsetFetchResponse,
    throttle_time_ms=st.integers(0, 2**31 - 1),
    groups=st.lists(GROUPS, max_size=4, unique_by=lambda each: each.group_id),
)
GOOD = OffsetFetchResponse(
    throttle_time_ms=7,
    groups=[
        GROUP(
            group_id="g",
            topics=[
                TOPIC(
                    name="flights",
                    topic_id=uuid.UUID(IDS[0]),
                    partitions=[
                        PARTITION(
                            partition_index=number,
                            committed_offset=40 + number,
                            committed_leader_epoch=1,
                            metadata=metadata,
                            error_code=0,
                        )
                        for number, metadata in enumerate(["", None, LONG])
                    ],
                )
            ],
            error_code=0,
        )
    ],
)
"""An answer with everything in it."""

versions = pytest.mark.parametrize("version", VERSIONS)
thorough = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])


def as_kafka_python_reads(body: bytes, version: int) -> dict[str, GroupOffsets]:
    """The groups of an answer, by kafka-python's decoder and the plainest of conversions."""
    response = OffsetFetchResponse.decode(body, version=version)
    return {each.group_id: _group(each, NAMES if version >= 10 else {}) for each in response.groups}


def _group(group: Any, names: Mapping[str, str]) -> GroupOffsets:
    if group.error_code:
        return GroupOffsets(group.group_id, error=response_error(group.error_code))
    return GroupOffsets(
        group.group_id,
        CommittedOffsets(
            _commit(topic.name if topic.topic_id is None else names.get(str(topic.topic_id), str(topic.topic_id)), each)
            for topic in group.topics
            for each in topic.partitions
        ),
    )


def _commit(topic: str, answer: Any) -> CommittedOffset:
    if answer.error_code or answer.committed_offset == -1:
        return CommittedOffset(topic, answer.partition_index, error=response_error(answer.error_code))
    epoch = None if answer.committed_leader_epoch == -1 else answer.committed_leader_epoch
    return CommittedOffset(topic, answer.partition_index, answer.committed_offset, epoch, answer.metadata or "")


def encoded(answer: Any, version: int) -> bytes:
    return bytes(answer.encode(version=version))


class TestAnswers:
    @thorough
    @given(ANSWERS, st.sampled_from(VERSIONS))
    @example(GOOD, 8)
    @example(GOOD, 10)
    def test_are_read_as_kafka_python_reads_them(self, answer: Any, version: int) -> None:
        body = encoded(answer, version)
        fetched = decode_offset_fetch(body, version, NAMES)
        assert fetched.throttle_time_ms == answer.throttle_time_ms
        assert fetched.groups == as_kafka_python_reads(body, version)

    @versions
    def test_what_follows_an_answer_is_not_read(self, version: int) -> None:
        """As kafka-python has it."""
        body = encoded(GOOD, version)
        assert decode_offset_fetch(body + b"\xff" * 9, version, NAMES) == decode_offset_fetch(body, version, NAMES)

    @pytest.mark.parametrize("metadata", [b"\1", b"\0", b"\3ab"], ids=["empty", "null", "some"])
    def test_fields_that_are_newer_than_this_client_are_passed_over(self, metadata: bytes) -> None:
        """KIP-482: tags at every level. kafka-python can't write them."""
        fetched = decode_offset_fetch(answer_with_tags(metadata, b"\2\5\3new\x81\1\0"), 9)
        assert fetched == decode_offset_fetch(answer_with_tags(metadata, b"\0"), 9)
        assert [each.offset for each in fetched.groups["g"].offsets] == [42, 43]


def answer_with_tags(metadata: bytes, tags: bytes) -> bytes:
    """Two commits on one topic, with the same tags wherever tags may be."""
    rows = (bytes(3) + bytes([number]) + bytes(7) + bytes([42 + number]) + b"\xff" * 4 for number in range(2))
    partitions = b"".join(row + metadata + bytes(2) + tags for row in rows)
    topics = b"\2" + b"\2a" + b"\3" + partitions + tags
    return bytes(4) + b"\2" + b"\2g" + topics + bytes(2) + tags + tags


class TestWhatIsNoAnswer:
    @versions
    def test_an_answer_that_ends_early_anywhere_is_a_value_error(self, version: int) -> None:
        body = encoded(GOOD, version)
        for end in range(len(body)):
            with pytest.raises(ValueError):
                decode_offset_fetch(body[:end], version, NAMES)

    @versions
    def test_any_changed_byte_is_read_or_a_value_error(self, version: int) -> None:
        body = encoded(GOOD, version)
        for at in range(len(body)):
            for byte in (0, 1, 0x7F, 0x80, 0xFF, body[at] ^ 1):
                read_or_refuse(body[:at] + bytes([byte]) + body[at + 1 :], version)

    @thorough
    @given(st.binary(max_size=200), st.sampled_from(VERSIONS))
    def test_any_bytes_are_read_or_a_value_error(self, body: bytes, version: int) -> None:
        read_or_refuse(body, version)

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(bytes(4) + b"\xff" * 1_000_000, id="a number without end"),
            pytest.param(bytes(4) + b"\x80" * 1_000_000, id="a number of nothing without end"),
            pytest.param(bytes(4) + b"\xff\xff\xff\xff\x0f" + bytes(1_000_000), id="four billion groups"),
            pytest.param(bytes(4) + b"\2\1\xff\xff\xff\xff\x0f" + bytes(1_000_000), id="four billion topics"),
            pytest.param(bytes(4) + b"\2\1\2\1\xff\xff\xff\xff\x0f" + bytes(1_000_000), id="four billion partitions"),
            pytest.param(bytes(4) + b"\2\xff\xff\xff\xff\x0f" + bytes(1_000_000), id="a name of four gigabytes"),
            pytest.param(bytes(4) + b"\1\xff\xff\xff\xff\x0f" + b"\1" * 100_000, id="four billion tags"),
        ],
    )
    @versions
    def test_sizes_that_can_not_be_cost_no_time(self, body: bytes, version: int) -> None:
        started = time.thread_time()
        read_or_refuse(body, version)
        assert time.thread_time() - started < 1


def read_or_refuse(body: bytes, version: int) -> None:
    with contextlib.suppress(ValueError):
        decode_offset_fetch(body, version, NAMES)
