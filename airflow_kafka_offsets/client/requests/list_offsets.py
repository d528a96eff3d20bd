"""ListOffsets (key 2): the offset that satisfies a spec, asked of all partitions' leaders at the same time.

Versions: 1 looks up timestamps (0 lists segments: :mod:`.list_offsets_v0`), 2 knows isolation levels (KIP-98) and tells
throttle times, 4 knows leader epochs (KIP-320), 5 OFFSET_NOT_AVAILABLE (KIP-207), 7 max-timestamp (KIP-734), 8
earliest-local (KIP-405), 9 latest-tiered (KIP-1005), 10 a timeout for remote storage (KIP-1075). A request carries one
spec and no partition twice, which brokers refuse as INVALID_REQUEST (E40). From version 6 on it is written and read by
:mod:`.list_offsets_bulk`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from airflow_kafka_offsets.client.connection.framing import BulkRequest
from airflow_kafka_offsets.client.connection.response_errors import named_error
from airflow_kafka_offsets.client.requests.list_offsets_bulk import (
    FIRST_VERSION,
    Listing,
    decode_list_offsets,
    encode_list_offsets,
)
from airflow_kafka_offsets.client.routing.leader_requests import LeaderRequest, ask_leaders
from airflow_kafka_offsets.client.routing.leaders import Epochs
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
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
) -> Any:
    """A request for one leader.

    :param timestamp: :func:`wire_timestamp` of the spec.
    :param epochs: the current leader epoch of a partition; None when it isn't known, which skips the broker's check.
    :param timeout_ms: what the broker may spend on remote storage (v10+); 0 would mean its own default.
    """
    topic_class = ListOffsetsRequest.ListOffsetsTopic

    def partition(piece: TopicPartition) -> Any:
        epoch = epochs(piece)
        return topic_class.ListOffsetsPartition(
            partition_index=piece.partition, current_leader_epoch=-1 if epoch is None else epoch, timestamp=timestamp
        )

    return ListOffsetsRequest[version](
        isolation_level=int(isolation_level is IsolationLevel.READ_COMMITTED),
        topics=[
            topic_class(name=topic, partitions=[partition(each) for each in pieces])
            for topic, pieces in by_topic(partitions).items()
        ],
        timeout_ms=max(1, timeout_ms),
    )


def parse_list_offsets(response: Any, spec: OffsetSpec) -> dict[TopicPartition, ListedOffset]:
    """The answers of one leader."""
    return {
        TopicPartition(topic.name, each.partition_index): listed_offset(
            spec,
            topic.name,
            each.partition_index,
            each.error_code,
            each.old_style_offsets[0] if each.old_style_offsets else each.offset,  # a list in version 0
            each.timestamp,
            each.leader_epoch,
        )
        for topic in response.topics
        for each in topic.partitions
    }


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


def failed_listing(piece: TopicPartition, spec: OffsetSpec, error: ResponseError) -> ListedOffset:
    """The element of a partition for which there is only an error."""
    return ListedOffset(piece.topic, piece.partition, spec, ListOutcome.ERROR, error=error)


async def fetch_list_offsets(
    session: Session, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation_level: IsolationLevel
) -> ListedOffsets:
    """An element for every partition, by the deadline."""
    timestamp, element = wire_timestamp(spec), partial(listed_offset, spec)

    def build(pieces: list[TopicPartition], version: int, timeout_ms: int) -> Any:
        write = list_offsets_request if version < FIRST_VERSION else encode_list_offsets
        epochs = session.leaders.epoch
        written = write(pieces, timestamp, isolation_level, epochs=epochs, timeout_ms=timeout_ms, version=version)
        if version < FIRST_VERSION:
            return written
        return BulkRequest(ListOffsetsRequest[version](), lambda body: decode_list_offsets(body, element), written)

    def parse(answer: Any) -> Any:
        return answer.listed if isinstance(answer, Listing) else parse_list_offsets(answer, spec)

    request: LeaderRequest[ListedOffset] = LeaderRequest(
        ListOffsetsRequest,
        build=build,
        parse=parse,
        failed=lambda piece, error: failed_listing(piece, spec, error),
        at_least=_FLOORS.get(spec.kind, 0),
    )
    return ListedOffsets(await ask_leaders(session, request, partitions))
