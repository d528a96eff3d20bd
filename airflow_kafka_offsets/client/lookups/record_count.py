"""Record count: what ranges of logs hold, counted on all leaders at once in as many rounds as it takes.

Kafka can't send headers without records, so that all bytes of the ranges are read. A few MiB of each leader's are held
at a time; fetching them is :mod:`.log_reading`'s job, counting them :mod:`.record_batches`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from airflow_kafka_offsets.client.connection.response_errors import Code, named_error
from airflow_kafka_offsets.client.lookups.log_reading import LogReader, lanes, read_logs
from airflow_kafka_offsets.client.records.record_batches import AbortedTransaction, count_batches
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.records import LogContent, LogContents, ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

log = logging.getLogger(__name__)

_ANSWER_BYTES = 4 * 1024 * 1024
"""About so much of a leader's logs comes at a time."""
_MOST_PARTITIONS = 4
"""So many share an answer: each gets room for the largest batch that brokers take by default, 1 MiB."""


class LogCount:
    """The counting of some ranges, which goes on from round to round.

    :param ranges: no partition twice.
    :param isolation_level: whether records of aborted transactions are counted apart.
    :raises ConfigurationError: for a partition that is named twice, and for a range that ends before it starts.
    """

    def __init__(self, ranges: Iterable[LogRange], isolation_level: IsolationLevel) -> None:
        self._isolation_level = isolation_level
        readers: dict[TopicPartition, _RangeReader] = {}
        for log_range in ranges:
            piece = TopicPartition.of(log_range)
            if piece in readers or not 0 <= log_range.start_offset <= log_range.end_offset:
                raise ConfigurationError(
                    f"Offsets are counted in one range per partition, from 0 on: {log_range} isn't one."
                )
            readers[piece] = _RangeReader(LogContent(*log_range))
        self._readers = tuple(readers.values())
        self._span = sum(reader.content.end_offset - reader.position.offset for reader in self._readers)
        self._counted = -1

    def contents(self) -> LogContents:
        """What was counted: an element for every range."""
        return LogContents(reader.content._replace(error=reader.error) for reader in self._readers)

    @property
    def is_over(self) -> bool:
        """Whether another round has nothing left to count, or can't be hoped to get further than the last one."""
        stands_still = self._so_far() == self._counted
        return stands_still or not self._left()

    async def go_on(self, session: Session) -> None:
        """Count until all is counted, or the deadline comes.

        :raises ClusterUnreachableError: when no broker at all could say where to ask.
        """
        self._counted = self._so_far()
        await read_logs(session, self._left(), self._isolation_level, _next_request)
        log.info("Counted what is at %s of %s offsets", self._so_far(), self._span)

    def _so_far(self) -> int:
        return sum(reader.offset - reader.position.offset for reader in self._readers)

    def _left(self) -> list[LogReader]:
        return [
            reader
            for reader in self._readers
            if not reader.is_settled and (reader.error is None or reader.error.retriable)
        ]


def _next_request(waiting: Sequence[LogReader]) -> list[list[LogReader]]:
    """One at a time, whose partitions share the room."""
    asked = waiting[:_MOST_PARTITIONS]
    for reader in asked:
        reader.limit_bytes = _ANSWER_BYTES // len(asked)
    return lanes(asked)


class _RangeReader(LogReader):
    """The counting of one range; :attr:`content` has no error of its own."""

    def __init__(self, content: LogContent) -> None:
        super().__init__(ReadPosition(content.topic, content.partition, content.start_offset), _ANSWER_BYTES)
        self.content = content

    @property
    def is_settled(self) -> bool:
        return self.content.is_complete

    def read(self, records: bytes, aborted: Iterable[AbortedTransaction]) -> None:
        counted = count_batches(records, aborted, self.content)
        if counted == self.content:
            self.error = named_error(Code.CORRUPT_MESSAGE, f"no whole batch came from offset {self.offset} on")
            return
        self.error, self.times_left_out = counted.error, 0
        self._take(counted._replace(error=None))

    def start_at(self, start: int) -> None:
        self.error = named_error(Code.OFFSET_OUT_OF_RANGE, f"the log starts at {start}, past offset {self.offset}")

    def end_at(self, end: int) -> None:
        """What nothing came of is missing, or not there yet: the leader may not have caught up (E27)."""
        if end < self.content.end_offset:
            what = f"the visible log ends at {end}, before offset {self.content.end_offset}"
            self.error = named_error(Code.OFFSET_NOT_AVAILABLE, what)
        else:
            gap = self.content.end_offset - self.offset
            self._take(self.content._replace(missing=self.content.missing + gap))

    def _take(self, content: LogContent) -> None:
        self.content, self.offset = content, content.counted_to
