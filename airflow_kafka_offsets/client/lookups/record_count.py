"""Log contents: what ranges of logs hold, counted on all leaders at once (Fetch, key 1) in as many rounds as it takes.

Kafka can't send headers without records, so that all bytes of the ranges are read. A few MiB of each leader's are held
at a time; counting them is :mod:`.batch_counts`'s job.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from kafka.protocol.consumer import FetchRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.response_errors import (
    CORRUPT_MESSAGE,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    REQUEST_TIMED_OUT,
    UNSUPPORTED_VERSION,
    left_out,
    named_error,
)
from airflow_kafka_offsets.client.connection.transport import NodeId
from airflow_kafka_offsets.client.lookups.extent_lookup import fetch_extents
from airflow_kafka_offsets.client.records.batch_counts import count_batches
from airflow_kafka_offsets.client.requests.fetch import (
    FIRST_VERSION,
    LAST_VERSION,
    Fetched,
    Stretch,
    fetch_request,
    parse_fetch,
)
from airflow_kafka_offsets.client.requests.list_offsets import fetch_list_offsets
from airflow_kafka_offsets.client.routing.fan_out import FanOut, Question
from airflow_kafka_offsets.client.routing.session import Call
from airflow_kafka_offsets.errors import ClusterUnreachableError, ConfigurationError, ResponseError
from airflow_kafka_offsets.offsets.answers.log_contents import LogContent, LogContents, LogRange
from airflow_kafka_offsets.offsets.answers.log_extents import LogExtent
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

log = logging.getLogger(__name__)

_ANSWER_BYTES = 4 * 1024 * 1024
"""About so much of a leader's logs comes at a time."""
_MOST_PARTITIONS = 4
"""So many share an answer: each gets room for the largest batch that brokers take by default, 1 MiB."""
_REMOTE_STORAGE_MS = 5_000


class LogCount:
    """The counting of some ranges, which goes on from round to round.

    :param ranges: no partition twice.
    :param isolation_level: whether records of aborted transactions are counted apart.
    :raises ConfigurationError: for a partition that is named twice, and for a range that ends before it starts.
    """

    def __init__(self, ranges: Iterable[LogRange], isolation_level: IsolationLevel) -> None:
        self._isolation_level = isolation_level
        self._contents: dict[TopicPartition, LogContent] = {}
        for each in ranges:
            piece = TopicPartition(each.topic, each.partition)
            if piece in self._contents or not 0 <= each.start_offset <= each.end_offset:
                raise ConfigurationError(f"Offsets are counted in one range a partition, from 0 on: {each} isn't one.")
            self._contents[piece] = LogContent(*each)
        self._span = sum(each.end_offset - each.start_offset for each in self._contents.values())
        self._counted = -1

    def contents(self) -> LogContents:
        """What was counted: an element for every range."""
        return LogContents(self._contents.values())

    @property
    def is_over(self) -> bool:
        """Whether another round has nothing left to count, or can't be hoped to get further than the last one."""
        stands_still = self._so_far() == self._counted
        return stands_still or not self._left()

    async def go_on(self, call: Call) -> None:
        """Count until all is counted, or the deadline comes.

        :raises ClusterUnreachableError: when no broker at all could say where to ask.
        """
        self._counted = self._so_far()
        reading = _Round(call, self._contents, self._isolation_level)
        question = Question(reading.ask, lambda content: content.error, self._failed)
        self._contents |= await FanOut(call, call.leaders, question).run(self._left())
        log.info("Counted what is at %s of %s offsets", self._so_far(), self._span)

    def _failed(self, piece: TopicPartition, error: ResponseError) -> LogContent:
        """What is counted stays counted."""
        content = self._contents[piece]
        return content if content.is_complete else content._replace(error=error)

    def _so_far(self) -> int:
        return sum(each.counted_to - each.start_offset for each in self._contents.values())

    def _left(self) -> list[TopicPartition]:
        return [
            piece
            for piece, each in self._contents.items()
            if not each.is_complete and (each.error is None or each.error.retriable)
        ]


class _Round:
    """One round of reading, until its deadline."""

    def __init__(self, call: Call, contents: dict[TopicPartition, LogContent], isolation_level: IsolationLevel) -> None:
        self._call = call
        self._contents = contents
        self._isolation_level = isolation_level

    async def ask(
        self, node: NodeId, pieces: list[TopicPartition], attempt: Deadline
    ) -> Mapping[TopicPartition, LogContent]:
        """Read until each range is counted or in error. Each request is an attempt of its own."""
        version = await self._call.transport.version(
            node, FetchRequest, attempt, at_least=FIRST_VERSION, at_most=LAST_VERSION
        )
        for each in pieces:
            self._contents[each] = self._contents[each]._replace(error=None)
        waiting = [each for each in pieces if self._goes_on(each)]
        while waiting and self._call.deadline.allows(0):
            asked, waiting = waiting[:_MOST_PARTITIONS], waiting[_MOST_PARTITIONS:]
            left_behind = await self._read(node, _by_topic(asked), version)
            # First in the next request is who got nothing: there it can't be left out (KIP-74).
            again = [*left_behind, *(each for each in asked if each not in left_behind)]
            waiting = [each for each in again if self._goes_on(each)] + waiting
        for each in waiting:
            at = self._contents[each].counted_to
            self._fail(each, named_error(REQUEST_TIMED_OUT, f"counted up to offset {at} by then"))
        return {each: self._contents[each] for each in pieces}

    def _goes_on(self, piece: TopicPartition) -> bool:
        content = self._contents[piece]
        return content.error is None and not content.is_complete

    def _fail(self, piece: TopicPartition, error: ResponseError) -> None:
        self._contents[piece] = self._contents[piece]._replace(error=error)

    async def _read(self, node: NodeId, asked: Sequence[TopicPartition], version: int) -> list[TopicPartition]:
        """One request, and what its answer leaves open asked in others; who got nothing as others took the room."""
        answers = await self._fetch(node, asked, version)
        left_behind, lost, empty = [], [], []
        nobody_read = True
        for piece in asked:
            answer = answers.get(piece) or Fetched(error=left_out(f"broker {node}"))
            if answer.error is not None and answer.error.code == OFFSET_OUT_OF_RANGE:
                lost.append(piece)
            elif answer.error is not None:
                self._fail(piece, answer.error)
            elif answer.records:
                self._take_in(piece, answer)
                nobody_read = False
            elif not nobody_read:
                left_behind.append(piece)
            elif self._is_in_the_log(piece, answer):
                empty.append(piece)
        try:
            await self._find_again(lost)
            await self._end_in_a_gap(empty)
        except ClusterUnreachableError as error:
            for piece in (*lost, *empty):
                self._fail(piece, named_error(REQUEST_TIMED_OUT, str(error)))
        return left_behind

    async def _fetch(
        self, node: NodeId, asked: Sequence[TopicPartition], version: int
    ) -> Mapping[TopicPartition, Fetched]:
        attempt = self._call.attempt()
        limit_bytes = _ANSWER_BYTES // len(asked)
        request = fetch_request(
            [Stretch(each, self._contents[each].counted_to, limit_bytes) for each in asked],
            self._isolation_level,
            epochs=self._call.leaders.epoch,
            max_wait_ms=min(_REMOTE_STORAGE_MS, attempt.remaining_ms() // 2),
            version=version,
        )
        return parse_fetch(await self._call.transport.send(node, request, attempt), asked)

    def _take_in(self, piece: TopicPartition, answer: Fetched) -> None:
        before = self._contents[piece]
        aborted = answer.aborted if self._isolation_level is IsolationLevel.READ_COMMITTED else ()
        after = self._contents[piece] = count_batches(answer.records, aborted, before)
        if after == before:
            what = f"no whole batch came from offset {before.counted_to} on"
            self._fail(piece, named_error(CORRUPT_MESSAGE, what))

    def _is_in_the_log(self, piece: TopicPartition, answer: Fetched) -> bool:
        """Whether the visible log reaches as far as the range does; its leader may not have caught up (E27)."""
        visible_end, wanted = answer.end_offset(self._isolation_level), self._contents[piece].end_offset
        if visible_end is not None and visible_end >= wanted:
            return True
        what = f"the visible log ends at {visible_end}, before offset {wanted}"
        self._fail(piece, named_error(OFFSET_NOT_AVAILABLE, what))
        return False

    async def _find_again(self, lost: Sequence[TopicPartition]) -> None:
        """Say where the logs start and end whose offset is in none of them: the answer doesn't say it."""
        if not lost:
            return
        extents = await fetch_extents(self._call, lost, [IsolationLevel.READ_UNCOMMITTED])
        for piece in lost:
            extent = extents.lookup(*piece) or LogExtent(*piece)
            self._fail(piece, _why_not_in(extent, self._contents[piece].counted_to))

    async def _end_in_a_gap(self, empty: Sequence[TopicPartition]) -> None:
        """Believe that there is no batch up to the end of the log, when a leader had every reason to send one: the
        cleaner may have removed them all. Remote storage that is slow looks the same (KIP-405).
        """
        if not empty:
            return
        local = await fetch_list_offsets(self._call, empty, OffsetSpec.EARLIEST_LOCAL, IsolationLevel.READ_UNCOMMITTED)
        for piece in empty:
            content, start = self._contents[piece], local.lookup(*piece)
            if start is not None and start.offset is not None and content.counted_to < start.offset:
                what = f"no records came from offset {content.counted_to} on"
                self._fail(piece, named_error(OFFSET_NOT_AVAILABLE, what))
            elif start is not None and start.error is not None and start.error.code != UNSUPPORTED_VERSION:
                self._fail(piece, start.error)
            else:
                gap = content.end_offset - content.counted_to
                self._contents[piece] = content._replace(missing=content.missing + gap)


def _why_not_in(extent: LogExtent, offset: int) -> ResponseError:
    """Why an offset isn't in the log: gone (E9), or not there yet on a leader that has not caught up (E27)."""
    start, end = extent.log_start_offset, extent.high_watermark
    if start is None or end is None:
        return extent.error or left_out("the leader")
    if start > offset:
        return named_error(OFFSET_OUT_OF_RANGE, f"the log starts at {start}, past offset {offset}")
    return named_error(OFFSET_NOT_AVAILABLE, f"the log ends at {end}, and offset {offset} isn't in it")


def _by_topic(pieces: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The order in which a request names them and an answer comes: the first one, others of its topic, the rest."""
    topics = dict.fromkeys(each.topic for each in pieces)
    return [each for topic in topics for each in pieces if each.topic == topic]
