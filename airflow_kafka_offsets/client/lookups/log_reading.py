"""Log reading: fetches record batches from all leaders at once (Fetch, key 1), in rounds, until every reader is done.

This module decides which leader to ask, in which requests and how often, and what an answer without a batch means. Each
reader decides what to take from batches: :mod:`.record_search` finds the first record, :mod:`.record_count` counts all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Self

from kafka.protocol.consumer import FetchRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.transport import failure_of
from airflow_kafka_offsets.client.connection.wire import Code, left_out, named_error
from airflow_kafka_offsets.client.records.record_batches import AbortedTransaction
from airflow_kafka_offsets.client.requests.fetch import (
    ANSWER_BYTES,
    FIRST_VERSION,
    LAST_VERSION,
    Fetched,
    fetch_request,
    parse_fetch,
)
from airflow_kafka_offsets.client.requests.list_offsets import fetch_extents, fetch_list_offsets
from airflow_kafka_offsets.client.routing.fan_out import FanOut
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ClusterUnreachableError, ResponseError
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

_REMOTE_STORAGE_MS = 5_000
"""How long a broker may read from remote storage for one answer. Kafka's own limit is 500 ms by default (KIP-1018)."""
_GROWTH = 4
"""Factor by which a reader's limit grows after a batch that didn't fit."""


class LogReader(ABC):
    """Reads the log from one position, and keeps track of its progress.

    :param position: where reading starts.
    :param limit_bytes: approximate number of bytes to fetch at a time.
    """

    def __init__(self, position: ReadPosition, limit_bytes: int) -> None:
        self.position = position
        self.piece = TopicPartition.of(position)
        self.offset = position.offset
        self.limit_bytes = limit_bytes
        self.times_left_out = 0
        self.error: ResponseError | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to read for now."""
        return self.has_answer or self.error is not None

    @property
    @abstractmethod
    def has_answer(self) -> bool:
        """Whether it has its answer."""

    @abstractmethod
    def read(self, records: bytes, aborted: Iterable[AbortedTransaction]) -> None:
        """Process batches and move past them, or record why they can't be read."""

    @abstractmethod
    def start_at(self, start: int) -> None:
        """Handle a log that starts past the current offset."""

    @abstractmethod
    def end_at(self, end: int) -> None:
        """Handle a visible log that ends here, with nothing at or after the current offset."""

    def recall(self) -> None:  # noqa: B027 - not every kind remembers
        """Move past offsets that are known to hold nothing."""

    def follow(self, other: Self) -> None:
        """Adopt the result of another reader that continued from the same offset."""
        self.offset, self.limit_bytes, self.error = other.offset, other.limit_bytes, other.error

    def leave_out(self, room_bytes: int) -> None:
        """Handle an answer without a batch for this reader: it was too large, or other partitions used up the space.

        :param room_bytes: space that was left in the answer.
        """
        self.times_left_out += 1
        if self.limit_bytes <= room_bytes:
            self.limit_bytes = min(self.limit_bytes * _GROWTH, ANSWER_BYTES)


Plan = Callable[[Sequence[LogReader]], Iterable[Sequence[LogReader]]]
"""Chooses, from one leader's unfinished readers, the readers for each of the next requests."""


async def read_logs(
    session: Session, readers: Iterable[LogReader], isolation_level: IsolationLevel, plan: Plan
) -> None:
    """Read until every reader is done, or until the deadline.

    :param readers: no two with the same position.
    :raises ClusterUnreachableError: when no broker could say which brokers to ask.
    """
    reading = _Reading(session, {reader.position: reader for reader in readers}, isolation_level, plan)
    await FanOut(session, session.leaders, reading.ask, lambda error: error, reading.fail).run(reading.readers)


def lanes(readers: Iterable[LogReader]) -> list[list[LogReader]]:
    """Group readers into as few requests as possible, lowest offsets first, with each partition once per request.

    The reader left out most often comes first in its request, because the first partition is never left out (KIP-74).
    """
    by_piece: dict[TopicPartition, list[LogReader]] = defaultdict(list)
    for reader in sorted(readers, key=lambda reader: reader.offset):
        by_piece[reader.piece].append(reader)
    return [_in_order(list(filter(None, lane))) for lane in zip_longest(*by_piece.values())]


def _in_order(lane: list[LogReader]) -> list[LogReader]:
    """Order the readers for a request: the one left out most often, then others of its topic, then the rest."""
    first = max(lane, key=lambda reader: reader.times_left_out)
    return sorted(lane, key=lambda reader: (reader.piece.topic != first.piece.topic, reader is not first, reader.piece))


class _Reading:
    """Reads for all readers. Each leader's readers proceed independently, as in any fan-out."""

    def __init__(
        self, session: Session, readers: Mapping[ReadPosition, LogReader], isolation_level: IsolationLevel, plan: Plan
    ) -> None:
        self._session = session
        self.readers = readers
        self._isolation_level = isolation_level
        self._plan = plan

    def fail(self, position: ReadPosition, error: ResponseError) -> ResponseError | None:
        """Record an error, unless the reader already has its answer."""
        reader = self.readers[position]
        if not reader.has_answer:
            reader.error = error
        return reader.error

    async def ask(
        self, node: NodeId, positions: list[ReadPosition], attempt: Deadline
    ) -> Mapping[ReadPosition, ResponseError | None]:
        """Read until every reader is done. Each request is an attempt of its own."""
        version = await self._session.transport.version(
            node, FetchRequest, attempt, at_least=FIRST_VERSION, at_most=LAST_VERSION
        )
        readers = [self.readers[position] for position in positions]
        for reader in readers:
            reader.error = None
        while waiting := [reader for reader in readers if not reader.is_done]:
            if not self._session.deadline.allows(0):
                for reader in waiting:
                    reader.error = named_error(Code.REQUEST_TIMED_OUT, f"only read up to offset {reader.offset}")
                break
            await self._read_on(node, waiting, version)
        return {reader.position: reader.error for reader in readers}

    async def _read_on(self, node: NodeId, waiting: Sequence[LogReader], version: int) -> None:
        """Send one round of requests. Readers at the same offset of a partition share one."""
        groups: dict[tuple[TopicPartition, int], list[LogReader]] = defaultdict(list)
        for reader in waiting:
            reader.recall()
            groups[reader.piece, reader.offset].append(reader)
        requests = self._plan([first for first, *_ in groups.values()])
        await self._session.transport.gather(partial(self._read, node, lane, version) for lane in requests)
        for first, *others in groups.values():
            for other in others:
                other.follow(first)

    async def _read(self, node: NodeId, lane: Sequence[LogReader], version: int) -> None:
        """Send one request, then ask further for readers whose result it leaves open."""
        answers = await self._fetch(node, lane, version)
        room_bytes = ANSWER_BYTES - sum(len(answer.records) for answer in answers.values())
        nobody_read, lost, empty = True, list[LogReader](), dict[LogReader, int | None]()
        for reader in lane:
            if not self._session.deadline.allows(0):
                break  # the remaining readers get no answer in time
            answer = answers.get(reader.piece) or Fetched(error=left_out(f"broker {node}"))
            end = self._take_in(reader, answer)
            if answer.error is not None and answer.error.code == Code.OFFSET_OUT_OF_RANGE:
                lost.append(reader)
            elif reader.is_done or answer.records:
                nobody_read = nobody_read and not answer.records
            elif nobody_read:
                empty[reader] = end
            else:
                reader.leave_out(room_bytes)
        try:
            await self._find_again(lost)
            await self._end_in_a_gap(empty)
        except ClusterUnreachableError as error:
            for reader in [*lost, *empty]:
                reader.error = named_error(Code.REQUEST_TIMED_OUT, str(error))

    def _take_in(self, reader: LogReader, answer: Fetched) -> int | None:
        """Process the answer for one partition: its batches, and the end of the visible log if the reader is there.

        :returns: where the visible log ends; None if the answer doesn't say.
        """
        reader.error, end = answer.error, answer.end_offset(self._isolation_level)
        if answer.error is None and answer.records:
            aborted = answer.aborted if self._isolation_level is IsolationLevel.READ_COMMITTED else ()
            reader.read(answer.records, aborted)
        if not reader.is_done and end is not None and reader.offset >= end:
            reader.end_at(end)
        return end

    async def _fetch(self, node: NodeId, lane: Sequence[LogReader], version: int) -> Mapping[TopicPartition, Fetched]:
        attempt = self._session.attempt()
        request = fetch_request(
            {reader.piece: (reader.offset, reader.limit_bytes) for reader in lane},
            self._isolation_level,
            epochs=self._session.leaders.epoch,
            max_wait_ms=min(_REMOTE_STORAGE_MS, attempt.remaining_ms() // 2),
            version=version,
        )
        asked = [reader.piece for reader in lane]
        try:
            return parse_fetch(await self._session.transport.send(node, request, attempt), asked)
        except Exception as error:
            return dict.fromkeys(asked, Fetched(error=failure_of(error, f"broker {node}")))

    async def _find_again(self, lost: Sequence[LogReader]) -> None:
        """Ask where logs start and end, for readers whose offset is out of range. The Fetch answer doesn't say."""
        if not lost:
            return
        extents = await fetch_extents(self._session, [reader.piece for reader in lost])
        for reader in lost:
            extent = extents.lookup(*reader.piece) or LogExtent(*reader.piece)
            start, end = extent.log_start_offset, extent.end_offset(self._isolation_level)
            reader.error = None
            if start is None or end is None:
                reader.error = extent.error or left_out("the leader")
            elif reader.offset < start:
                reader.start_at(start)
            elif reader.offset >= end:
                reader.end_at(end)
            else:
                reader.error = named_error(Code.OFFSET_NOT_AVAILABLE, "the leader gives two different ends of the log")

    async def _end_in_a_gap(self, empty: Mapping[LogReader, int | None]) -> None:
        """Conclude that there is no batch up to the end of the log if the leader sent none although it could have: the
        log cleaner may have removed them all. Slow remote storage looks the same (KIP-405), so it is ruled out first.
        """
        if not empty:
            return
        pieces, level = [reader.piece for reader in empty], IsolationLevel.READ_UNCOMMITTED
        local = await fetch_list_offsets(self._session, pieces, OffsetSpec.EARLIEST_LOCAL, level)
        for reader, end in empty.items():
            start = local.lookup(*reader.piece)
            if end is None or (start and start.offset is not None and reader.offset < start.offset):
                reader.error = named_error(Code.OFFSET_NOT_AVAILABLE, f"no records came from offset {reader.offset} on")
            elif start and start.error is not None and start.error.code != Code.UNSUPPORTED_VERSION:
                reader.error = start.error
            else:
                reader.end_at(end)
