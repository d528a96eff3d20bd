"""Record findings: what earlier reads of a log have found, so that a poll doesn't read the same tail again.

That a record is there holds for a while only: it may be deleted. That none is there holds as long as the log is the
same one, and for a while where old brokers don't tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from airflow_kafka_offsets.client.records.record_batches import FoundRecord
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_LASTS_S = 60.0
_MOST_LOGS = 20_000
_MOST_PER_LOG = 32


class ReadLog(NamedTuple):
    """What was read, and for which question.

    :param incarnation: topic id and leader epoch: of a re-created topic and of a truncated log nothing is known.
    :param isolation_level: which records are visible.
    :param at_or_after_ms: which of them count; None for all.
    """

    topic: str
    partition: int
    incarnation: tuple[str | None, int | None]
    isolation_level: IsolationLevel
    at_or_after_ms: int | None


class Finding(NamedTuple):
    """No visible record lies in ``[start, end)``.

    :param start: first offset that was looked at.
    :param end: one past the last one.
    :param record: the record at ``end``; None when nobody has looked there.
    :param read_at_s: when the oldest part of it was read, on the monotonic clock.
    """

    start: int
    end: int
    record: FoundRecord | None
    read_at_s: float


class RecordFindings:
    """Findings of the last minute, in bounded number."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.now_s = now_s
        self._logs: dict[ReadLog, list[Finding]] = {}

    def lookup(self, log: ReadLog, offset: int) -> Finding | None:
        """The finding that reaches furthest from this offset; None when nothing is known of it."""
        known = [
            known
            for known in self._logs.get(log, ())
            if self._holds(log, known)
            and known.start <= offset <= known.end
            and offset < known.end + bool(known.record)
        ]
        return max(known, key=lambda finding: finding.end, default=None)

    def _holds(self, log: ReadLog, finding: Finding) -> bool:
        """A record may be deleted; where none is, none will be, as long as it is the same topic."""
        lasts = finding.record is None and log.incarnation[0] is not None
        return lasts or finding.read_at_s >= self.now_s() - _LASTS_S

    def note(self, log: ReadLog, finding: Finding) -> None:
        """Keep a finding in place of those that it covers."""
        kept = [
            earlier
            for earlier in self._logs.pop(log, ())
            if self._holds(log, earlier) and not (finding.start <= earlier.start and earlier.end <= finding.end)
        ]
        self._logs[log] = [*kept, finding][-_MOST_PER_LOG:]
        while len(self._logs) > _MOST_LOGS:
            del self._logs[next(iter(self._logs))]
