"""Retention: when Kafka will delete records that nobody has loaded yet, as far as can be told.

Kafka deletes whole segments, oldest first (``deleteOldSegments`` of ``UnifiedLog``): a segment whose newest record is
older than ``retention.ms``. It never deletes a single record, so the times given here are the earliest possible: a
record's segment may outlive them, but never goes sooner. Not the job of this module: ``retention.bytes``, of which it
is only said that a topic has it, because what a log will grow to can't be told; compaction, which keeps the newest
record of each key; and DeleteRecords, which nobody can foresee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from airflow_kafka_offsets.errors import ResponseError, shorten
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, TopicFacts
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange

NEVER = math.inf
_LAST_MS = 253_402_300_799_999
"""End of the year 9999. Anything later has no date, and counts as never."""


class Unknown(NamedTuple):
    """Why it can't be told when records are deleted.

    :param why: in words, after "unknown:", with what to do about it.
    :param error: Kafka's error for which it can't be told; None when there is none.
    :param in_time: whether it will be known by itself after a while, so that nobody has to do anything.
    """

    why: str
    error: ResponseError | None = None
    in_time: bool = False

    def __str__(self) -> str:
        return f"next loss unknown: {self.why}"


Bound = float | Unknown
"""Unix milliseconds; :data:`NEVER` when there is no limit."""


@dataclass(frozen=True, slots=True)
class RangeForecast:
    """What retention does to one partition's range.

    :param offsets: number of offsets in the range.
    :param lost: how many of them are gone already, exactly.
    :param loses_at_ms: when the first of the others may be deleted, at the earliest; Unix milliseconds, in the past
        when that may happen at any moment. None when none ever is, or that is unknown.
    :param unknown: why that can't be told; None if it can.
    """

    topic: str
    partition: int
    offsets: int
    lost: int = 0
    loses_at_ms: int | None = None
    unknown: Unknown | None = None

    def __str__(self) -> str:
        said = [f"{self.lost} of {self.offsets} offsets gone"] if self.lost else []
        if self.loses_at_ms is not None:
            said.append(f"next loss not before {iso_instant(self.loses_at_ms)}")
        if self.unknown is not None:
            said.append(str(self.unknown))
        return f"{self.topic}-{self.partition} ({'; '.join(said) or 'no loss'})"

    @property
    def urgency(self) -> tuple[float, int, bool]:
        """Sorts by the next loss, then by the largest loss so far, then by what is unknown."""
        return (NEVER if self.loses_at_ms is None else self.loses_at_ms, -self.lost, self.unknown is None)


@dataclass(frozen=True, slots=True)
class WindowForecast:
    """What retention does to a window.

    :param window: its name; ``hole from`` an instant for offsets that no window has; ``backlog`` for those after the
        last window.
    :param ranges: the non-empty ranges, at least one, most urgent first.
    """

    window: str
    ranges: tuple[RangeForecast, ...]

    @classmethod
    def of(cls, window: str, ranges: Iterable[RangeForecast]) -> WindowForecast:
        """From ranges in any order."""
        return cls(window, tuple(sorted(ranges, key=lambda forecast: forecast.urgency)))

    def __str__(self) -> str:
        offsets = sum(forecast.offsets for forecast in self.ranges)
        text = f"{self.window}, {offsets} offsets: {shorten(map(str, self.ranges))}"
        further: dict[str, str] = {}  # somebody has to do something about each cause, also further down
        for partition, unknown in self.unforeseen():
            if str(unknown) not in text:
                further.setdefault(str(unknown), f"{partition} ({unknown})")
        return f"{text}; {shorten(further.values())}" if further else text

    @property
    def lost(self) -> int:
        return sum(forecast.lost for forecast in self.ranges)

    @property
    def urgency(self) -> tuple[bool, float, int, bool]:
        """Sorts windows with losses first, then as ranges."""
        return (not self.lost, *self.ranges[0].urgency)

    def unforeseen(self) -> Iterator[tuple[str, Unknown]]:
        """What can't be told about its partitions, unless it will be known by itself, by the partitions' names."""
        for each in self.ranges:
            if each.unknown is not None and not each.unknown.in_time:
                yield f"{each.topic}-{each.partition}", each.unknown

    def loses_by(self, moment_ms: int) -> bool:
        """Whether something is gone, or may be gone at that moment, as far as is known."""
        return bool(self.lost) or self.ranges[0].urgency[0] <= moment_ms

    def to_json(self) -> dict[str, Any]:
        """The XCom: totals, and the next loss."""
        first = self.ranges[0]
        return {
            "window": self.window,
            "loses_at": None if first.loses_at_ms is None else iso_instant(first.loses_at_ms),
            "topic": first.topic,
            "partition": first.partition,
            "offsets": sum(forecast.offsets for forecast in self.ranges),
            "lost": self.lost,
            "unknown": sum(forecast.unknown is not None for forecast in self.ranges),
        }


def rest_of(pending: LogRange, extent: LogExtent) -> ReadPosition:
    """The first pending offset that may still exist."""
    assert extent.log_start_offset is not None
    return ReadPosition(pending.topic, pending.partition, max(pending.start_offset, extent.log_start_offset))


def deletes_by_time(facts: TopicFacts) -> bool:
    """Whether a topic is known to delete records by their age."""
    allowed = _allowed_ms(facts)
    return not isinstance(allowed, Unknown) and allowed != NEVER


def limits_size(facts: TopicFacts) -> bool:
    """Whether a topic is known to delete records because its logs are too large."""
    return facts.retention_bytes is not None and facts.retention_bytes >= 0 and "delete" in (facts.cleanup_policy or "")


def _allowed_ms(facts: TopicFacts) -> Bound:
    if facts.retention_ms is None or facts.cleanup_policy is None:
        return Unknown(f"the settings of {facts.topic} may not be read (is the ACL DescribeConfigs missing?)")
    return NEVER if facts.retention_ms < 0 or "delete" not in facts.cleanup_policy else facts.retention_ms


def forecast(pending: LogRange, extent: LogExtent, facts: TopicFacts, records: FirstRecords) -> RangeForecast:
    """What retention by time does to a range.

    :param pending: offsets of one partition that haven't been loaded yet.
    :param extent: the log's start and end, without an error.
    :param facts: the topic's settings.
    :param records: the first visible record in the rest of the range, if it was looked for.
    """
    rest = rest_of(pending, extent)
    lost = min(rest.offset, pending.end_offset) - pending.start_offset
    known = RangeForecast(pending.topic, pending.partition, pending.span, lost)
    if rest.offset >= pending.end_offset or records.nothing_before(rest, pending.end_offset):
        return known
    allowed, first = _allowed_ms(facts), records.lookup(*rest)
    if isinstance(allowed, Unknown) or allowed == NEVER:
        return replace(known, unknown=allowed) if isinstance(allowed, Unknown) else known
    if first is None or first.timestamp_ms is None:
        return replace(known, unknown=_undated(first))
    # When the first record reaches the age that the topic allows. Its segment is as young as its youngest record.
    reached_ms = first.timestamp_ms + allowed
    return known if reached_ms > _LAST_MS else replace(known, loses_at_ms=int(reached_ms))


def _undated(first: FirstRecord | None) -> Unknown:
    """Why the first record's time isn't known."""
    if first is None:
        return Unknown("its first record wasn't read")
    if first.error is not None:
        return Unknown(f"its first record can't be read: {first.error}", first.error)
    if first.why_unread:
        return Unknown(f"its first record {first.why_unread}")
    if first.offset is None:
        return Unknown("its leader hasn't returned a record yet", in_time=True)
    return Unknown("its first record has no timestamp")
