"""Log reading: record batches of all leaders at once (Fetch, key 1), round by round, until each reader has its answer.

Here is who is asked, in which requests, how often, and what it means when no batch comes. What a reader takes from
batches is its own: :mod:`.record_search` looks for the first record, :mod:`.record_count` counts them all.
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
from airflow_kafka_offsets.client.connection.response_errors import Code, left_out, named_error
from airflow_kafka_offsets.client.connection.transport import NodeId, failure_of
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
"""How long a broker may read from remote storage for one answer. Kafka's own bound is 500 ms by default (KIP-1018)."""
_GROWTH = 4
"""How much more is asked for, after a batch that didn't fit."""


class LogReader(ABC):
    """How far the reading from one position has come.

    :param position: where it began.
    :param limit_bytes: about so much is to come at a time.
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
        """Nothing more is to be read, for now."""
        return self.is_settled or self.error is not None

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """It has its answer."""

    @abstractmethod
    def read(self, records: bytes, aborted: Iterable[AbortedTransaction]) -> None:
        """Take in what batches tell, and go on behind them, or note why they can't be read."""

    @abstractmethod
    def start_at(self, start: int) -> None:
        """The log starts here, past the offset."""

    @abstractmethod
    def end_at(self, end: int) -> None:
        """The visible log ends here, and has nothing from the offset on."""

    def recall(self) -> None:  # noqa: B027 - not every kind remembers
        """Go on where an earlier reading stopped, if that is known."""

    def follow(self, other: Self) -> None:
        """Take over what another reader found that went on from the same offset."""
        self.offset, self.limit_bytes, self.error = other.offset, other.limit_bytes, other.error

    def leave_out(self, room_bytes: int) -> None:
        """The answer had none of its batches: they were too large, or others took the room."""
        self.times_left_out += 1
        if self.limit_bytes <= room_bytes:
            self.limit_bytes = min(self.limit_bytes * _GROWTH, ANSWER_BYTES)


Plan = Callable[[Sequence[LogReader]], Iterable[Sequence[LogReader]]]
"""From the readers that one leader has something for, to those of each request that is sent next."""


async def read_logs(
    session: Session, readers: Iterable[LogReader], isolation_level: IsolationLevel, plan: Plan
) -> None:
    """Read until each reader is done, or the deadline comes.

    :param readers: no two with the same position.
    :raises ClusterUnreachableError: when no broker at all could say where to ask.
    """
    reading = _Reading(session, {reader.position: reader for reader in readers}, isolation_level, plan)
    await FanOut(session, session.leaders, reading.ask, lambda error: error, reading.fail).run(reading.readers)


def lanes(readers: Iterable[LogReader]) -> list[list[LogReader]]:
    """Readers in as few requests as may be, none of which names a partition twice, lowest offsets first.

    Who was left out most often is first of a request, where it can't be left out (KIP-74).
    """
    by_piece: dict[TopicPartition, list[LogReader]] = defaultdict(list)
    for reader in sorted(readers, key=lambda reader: reader.offset):
        by_piece[reader.piece].append(reader)
    return [_in_order(list(filter(None, lane))) for lane in zip_longest(*by_piece.values())]


def _in_order(lane: list[LogReader]) -> list[LogReader]:
    """As a request names them: the first one, others of its topic, the rest."""
    first = max(lane, key=lambda reader: reader.times_left_out)
    return sorted(lane, key=lambda reader: (reader.piece.topic != first.piece.topic, reader is not first, reader.piece))


class _Reading:
    """One reading for all readers. Each leader's go their own way, as fan-outs do."""

    def __init__(
        self, session: Session, readers: Mapping[ReadPosition, LogReader], isolation_level: IsolationLevel, plan: Plan
    ) -> None:
        self._session = session
        self.readers = readers
        self._isolation_level = isolation_level
        self._plan = plan

    def fail(self, position: ReadPosition, error: ResponseError) -> ResponseError | None:
        """Where there is only an error, what was read before stays."""
        reader = self.readers[position]
        if not reader.is_settled:
            reader.error = error
        return reader.error

    async def ask(
        self, node: NodeId, positions: list[ReadPosition], attempt: Deadline
    ) -> Mapping[ReadPosition, ResponseError | None]:
        """Read until each reader is done. Each request is an attempt of its own."""
        version = await self._session.transport.version(
            node, FetchRequest, attempt, at_least=FIRST_VERSION, at_most=LAST_VERSION
        )
        readers = [self.readers[position] for position in positions]
        for reader in readers:
            reader.error = None
        while waiting := [reader for reader in readers if not reader.is_done]:
            if not self._session.deadline.allows(0):
                for reader in waiting:
                    reader.error = named_error(Code.REQUEST_TIMED_OUT, f"read up to offset {reader.offset} by then")
                break
            await self._read_on(node, waiting, version)
        return {reader.position: reader.error for reader in readers}

    async def _read_on(self, node: NodeId, waiting: Sequence[LogReader], version: int) -> None:
        """One round of requests. Readers at the same offset of a partition share one."""
        groups: dict[tuple[TopicPartition, int], list[LogReader]] = defaultdict(list)
        for reader in waiting:
            reader.recall()
            if not reader.is_done:
                groups[reader.piece, reader.offset].append(reader)
        requests = self._plan([first for first, *_ in groups.values()])
        await self._session.transport.gather(partial(self._read, node, lane, version) for lane in requests)
        for first, *others in groups.values():
            for other in others:
                other.follow(first)

    async def _read(self, node: NodeId, lane: Sequence[LogReader], version: int) -> None:
        """One request, and what its answer leaves open asked in others."""
        answers = await self._fetch(node, lane, version)
        room_bytes = ANSWER_BYTES - sum(len(answer.records) for answer in answers.values())
        nobody_read, lost, empty = True, list[LogReader](), dict[LogReader, int | None]()
        for reader in lane:
            if not self._session.deadline.allows(0):
                break  # who hasn't been read by now has no answer in time
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
        """What an answer tells of one partition: batches, and perhaps that the visible log ends here.

        :returns: where the visible log ends; None when the answer doesn't say it.
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
        """Ask where the logs start and end of readers whose offset is in none of them: the answer doesn't say it."""
        if not lost:
            return
        extents = await fetch_extents(self._session, [reader.piece for reader in lost], [self._isolation_level])
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
        """Believe that there is no batch up to the end of the log, when a leader had every reason to send one: the
        cleaner may have removed them all. Remote storage that is slow looks the same (KIP-405).
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
