"""ListOffsets (key 2): the offset that satisfies a spec, asked of all partitions' leaders at the same time.

Versions: 0 lists segments, 1 looks up timestamps, 2 knows isolation levels (KIP-98) and tells throttle times, 4 knows
leader epochs (KIP-320), 5 OFFSET_NOT_AVAILABLE (KIP-207), 7 max-timestamp (KIP-734), 8 earliest-local (KIP-405), 9
latest-tiered (KIP-1005), 10 a timeout for remote storage (KIP-1075). A request carries one spec and no partition twice,
which brokers refuse as INVALID_REQUEST (E40). Where logs start and end are two or three of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from airflow_kafka_offsets.client.connection.response_errors import Code, named_error, response_error
from airflow_kafka_offsets.client.routing.fan_out import ask_leaders
from airflow_kafka_offsets.client.routing.metadata import Epochs
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.client.wire import or_minus_one, or_none
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
    # Version 0 answers a timestamp with the start of a log segment, which is another question's answer.
    SpecKind.TIMESTAMP: 1,
    SpecKind.MAX_TIMESTAMP: 7,
    SpecKind.EARLIEST_LOCAL: 8,
    SpecKind.LATEST_TIERED: 9,
}
"""The first version that knows a kind. ``read_committed`` needs no floor: brokers that are too old for isolation levels
are too old for transactions, and their last stable offset is the high watermark."""
BOTH_ENDS = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
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

    :param timeout_ms: what the broker may spend on remote storage (v10+); 0 would mean its own default.
    :param epochs: the current leader epoch of a partition; None when it isn't known, which skips the broker's check.
    :param max_segments: of how many segments version 0 tells.
    """
    timestamp = _WIRE_TIMESTAMPS[spec.kind] if spec.timestamp_ms is None else spec.timestamp_ms

    # Rows, not kafka-python's objects: making ten thousand of those takes longer than the rest of the request.
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


def join_extents(starts: ListedOffsets, ends: Mapping[IsolationLevel, ListedOffsets]) -> LogExtents:
    """One extent for each partition: complete, or in error when any of its answers is.

    :param ends: the answers to ``latest`` by isolation level.
    """

    def extent(start: ListedOffset) -> LogExtent:
        key = start.topic, start.partition
        found = {level: listed.lookup(*key) for level, listed in ends.items()}
        for answer in (start, *found.values()):
            if answer is None or answer.offset is None:
                return LogExtent(*key, error=(answer and answer.error) or _NO_OFFSET)
        told = {level: end for level, end in found.items() if end is not None}
        high_watermark, stable = (end and end.offset for end in map(told.get, BOTH_ENDS))
        return LogExtent(*key, start.offset, high_watermark, stable, _epoch_of(told.values()))

    return LogExtents(map(extent, starts))


def _epoch_of(ends: Iterable[ListedOffset]) -> int | None:
    """The epoch that all answers came under. None where the leader changed between them: each is right by its own, and
    under another one's a log would look as if it had been cut, or a cut one as if it hadn't."""
    epochs = {end.leader_epoch for end in ends}
    return epochs.pop() if len(epochs) == 1 else None


async def fetch_extents(
    session: Session, partitions: Iterable[TopicPartition], isolation_levels: Iterable[IsolationLevel] = BOTH_ENDS
) -> LogExtents:
    """Ask all leaders all questions at the same time; an element for every partition, by the deadline.

    :param isolation_levels: which ends to ask for.
    """
    wanted, levels = list(partitions), list(isolation_levels)
    await session.leaders.locate(wanted, session.deadline)  # once, not by each question
    asked = [(OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED), *((OffsetSpec.LATEST, level) for level in levels)]
    works = [partial(fetch_list_offsets, session, wanted, *question) for question in asked]
    starts, *ends = await session.beside(*works)
    return join_extents(starts, dict(zip(levels, ends, strict=True)))


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
