"""ListOffsets (key 2): the offset that satisfies a spec, from all partitions' leaders concurrently.

Versions: 0 lists segments, 1 looks up timestamps, 2 adds isolation levels (KIP-98) and throttle times, 4 leader epochs
(KIP-320), 5 OFFSET_NOT_AVAILABLE (KIP-207), 7 max-timestamp (KIP-734), 8 earliest-local (KIP-405), 9 latest-tiered
(KIP-1005), 10 a timeout for remote storage (KIP-1075). Each request contains one spec and each partition at most once,
because brokers refuse duplicates as INVALID_REQUEST (E40). Log extents take three requests at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from airflow_kafka_offsets.client.connection.wire import Code, named_error, or_minus_one, or_none, response_error
from airflow_kafka_offsets.client.routing.fan_out import ask_leaders
from airflow_kafka_offsets.client.routing.metadata import Epochs
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ConfigurationError, ResponseError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents, SegmentOffsets, SegmentsOffsets
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
    # Version 0 answers a timestamp with the start of a log segment, which isn't what we ask for.
    SpecKind.TIMESTAMP: 1,
    SpecKind.MAX_TIMESTAMP: 7,
    SpecKind.EARLIEST_LOCAL: 8,
    SpecKind.LATEST_TIERED: 9,
}
"""The first version that supports each kind of spec. ``read_committed`` needs no minimum: brokers too old for isolation
levels are also too old for transactions, and their last stable offset is the high watermark."""
_BOTH_ENDS = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
"""High watermark and last stable offset."""
_NO_OFFSET = named_error(Code.UNKNOWN_SERVER_ERROR, "the broker gave no offset for the start or end of the log")
_SEGMENT_KINDS = (SpecKind.LATEST, SpecKind.EARLIEST, SpecKind.TIMESTAMP)
_MOST_SEGMENTS = 2**31 - 1
_FIRST_WITH_EPOCHS = 4


def list_offsets_request(
    partitions: Iterable[TopicPartition],
    version: int,
    timeout_ms: int,
    *,
    spec: OffsetSpec,
    isolation_level: IsolationLevel,
    epochs: Epochs,
    max_segments: int = 1,
) -> Any:
    """A request for one leader.

    :param timeout_ms: how long the broker may read from remote storage (v10+). At least 1 is sent, because 0 would mean
        the broker's default.
    :param epochs: the current leader epoch of a partition; None if unknown, which skips the broker's check.
    :param max_segments: maximum number of segments that version 0 lists.
    """
    timestamp = _WIRE_TIMESTAMPS[spec.kind] if spec.timestamp_ms is None else spec.timestamp_ms

    # Rows instead of kafka-python's objects: creating ten thousand objects takes longer than the rest of the request.
    def row(piece: TopicPartition) -> tuple[int, ...]:
        if version >= _FIRST_WITH_EPOCHS:
            return piece.partition, or_minus_one(epochs(piece)), timestamp
        return (piece.partition, timestamp) if version else (piece.partition, timestamp, max_segments)

    return ListOffsetsRequest[version](
        isolation_level=int(isolation_level is IsolationLevel.READ_COMMITTED),
        topics=[(topic, list(map(row, pieces))) for topic, pieces in by_topic(partitions).items()],
        timeout_ms=max(1, timeout_ms),
    )


def parse_list_offsets(response: Any, spec: OffsetSpec) -> dict[TopicPartition, ListedOffset]:
    """The answers of one leader."""
    return {
        TopicPartition(topic.name, answer.partition_index): _listed(topic.name, answer, spec)
        for topic in response.topics
        for answer in topic.partitions
    }


def _listed(topic: str, answer: Any, spec: OffsetSpec) -> ListedOffset:
    partition, asked_ms = answer.partition_index, spec.timestamp_ms
    if answer.error_code:
        return failed_listing(TopicPartition(topic, partition), spec, named_error(answer.error_code, ""))
    offset, timestamp, leader_epoch = or_none(answer.offset), or_none(answer.timestamp), or_none(answer.leader_epoch)
    if answer.version == 0:
        offset = next(iter(answer.old_style_offsets), None)
    outcome = ListOutcome.NO_RECORD if offset is None else ListOutcome.FOUND
    if offset is not None and asked_ms is not None and timestamp is not None and timestamp < asked_ms:
        outcome = ListOutcome.OLDER_THAN_ASKED
    return ListedOffset(topic, partition, spec, outcome, offset, timestamp, leader_epoch)


def failed_listing(partition: TopicPartition, spec: OffsetSpec, error: ResponseError) -> ListedOffset:
    """The element of a partition for which there is only an error."""
    return ListedOffset(*partition, spec, ListOutcome.ERROR, error=error)


async def fetch_list_offsets(
    session: Session, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation_level: IsolationLevel
) -> ListedOffsets:
    """An element for every partition, by the deadline."""
    listed = await ask_leaders(
        session,
        partitions,
        ListOffsetsRequest,
        build=partial(list_offsets_request, spec=spec, isolation_level=isolation_level, epochs=session.leaders.epoch),
        parse=lambda response: parse_list_offsets(response, spec),
        failed=lambda piece, error: failed_listing(piece, spec, error),
        at_least=_FLOORS.get(spec.kind, 0),
    )
    return ListedOffsets(listed)


def join_extents(starts: ListedOffsets, high_watermarks: ListedOffsets, stable: ListedOffsets) -> LogExtents:
    """One extent per partition: complete, or in error if any of its answers is."""

    def extent(start: ListedOffset) -> LogExtent:
        key = start.topic, start.partition
        high, last_stable = high_watermarks.lookup(*key), stable.lookup(*key)
        for answer in (start, high, last_stable):
            if answer is None or answer.offset is None:
                return LogExtent(*key, error=(answer and answer.error) or _NO_OFFSET)
        assert high is not None and last_stable is not None
        # Each answer is valid under its own epoch: under another, an intact log may look truncated, or the reverse.
        epoch = high.leader_epoch if high.leader_epoch == last_stable.leader_epoch else None
        return LogExtent(*key, start.offset, high.offset, last_stable.offset, epoch)

    return LogExtents(map(extent, starts))


async def fetch_extents(session: Session, partitions: Iterable[TopicPartition]) -> LogExtents:
    """Ask all leaders for starts and both ends at once; returns an element for every partition, by the deadline."""
    wanted = list(partitions)
    await session.leaders.locate(wanted, session.deadline)  # once, for all of the requests below
    works = [
        partial(fetch_list_offsets, session, wanted, OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
        *(partial(fetch_list_offsets, session, wanted, OffsetSpec.LATEST, level) for level in _BOTH_ENDS),
    ]
    return join_extents(*await session.beside(*works))


def refuse_segments_of(before: OffsetSpec, max_offsets: int) -> None:
    """Refuse arguments that version 0 would misunderstand: for example, "at most 0" gives none, as if there were none.

    :raises ConfigurationError: naming the argument.
    """
    if not isinstance(before, OffsetSpec) or before.kind not in _SEGMENT_KINDS:
        raise ConfigurationError(
            f"before= must be an OffsetSpec of kind {', '.join(_SEGMENT_KINDS)} (an instant), not {before!r}."
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
    """Start offsets of the segments written before an instant. Only version 0 can ask for this, and brokers support it
    up to Kafka 3.9. Returns an element for every partition, by the deadline.
    """
    segments = await ask_leaders(
        session,
        partitions,
        ListOffsetsRequest,
        build=partial(
            list_offsets_request,
            spec=before,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            epochs=session.leaders.epoch,
            max_segments=max_offsets,
        ),
        parse=parse_segment_offsets,
        failed=lambda piece, error: SegmentOffsets(*piece, error=error),
        at_most=0,
    )
    return SegmentsOffsets(segments)
