"""Record search: the first visible record at or after some positions, looked for in the logs of all leaders at once.

Each leader is asked for all of its positions, and again for those where nothing but markers, aborted records and gaps
came, until there is a record or the end of the visible log. Little is read at first: a batch is enough where readers
are behind; a tail of markers takes larger pieces. What was found is remembered: :mod:`.record_findings`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from kafka.protocol.consumer import FetchRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.response_errors import (
    MALFORMED,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    REQUEST_TIMED_OUT,
    UNSUPPORTED_VERSION,
    client_error,
    left_out,
    named_error,
)
from airflow_kafka_offsets.client.connection.transport import NodeId, RequestFailedError
from airflow_kafka_offsets.client.lookups.extent_lookup import fetch_extents
from airflow_kafka_offsets.client.lookups.search_readers import LogReader, lanes
from airflow_kafka_offsets.client.records.record_batches import read_first_record
from airflow_kafka_offsets.client.records.record_findings import ReadLog
from airflow_kafka_offsets.client.requests.fetch import (
    ANSWER_BYTES,
    FIRST_VERSION,
    LAST_VERSION,
    Fetched,
    Stretch,
    fetch_request,
    parse_fetch,
)
from airflow_kafka_offsets.client.requests.list_offsets import fetch_list_offsets
from airflow_kafka_offsets.client.routing.fan_out import FanOut, Question
from airflow_kafka_offsets.client.routing.leaders import Leaders
from airflow_kafka_offsets.client.routing.session import Call
from airflow_kafka_offsets.errors import ClusterUnreachableError, KafkaOffsetsError, ResponseError
from airflow_kafka_offsets.offsets.answers.first_records import FirstRecord, FirstRecords, Position
from airflow_kafka_offsets.offsets.answers.log_extents import LogExtent
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

_REMOTE_STORAGE_MS = 5_000
"""How long a broker may read from remote storage for one answer. Kafka's own bound is 500 ms by default (KIP-1018)."""
_AT_ONCE = 8
"""Requests in flight to one leader, whose answers may be as large as ``ANSWER_BYTES`` each."""


async def find_records_by(
    call: Call, wanted: Mapping[int | None, Collection[Position]], isolation_level: IsolationLevel
) -> dict[int | None, FirstRecords]:
    """:func:`find_records` for several timestamps, all of them at the same time."""
    works = [partial(find_records, call, positions, isolation_level, at_ms) for at_ms, positions in wanted.items()]
    return dict(zip(wanted, await call.beside(*works), strict=True))


async def find_records(
    call: Call, positions: Collection[Position], isolation_level: IsolationLevel, at_or_after_ms: int | None
) -> FirstRecords:
    """An element for every position, by the deadline.

    :param at_or_after_ms: look for records with this timestamp or a later one, Unix milliseconds; None for any.
    :raises ClusterUnreachableError: when no broker at all could say where to ask.
    """
    search = _Search(call, isolation_level, at_or_after_ms)
    return FirstRecords(await search.run(sorted(set(positions))))


class _Search:
    """One search for all positions. Each leader's positions go their own way, as fan-outs do."""

    def __init__(self, call: Call, isolation_level: IsolationLevel, at_or_after_ms: int | None) -> None:
        self._call = call
        self._isolation_level = isolation_level
        self._at_or_after_ms = at_or_after_ms
        self._readers: dict[Position, LogReader] = {}

    async def run(self, positions: Iterable[Position]) -> Iterable[FirstRecord]:
        now_s = self._call.findings.now_s()
        self._readers = {each: LogReader(each, now_s) for each in positions}
        self._recall(self._readers.values())
        known = {position: each.element() for position, each in self._readers.items() if each.is_done}
        question = Question(
            self._ask, lambda element: element.error, lambda position, error: FirstRecord(*position, error=error)
        )
        fan_out = FanOut(self._call, _PositionLeaders(self._call.leaders), question)
        return (known | await fan_out.run(each for each in self._readers if each not in known)).values()

    async def _ask(self, node: NodeId, positions: list[Position], attempt: Deadline) -> Mapping[Position, FirstRecord]:
        """Read until each position has its answer. Each request is an attempt of its own."""
        version = await self._call.transport.version(
            node, FetchRequest, attempt, at_least=FIRST_VERSION, at_most=LAST_VERSION
        )
        readers = [self._readers[each] for each in positions]
        for each in readers:
            each.error = None
        while waiting := [each for each in readers if not each.is_done]:
            if not self._call.deadline.allows(0):
                for each in waiting:
                    each.error = named_error(REQUEST_TIMED_OUT, f"read up to offset {each.offset}, and no record yet")
                break
            await self._read_on(node, waiting, version)
        return {each.position: each.element() for each in readers}

    async def _read_on(self, node: NodeId, waiting: Sequence[LogReader], version: int) -> None:
        """One round of requests. Readers at the same offset of a partition share one."""
        self._recall(waiting)
        groups: dict[tuple[TopicPartition, int], list[LogReader]] = defaultdict(list)
        for each in waiting:
            if not each.is_done:
                groups[each.piece, each.offset].append(each)
        requests = lanes(first for first, *_ in groups.values())[:_AT_ONCE]
        await self._call.transport.gather(partial(self._read, node, lane, version) for lane in requests)
        for first, *others in groups.values():
            for each in others:
                each.follow(first)

    def _recall(self, readers: Iterable[LogReader]) -> None:
        for each in readers:
            finding = self._call.findings.lookup(self._log(each), each.offset)
            if finding is not None:
                each.learn(finding)

    def _log(self, reader: LogReader) -> ReadLog:
        incarnation = self._call.leaders.incarnation(reader.piece)
        return ReadLog(*reader.piece, incarnation, self._isolation_level, self._at_or_after_ms)

    async def _read(self, node: NodeId, lane: Sequence[LogReader], version: int) -> None:
        """One request, and what its answer leaves open asked in others."""
        answers = await self._fetch(node, lane, version)
        room_bytes = ANSWER_BYTES - sum(len(each.records) for each in answers.values())
        nobody_read, lost, empty = True, [], []
        for reader in lane:
            if not self._call.deadline.allows(0):
                break  # who hasn't been read by now has no answer in time
            answer = answers.get(reader.piece) or Fetched(error=left_out(f"broker {node}"))
            self._take_in(reader, answer)
            if answer.error is not None and answer.error.code == OFFSET_OUT_OF_RANGE:
                lost.append(reader)
            elif not answer.records and not reader.is_done:
                empty.append(reader) if nobody_read else reader.leave_out(room_bytes)
            nobody_read = nobody_read and not answer.records
        try:
            await self._find_again(lost)
            await self._end_in_a_gap(empty)
        except ClusterUnreachableError as error:
            for reader in [*lost, *empty]:
                reader.error = named_error(REQUEST_TIMED_OUT, str(error))
        for reader in lane:
            if reader.offset > reader.start or reader.record is not None:
                self._call.findings.note(self._log(reader), reader.finding())

    async def _fetch(self, node: NodeId, lane: Sequence[LogReader], version: int) -> Mapping[TopicPartition, Fetched]:
        attempt = self._call.attempt()
        request = fetch_request(
            [Stretch(each.piece, each.offset, each.limit_bytes) for each in lane],
            self._isolation_level,
            epochs=self._call.leaders.epoch,
            max_wait_ms=min(_REMOTE_STORAGE_MS, attempt.remaining_ms() // 2),
            version=version,
        )
        asked = [each.piece for each in lane]
        try:
            return parse_fetch(await self._call.transport.send(node, request, attempt), asked)
        except RequestFailedError as failed:
            return dict.fromkeys(asked, Fetched(error=failed.error))
        except MALFORMED as malformed:
            if isinstance(malformed, KafkaOffsetsError):
                raise
            return dict.fromkeys(asked, Fetched(error=client_error(malformed, f"broker {node}")))

    def _take_in(self, reader: LogReader, answer: Fetched) -> None:
        """What an answer tells of one partition: batches, or that the visible log ends here."""
        if answer.error is not None:
            reader.error = answer.error
            return
        if answer.records:
            aborted = answer.aborted if self._isolation_level is IsolationLevel.READ_COMMITTED else ()
            reader.read(read_first_record(answer.records, aborted, reader.offset, self._at_or_after_ms))
        reader.visible_end = answer.end_offset(self._isolation_level)
        if not reader.is_done and reader.visible_end is not None and reader.offset >= reader.visible_end:
            reader.end = reader.visible_end

    async def _find_again(self, lost: Sequence[LogReader]) -> None:
        """Ask where the logs start and end of readers whose offset is in none of them: the answer doesn't say it."""
        if not lost:
            return
        pieces, levels = [each.piece for each in lost], [self._isolation_level]
        extents = await fetch_extents(self._call, pieces, levels)
        for each in lost:
            each.error = None
            each.resume(extents.lookup(*each.piece) or LogExtent(*each.piece), self._isolation_level)

    async def _end_in_a_gap(self, empty: Sequence[LogReader]) -> None:
        """Believe that there is no batch up to the end of the log, when a leader had every reason to send one: the
        cleaner may have removed them all. Remote storage that is slow looks the same (KIP-405).
        """
        if not empty:
            return
        pieces, level = [each.piece for each in empty], IsolationLevel.READ_UNCOMMITTED
        local = await fetch_list_offsets(self._call, pieces, OffsetSpec.EARLIEST_LOCAL, level)
        for each in empty:
            start = local.lookup(*each.piece)
            if each.visible_end is None or (start and start.offset is not None and each.offset < start.offset):
                each.error = named_error(OFFSET_NOT_AVAILABLE, f"no records came from offset {each.offset} on")
            elif start and start.error is not None and start.error.code != UNSUPPORTED_VERSION:
                each.error = start.error
            else:
                each.end = each.visible_end


class _PositionLeaders:
    """The fan-out's places of positions: the leaders of their partitions."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders

    async def locate(self, pieces: Collection[Position], deadline: Deadline) -> Mapping[Position, int | ResponseError]:
        wanted = {each: TopicPartition(each.topic, each.partition) for each in pieces}
        places = await self._leaders.locate(set(wanted.values()), deadline)
        return {each: places[piece] for each, piece in wanted.items()}

    def forget(self, pieces: Iterable[Position]) -> None:
        self._leaders.forget(TopicPartition(each.topic, each.partition) for each in pieces)
