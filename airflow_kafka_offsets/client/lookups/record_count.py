"""Record count: counts what ranges of logs contain, on all leaders at once, in as many rounds as it takes.

Kafka can't send batch headers without records, so all bytes of the ranges are read, a few MiB per leader at a time.
Fetching is :mod:`.log_reading`'s job, counting :mod:`.record_batches`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from airflow_kafka_offsets.client.connection.wire import Code, named_error
from airflow_kafka_offsets.client.lookups.log_reading import LogReader, lanes, read_logs
from airflow_kafka_offsets.client.records.record_batches import AbortedTransaction, count_batches
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.records import LogContent, LogContents, ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

log = logging.getLogger(__name__)

_ANSWER_BYTES = 4 * 1024 * 1024
"""Approximate number of bytes fetched from a leader at a time."""
_MOST_PARTITIONS = 4
"""Maximum number of partitions per answer. Each gets space for the largest batch that brokers accept by default, 1 MiB.
"""


class LogCount:
    """Counts some ranges, continuing from round to round.

    :param ranges: at most one per partition.
    :param isolation_level: whether records of aborted transactions are counted separately.
    :raises ConfigurationError: for a second range of a partition, a negative offset, or a range that ends before it
        starts.
    """

    def __init__(self, ranges: Iterable[LogRange], isolation_level: IsolationLevel) -> None:
        self._isolation_level = isolation_level
        readers: dict[TopicPartition, _RangeReader] = {}
        for log_range in ranges:
            piece = TopicPartition.of(log_range)
            if piece in readers or not 0 <= log_range.start_offset <= log_range.end_offset:
                raise ConfigurationError(
                    f"Can't count {log_range}: give one range per partition, with 0 <= start <= end."
                )
            readers[piece] = _RangeReader(LogContent(*log_range))
        self._readers = tuple(readers.values())
        self._span = sum(reader.content.end_offset - reader.position.offset for reader in self._readers)
        self._counted = -1

    def contents(self) -> LogContents:
        """The counts: an element for every range."""
        return LogContents(reader.content._replace(error=reader.error) for reader in self._readers)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to count, or the last round made no progress."""
        stands_still = self._so_far() == self._counted
        return stands_still or not self._left()

    async def go_on(self, session: Session) -> None:
        """Count until everything is counted, or until the deadline.

        :raises ClusterUnreachableError: when no broker could say which brokers to ask.
        """
        self._counted = self._so_far()
        await read_logs(session, self._left(), self._isolation_level, _next_request)
        log.info("Counted records at %s of %s offsets", self._so_far(), self._span)

    def _so_far(self) -> int:
        return sum(reader.offset - reader.position.offset for reader in self._readers)

    def _left(self) -> list[LogReader]:
        return [
            reader
            for reader in self._readers
            if not reader.has_answer and (reader.error is None or reader.error.retriable)
        ]


def _next_request(waiting: Sequence[LogReader]) -> list[list[LogReader]]:
    """A single request, whose partitions share the space in the answer."""
    asked = waiting[:_MOST_PARTITIONS]
    for reader in asked:
        reader.limit_bytes = _ANSWER_BYTES // len(asked)
    return lanes(asked)


class _RangeReader(LogReader):
    """Counts one range. :attr:`content` never carries an error; :attr:`error` does."""

    def __init__(self, content: LogContent) -> None:
        super().__init__(ReadPosition(content.topic, content.partition, content.start_offset), _ANSWER_BYTES)
        self.content = content

    @property
    def has_answer(self) -> bool:
        return self.content.is_complete

    def read(self, records: bytes, aborted: Iterable[AbortedTransaction]) -> None:
        counted = count_batches(records, aborted, self.content)
        if counted == self.content:
            self.error = named_error(Code.CORRUPT_MESSAGE, f"no complete batch came from offset {self.offset} on")
            return
        self.error, self.times_left_out = counted.error, 0
        self._take(counted._replace(error=None))

    def start_at(self, start: int) -> None:
        self.error = named_error(Code.OFFSET_OUT_OF_RANGE, f"the log starts at {start}, past offset {self.offset}")

    def end_at(self, end: int) -> None:
        """Count the rest of the range as missing, unless the log ends before the range does: then the leader may not
        have caught up yet (E27), which is an error."""
        if end < self.content.end_offset:
            what = f"the visible log ends at {end}, before offset {self.content.end_offset}"
            self.error = named_error(Code.OFFSET_NOT_AVAILABLE, what)
        else:
            gap = self.content.end_offset - self.offset
            self._take(self.content._replace(missing=self.content.missing + gap))

    def _take(self, content: LogContent) -> None:
        self.content, self.offset = content, content.counted_to
