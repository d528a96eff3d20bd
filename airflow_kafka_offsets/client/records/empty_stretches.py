"""Empty stretches: where earlier reads of a log found no visible record, so that a poll doesn't read the same tail
again, and a tail that is too long for one call is read in several.

An empty stretch stays empty as long as the log is the same one, which whoever asks has to make sure of once in a while.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from airflow_kafka_offsets.offsets.specs import IsolationLevel

_MOST_LOGS = 20_000


class ReadLog(NamedTuple):
    """Which log was read, and for which query.

    :param incarnation: the topic's id and the leader's epoch, so that nothing is taken for true of a re-created topic
        or a truncated log. In place of an id that brokers don't have (before 2.8), something that differs between
        calls.
    :param isolation_level: which records are visible.
    :param at_or_after_ms: earliest timestamp of records that count, Unix milliseconds; None for any record.
    """

    topic: str
    partition: int
    incarnation: tuple[Hashable, int | None]
    isolation_level: IsolationLevel
    at_or_after_ms: int | None


class EmptyStretches:
    """The empty stretch of each log that reaches furthest, of so many logs at most."""

    def __init__(self) -> None:
        self._logs: dict[ReadLog, tuple[int, int]] = {}

    def end_from(self, log: ReadLog, offset: int) -> int:
        """Where the empty stretch ends that begins at this offset; the offset itself if none is known."""
        start, end = self._logs.get(log, (offset, offset))
        return end if start <= offset < end else offset

    def keep(self, log: ReadLog, start: int, end: int) -> None:
        """Keep that ``[start, end)`` has no visible record."""
        if start == end:
            return
        known_start, known_end = self._logs.pop(log, (start, end))
        if start <= known_end and known_start <= end:
            start, end = min(start, known_start), max(end, known_end)
        self._logs[log] = max((start, end), (known_start, known_end), key=lambda stretch: stretch[1])
        while len(self._logs) > _MOST_LOGS:
            del self._logs[next(iter(self._logs))]
