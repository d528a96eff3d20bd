"""Record search: the first visible record at or after some positions, in the logs of all leaders at once.

Each leader is asked for all of its positions, and asked again for positions where it sent only markers, aborted records
or gaps, until there is a record or the end of the visible log. The first read is small, since one batch is enough for a
position behind the tail; a tail of markers takes larger reads. That offsets hold no record is remembered for as long as
the log is the same one, so that a poll doesn't read the same tail again. Fetching is :mod:`.log_reading`'s job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Self

from airflow_kafka_offsets.client.lookups.log_reading import LogReader, lanes, read_logs
from airflow_kafka_offsets.client.records.record_batches import (
    AbortedTransaction,
    BatchesRead,
    FoundRecord,
    read_first_record,
)
from airflow_kafka_offsets.client.requests.fetch import ANSWER_BYTES
from airflow_kafka_offsets.client.routing.session import SearchedLog, Session
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_AT_ONCE = 8
"""Requests in flight to one leader. Each answer may be as large as ``ANSWER_BYTES``."""
_FIRST_READ_BYTES = 16 * 1024
_TAIL_READ_BYTES = 1024 * 1024
_SAME_LOG_S = 60.0
"""How often to look whether a topic was re-created, whose gaps then mean nothing."""
_MOST_GAPS = 20_000


async def find_records(
    session: Session, positions: Collection[ReadPosition], isolation_level: IsolationLevel, at_or_after_ms: int | None
) -> FirstRecords:
    """An element for every position, by the deadline.

    :param at_or_after_ms: look for records with this timestamp or a later one, Unix milliseconds; None for any.
    :raises ClusterUnreachableError: when no broker could say which brokers to ask.
    """
    await session.leaders.renew({position.topic for position in positions}, _SAME_LOG_S, session.deadline)
    for log in [log for log in session.gaps if log.topic_id is None]:
        del session.gaps[log]  # the topic may be another one since the last call
    readers = [_RecordReader(position, session, isolation_level, at_or_after_ms) for position in sorted(set(positions))]
    await read_logs(session, readers, isolation_level, lambda waiting: lanes(waiting)[:_AT_ONCE])
    return FirstRecords(reader.element() for reader in readers)


class _RecordReader(LogReader):
    """The search from one position."""

    def __init__(
        self, position: ReadPosition, session: Session, isolation_level: IsolationLevel, at_or_after_ms: int | None
    ) -> None:
        super().__init__(position, _FIRST_READ_BYTES)
        self._gaps, self._leaders = session.gaps, session.leaders
        self._isolation_level, self._at_or_after_ms = isolation_level, at_or_after_ms
        self._record: FoundRecord | None = None
        self._end: int | None = None

    @property
    def has_answer(self) -> bool:
        return self._record is not None or self._end is not None

    def read(self, records: bytes, aborted: Iterable[AbortedTransaction]) -> None:
        start = self.offset
        found = read_first_record(records, aborted, start, self._at_or_after_ms)
        if found == BatchesRead(None, start):
            self.leave_out(ANSWER_BYTES)  # no complete batch came: only brokers other than Kafka do that
            return
        self.offset, self._record, self.error = found.read_to, found.record, found.error
        self.limit_bytes = max(self.limit_bytes, _TAIL_READ_BYTES)
        self.times_left_out = 0
        self._keep_gap(start)

    def start_at(self, start: int) -> None:
        before, self.offset = self.offset, start
        self._keep_gap(before)

    def end_at(self, end: int) -> None:
        self._end = end

    def _log(self) -> SearchedLog:
        incarnation = self._leaders.incarnation(self.piece)
        return SearchedLog(self.piece, *incarnation, self._isolation_level, self._at_or_after_ms)

    def _keep_gap(self, start: int) -> None:
        """Remember that there is no record from an offset up to the present one."""
        if start >= self.offset:
            return
        log = self._log()
        known_start, known_end = self._gaps.pop(log, (start, start))
        adjoins = known_start <= self.offset and start <= known_end
        self._gaps[log] = (min(start, known_start), max(self.offset, known_end)) if adjoins else (start, self.offset)
        while len(self._gaps) > _MOST_GAPS:
            del self._gaps[next(iter(self._gaps))]

    def recall(self) -> None:
        start, end = self._gaps.get(self._log(), (0, 0))
        if start <= self.offset < end:
            self.offset = end

    def follow(self, other: Self) -> None:
        super().follow(other)
        self._record, self._end = other._record, other._end

    def element(self) -> FirstRecord:
        """The result."""
        offset, timestamp_ms, missing_codec = self._record or (None, None, "")
        return FirstRecord(*self.position, offset, timestamp_ms, self._end, self.error, missing_codec)
