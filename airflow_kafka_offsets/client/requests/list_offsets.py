"""ListOffsets (key 2): the offset that satisfies a spec, asked of all partitions' leaders at the same time.

Versions: 0 lists segments, 1 looks up timestamps, 2 knows isolation levels (KIP-98) and tells throttle times, 4 knows
leader epochs (KIP-320), 5 OFFSET_NOT_AVAILABLE (KIP-207), 7 max-timestamp (KIP-734), 8 earliest-local (KIP-405), 9
latest-tiered (KIP-1005), 10 a timeout for remote storage (KIP-1075). A request carries one spec and no partition twice,
which brokers refuse as INVALID_REQUEST (E40).

From version 6 on it is written and read in bulk: a snapshot of ten thousand partitions asks each of them four or five
times, and making an object of every question and every answer is most of what it costs. The layouts are fixed
(flexible, KIP-482), so that the partitions of a topic are one run of equal rows. Older versions are left to
kafka-python; tests hold this codec against it on every version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from airflow_kafka_offsets.client.connection.kafka_python import BulkRequest
from airflow_kafka_offsets.client.connection.response_errors import named_error, response_error
from airflow_kafka_offsets.client.requests.wire import NO_TAGS, BulkAnswer, Reader, array, text
from airflow_kafka_offsets.client.routing.fan_out import ask_leaders
from airflow_kafka_offsets.client.routing.metadata import Epochs
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ConfigurationError, ResponseError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import SegmentOffsets, SegmentsOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec, SpecKind

_WIRE_TIMESTAMPS = {
    SpecKind.LATEST: -1,
    SpecKind.EARLIEST: -2,
    SpecKind.MAX_TIMESTAMP: -3,
    SpecKind.EARLIEST_LOCAL: -4,
    SpecKind.LATEST_TIERED: -5,
}
_FLOORS = {
    # Version 0 answers a timestamp with the start of a log segment, which is another question's answer.
    SpecKind.TIMESTAMP: 1,
    SpecKind.MAX_TIMESTAMP: 7,
    SpecKind.EARLIEST_LOCAL: 8,
    SpecKind.LATEST_TIERED: 9,
}
"""The first version that knows a kind. ``read_committed`` needs no floor: brokers that are too old for isolation levels
are too old for transactions, and their last stable offset is the high watermark."""
_FOUND, _NO_RECORD = ListOutcome.FOUND, ListOutcome.NO_RECORD
"""Kept, because Python 3.11 takes as long to look a member of an enum up as to make the element."""
_SEGMENT_KINDS = (SpecKind.LATEST, SpecKind.EARLIEST, SpecKind.TIMESTAMP)
_MOST_SEGMENTS = 2**31 - 1

FIRST_BULK_VERSION = 6
_FIRST_WITH_TIMEOUT = 10
_HEAD = struct.Struct(">ib")
_CLIENT = -1
"""The replica id of whoever isn't a broker."""
_QUESTION = struct.Struct(">iiqB")
"""Index, current leader epoch, timestamp, number of tags."""
_ANSWER = struct.Struct(">ihqqiB")
"""Index, error code, timestamp, offset, leader epoch, number of tags."""
_PLAIN = {26: NO_TAGS}
_FIELDS = struct.Struct(">ihqqi")
_NUMBER = struct.Struct(">i")


def wire_timestamp(spec: OffsetSpec) -> int:
    """Kafka's number for a spec: the instant itself, or a negative one."""
    return _WIRE_TIMESTAMPS[spec.kind] if spec.timestamp_ms is None else spec.timestamp_ms


def list_offsets_request(
    partitions: Iterable[TopicPartition],
    timestamp: int,
    isolation_level: IsolationLevel,
    *,
    epochs: Epochs,
    timeout_ms: int,
    version: int,
    max_segments: int = 1,
) -> Any:
    """A request for one leader.

    :param timestamp: :func:`wire_timestamp` of the spec.
    :param epochs: the current leader epoch of a partition; None when it isn't known, which skips the broker's check.
    :param timeout_ms: what the broker may spend on remote storage (v10+); 0 would mean its own default.
    :param max_segments: of how many segments version 0 tells.
    """
    topic_class = ListOffsetsRequest.ListOffsetsTopic

    def question(partition: TopicPartition) -> Any:
        epoch = epochs(partition)
        return topic_class.ListOffsetsPartition(
            partition_index=partition.partition,
            current_leader_epoch=-1 if epoch is None else epoch,
            timestamp=timestamp,
            max_num_offsets=max_segments,
        )

    return ListOffsetsRequest[version](
        isolation_level=int(isolation_level is IsolationLevel.READ_COMMITTED),
        topics=[
            topic_class(name=topic, partitions=list(map(question, pieces)))
            for topic, pieces in by_topic(partitions).items()
        ],
        timeout_ms=max(1, timeout_ms),
    )


def encode_list_offsets(
    partitions: Iterable[TopicPartition],
    timestamp: int,
    isolation_level: IsolationLevel,
    *,
    epochs: Epochs,
    timeout_ms: int,
    version: int,
) -> bytes:
    """The body of a request from version 6 on; arguments as of :func:`list_offsets_request`."""

    def question(partition: TopicPartition) -> bytes:
        epoch = epochs(partition)
        return _QUESTION.pack(partition.partition, -1 if epoch is None else epoch, timestamp, 0)

    topics = [
        text(topic) + array(list(map(question, pieces))) + NO_TAGS for topic, pieces in by_topic(partitions).items()
    ]
    committed = isolation_level is IsolationLevel.READ_COMMITTED
    timeout = _NUMBER.pack(max(1, timeout_ms)) if version >= _FIRST_WITH_TIMEOUT else b""
    return _HEAD.pack(_CLIENT, committed) + array(topics) + timeout + NO_TAGS


def parse_list_offsets(response: Any, spec: OffsetSpec) -> dict[TopicPartition, ListedOffset]:
    """The answers of one leader, before version 6."""
    return {
        TopicPartition(topic.name, answer.partition_index): listed_offset(
            spec,
            topic.name,
            answer.partition_index,
            answer.error_code,
            answer.old_style_offsets[0] if answer.old_style_offsets else answer.offset,  # a list in version 0
            answer.timestamp,
            answer.leader_epoch,
        )
        for topic in response.topics
        for answer in topic.partitions
    }


def decode_list_offsets(
    body: bytes, element: Callable[[str, int, int, int, int, int], ListedOffset]
) -> BulkAnswer[TopicPartition, ListedOffset]:
    """The answers of one leader, from version 6 on.

    :param element: from topic, partition, error code, offset, timestamp and leader epoch, as they come.
    :raises ValueError: when the bytes are no such answer.
    """
    reader = Reader(body)
    (throttle_time_ms,) = reader.unpack(_NUMBER)
    listed: dict[TopicPartition, ListedOffset] = {}
    for _ in range(reader.array_size()):
        topic, count = reader.text(), reader.array_size()
        rows = reader.rows(count, _ANSWER, _PLAIN) or (_row_with_tags(reader) for _ in range(count))
        for index, code, timestamp, offset, epoch, _ in rows:
            listed[TopicPartition(topic, index)] = element(topic, index, code, offset, timestamp, epoch)
        reader.skip_tags()
    reader.skip_tags()
    return BulkAnswer(throttle_time_ms, listed)


def _row_with_tags(reader: Reader) -> tuple[int, ...]:
    fields = reader.unpack(_FIELDS)
    reader.skip_tags()
    return (*fields, 0)


def listed_offset(
    spec: OffsetSpec,
    topic: str,
    partition: int,
    code: int,
    offset: int | None,
    timestamp: int | None,
    leader_epoch: int | None,
) -> ListedOffset:
    """One partition's answer. None or -1 stands for what there is none of."""
    if code:
        return failed_listing(TopicPartition(topic, partition), spec, named_error(code, ""))
    if leader_epoch is not None and leader_epoch < 0:
        leader_epoch = None
    if timestamp is not None and timestamp < 0:
        timestamp = None
    if offset is None or offset < 0:
        return ListedOffset(topic, partition, spec, _NO_RECORD, None, timestamp, leader_epoch)
    asked_ms, outcome = spec.timestamp_ms, _FOUND
    if asked_ms is not None and timestamp is not None and timestamp < asked_ms:
        outcome = ListOutcome.OLDER_THAN_ASKED
    return ListedOffset(topic, partition, spec, outcome, offset, timestamp, leader_epoch)


def failed_listing(partition: TopicPartition, spec: OffsetSpec, error: ResponseError) -> ListedOffset:
    """The element of a partition for which there is only an error."""
    return ListedOffset(*partition, spec, ListOutcome.ERROR, error=error)


async def fetch_list_offsets(
    session: Session, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation_level: IsolationLevel
) -> ListedOffsets:
    """An element for every partition, by the deadline."""
    timestamp, element = wire_timestamp(spec), partial(listed_offset, spec)

    def build(pieces: list[TopicPartition], version: int, timeout_ms: int) -> Any:
        write = list_offsets_request if version < FIRST_BULK_VERSION else encode_list_offsets
        epochs = session.leaders.epoch
        written = write(pieces, timestamp, isolation_level, epochs=epochs, timeout_ms=timeout_ms, version=version)
        if version < FIRST_BULK_VERSION:
            return written
        return BulkRequest(ListOffsetsRequest[version](), lambda body: decode_list_offsets(body, element), written)

    listed: Iterable[ListedOffset] = await ask_leaders(
        session,
        partitions,
        ListOffsetsRequest,
        build=build,
        parse=lambda answer: answer.elements if isinstance(answer, BulkAnswer) else parse_list_offsets(answer, spec),
        failed=lambda piece, error: failed_listing(piece, spec, error),
        at_least=_FLOORS.get(spec.kind, 0),
    )
    return ListedOffsets(listed)


def refuse_segments_of(before: OffsetSpec, max_offsets: int) -> None:
    """Refuse what version 0 takes for something else: a broker answers "at most 0" with none, as if there were none.

    :raises ConfigurationError: naming the argument.
    """
    if not isinstance(before, OffsetSpec) or before.kind not in _SEGMENT_KINDS:
        raise ConfigurationError(
            f"before= must be {', '.join(_SEGMENT_KINDS)} (an instant) as an OffsetSpec, not {before!r}."
        )
    if isinstance(max_offsets, bool) or not isinstance(max_offsets, int) or not 1 <= max_offsets <= _MOST_SEGMENTS:
        raise ConfigurationError(f"max_offsets must be a number from 1 to {_MOST_SEGMENTS}, not {max_offsets!r}.")


def parse_segment_offsets(response: Any) -> dict[TopicPartition, SegmentOffsets]:
    """The answers of one leader in version 0."""
    return {
        TopicPartition(topic.name, answer.partition_index): SegmentOffsets(
            topic.name, answer.partition_index, tuple(answer.old_style_offsets), response_error(answer.error_code)
        )
        for topic in response.topics
        for answer in topic.partitions
    }


async def fetch_segment_offsets(
    session: Session, partitions: Iterable[TopicPartition], before: OffsetSpec, max_offsets: int
) -> SegmentsOffsets:
    """Where segments start that were written before a moment: what version 0 asks, and no later one. Brokers speak it
    until Kafka 3.9. An element for every partition, by the deadline.
    """

    def build(pieces: list[TopicPartition], version: int, timeout_ms: int) -> Any:
        return list_offsets_request(
            pieces,
            wire_timestamp(before),
            IsolationLevel.READ_UNCOMMITTED,
            epochs=session.leaders.epoch,
            timeout_ms=timeout_ms,
            version=version,
            max_segments=max_offsets,
        )

    segments = await ask_leaders(
        session,
        partitions,
        ListOffsetsRequest,
        build=build,
        parse=parse_segment_offsets,
        failed=lambda piece, error: SegmentOffsets(*piece, error=error),
        at_most=0,
    )
    return SegmentsOffsets(segments)
