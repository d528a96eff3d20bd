"""Record search: the first visible record at or after some positions, in the logs of all leaders at once.

Each leader is asked for all of its positions, and asked again for positions where it sent only markers, aborted records
or gaps, until there is a record or the end of the visible log. The first read is small, since one batch is enough for a
position behind the tail; a tail of markers takes larger reads. Findings are cached in :mod:`.record_findings`. Fetching
is :mod:`.log_reading`'s job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Self

from airflow_kafka_offsets.client.lookups.log_reading import LogReader, lanes, read_logs
from airflow_kafka_offsets.client.records.record_batches import (
    AbortedTransaction,
    BatchesRead,
    FoundRecord,
    read_first_record,
)
from airflow_kafka_offsets.client.records.record_findings import LASTS_S, Finding, ReadLog
from airflow_kafka_offsets.client.requests.fetch import ANSWER_BYTES
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_AT_ONCE = 8
"""Requests in flight to one leader. Each answer may be as large as ``ANSWER_BYTES``."""
_FIRST_READ_BYTES = 16 * 1024
_TAIL_READ_BYTES = 1024 * 1024


async def find_records_by(
    session: Session, wanted: Mapping[int | None, Collection[ReadPosition]], isolation_level: IsolationLevel
) -> dict[int | None, FirstRecords]:
    """:func:`find_records` for several timestamps concurrently."""
    works = [partial(find_records, session, positions, isolation_level, at_ms) for at_ms, positions in wanted.items()]
    return dict(zip(wanted, await session.beside(*works), strict=True))


async def find_records(
    session: Session, positions: Collection[ReadPosition], isolation_level: IsolationLevel, at_or_after_ms: int | None
) -> FirstRecords:
    """An element for every position, by the deadline.

    :param at_or_after_ms: look for records with this timestamp or a later one, Unix milliseconds; None for any.
    :raises ClusterUnreachableError: when no broker could say which brokers to ask.
    """
    await session.leaders.renew({position.topic for position in positions}, LASTS_S, session.deadline)
    readers = [_RecordReader(position, session, isolation_level, at_or_after_ms) for position in sorted(set(positions))]
    for reader in readers:
        reader.recall()
    unknown = [reader for reader in readers if not reader.is_done]
    await read_logs(session, unknown, isolation_level, lambda waiting: lanes(waiting)[:_AT_ONCE])
    return FirstRecords(reader.element() for reader in readers)


class _RecordReader(LogReader):
    """The search from one position."""

    def __init__(
        self, position: ReadPosition, session: Session, isolation_level: IsolationLevel, at_or_after_ms: int | None
    ) -> None:
        super().__init__(position, _FIRST_READ_BYTES)
        self._findings, self._leaders = session.findings, session.leaders
        self._isolation_level, self._at_or_after_ms = isolation_level, at_or_after_ms
        self._start, self._read_at_s = position.offset, self._findings.now_s()
        self._record: FoundRecord | None = None
        self._end: int | None = None

    @property
    def has_answer(self) -> bool:
        return self._record is not None or self._end is not None

    def read(self, records: bytes, aborted: Iterable[AbortedTransaction]) -> None:
        found = read_first_record(records, aborted, self.offset, self._at_or_after_ms)
        if found == BatchesRead(None, self.offset):
            self.leave_out(ANSWER_BYTES)  # no complete batch came: only brokers other than Kafka do that
            return
        self.offset, self._record, self.error = found.read_to, found.record, found.error
        self.limit_bytes = max(self.limit_bytes, _TAIL_READ_BYTES)
        self.times_left_out = 0
        self._keep()

    def start_at(self, start: int) -> None:
        self.offset = start
        self._keep()

    def end_at(self, end: int) -> None:
        self._end = end

    def _log(self) -> ReadLog:
        incarnation = self._leaders.incarnation(self.piece)
        return ReadLog(*self.piece, incarnation, self._isolation_level, self._at_or_after_ms)

    def recall(self) -> None:
        finding = self._findings.lookup(self._log(), self.offset)
        if finding is not None:
            self._start = min(self._start, finding.start)
            self.offset, self._record = finding.end, finding.record
            self._read_at_s = min(self._read_at_s, finding.read_at_s)

    def _keep(self) -> None:
        if self.offset > self._start or self._record is not None:
            finding = Finding(self._start, self.offset, self._record, self._read_at_s)
            self._findings.keep(self._log(), finding)

    def follow(self, other: Self) -> None:
        super().follow(other)
        self._record, self._end = other._record, other._end

    def element(self) -> FirstRecord:
        """The result."""
        offset, timestamp_ms, missing_codec = self._record or (None, None, "")
        return FirstRecord(*self.position, offset, timestamp_ms, self._end, self.error, missing_codec)
