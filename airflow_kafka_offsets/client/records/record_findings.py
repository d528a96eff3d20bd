"""Record findings: caches what earlier reads of a log found, so that a poll doesn't read the same tail again.

That a record exists is only valid for a while, because it may be deleted. That none exists is valid as long as the log
is the same one, which whoever asks has to make sure of once in a while; or for a while if old brokers can't say.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from airflow_kafka_offsets.client.records.record_batches import FoundRecord
from airflow_kafka_offsets.offsets.specs import IsolationLevel

LASTS_S = 60.0
"""How long a finding is valid without another look at the log, or at the id of its topic."""
_MOST_LOGS = 20_000
_MOST_PER_LOG = 32


class ReadLog(NamedTuple):
    """The cache key: which log was read, and for which query.

    :param incarnation: topic id and leader epoch, so that findings don't apply to a re-created topic or truncated log.
    :param isolation_level: which records are visible.
    :param at_or_after_ms: earliest timestamp of records that count, Unix milliseconds; None for any record.
    """

    topic: str
    partition: int
    incarnation: tuple[str | None, int | None]
    isolation_level: IsolationLevel
    at_or_after_ms: int | None


class Finding(NamedTuple):
    """The fact that ``[start, end)`` contains no visible record.

    :param start: first offset that was read.
    :param end: one past the last.
    :param record: the record at ``end``; None if it hasn't been read.
    :param read_at_s: when the oldest part was read, in seconds on the monotonic clock.
    """

    start: int
    end: int
    record: FoundRecord | None
    read_at_s: float


class RecordFindings:
    """A bounded cache of findings. A record is kept for a minute, a gap for as long as the log is the same one."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.now_s = now_s
        self._logs: dict[ReadLog, list[Finding]] = {}

    def lookup(self, log: ReadLog, offset: int) -> Finding | None:
        """The finding that reaches furthest from this offset; None if there is none."""
        known = [
            known
            for known in self._logs.get(log, ())
            if self._holds(log, known)
            and known.start <= offset <= known.end
            and offset < known.end + bool(known.record)
        ]
        return max(known, key=lambda finding: finding.end, default=None)

    def _holds(self, log: ReadLog, finding: Finding) -> bool:
        """Whether a finding is still valid. A record may be deleted; a gap stays a gap while the topic is the same."""
        lasts = finding.record is None and log.incarnation[0] is not None
        return lasts or finding.read_at_s >= self.now_s() - LASTS_S

    def keep(self, log: ReadLog, finding: Finding) -> None:
        """Store a finding, replacing those that it covers."""
        kept = [
            earlier
            for earlier in self._logs.pop(log, ())
            if self._holds(log, earlier) and not (finding.start <= earlier.start and earlier.end <= finding.end)
        ]
        self._logs[log] = [*kept, finding][-_MOST_PER_LOG:]
        while len(self._logs) > _MOST_LOGS:
            del self._logs[next(iter(self._logs))]
