"""Retention: when Kafka will delete records that nobody has loaded yet, as far as can be told.

Kafka deletes whole segments, oldest first (``deleteOldSegments`` of ``UnifiedLog``): a segment whose newest record is
older than ``retention.ms``, and a segment without which the log still holds ``retention.bytes``. It never deletes a
single record, so the times given here are the earliest possible: a record's segment may outlive them, but never goes
sooner. Not the job of this module: compaction, which keeps the newest record of each key, and DeleteRecords, which
nobody can foresee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.errors import ResponseError, shorten
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogSize
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

NEVER = math.inf
_LAST_MS = 253_402_300_799_999
"""End of the year 9999. Anything later has no date, and counts as never."""


class Limit(StrEnum):
    """What can delete records."""

    TIME = "time"
    """``retention.ms``."""
    SIZE = "size"
    """``retention.bytes``."""


class Unknown(NamedTuple):
    """A limit whose effect can't be told.

    :param why: in words, after "unknown:", with what to do about it.
    :param error: Kafka's error for which it can't be told; None when there is none.
    :param in_time: whether it will be known by itself after a while, so that nobody has to do anything.
    """

    limit: Limit
    why: str
    error: ResponseError | None = None
    in_time: bool = False

    def __str__(self) -> str:
        return f"loss by {self.limit} unknown: {self.why}"


Bound = float | Unknown
"""Unix milliseconds; :data:`NEVER` when there is no limit."""


class LogPace(NamedTuple):
    """How a partition's log grows.

    :param bytes_per_offset: average size of a record on the leader's disk; None when the log's size is unknown.
    :param offsets_per_s: offsets written per second; None when unknown.
    :param error: Kafka's error for which the size is unknown; None when there is none.
    """

    bytes_per_offset: float | None = None
    offsets_per_s: float | None = None
    error: ResponseError | None = None


@dataclass(frozen=True, slots=True)
class RangeForecast:
    """What retention does to one partition's range.

    :param offsets: number of offsets in the range.
    :param lost: how many of them are gone already, exactly.
    :param loses_at_ms: when the first of the others may be deleted, at the earliest; Unix milliseconds, in the past
        when that may happen at any moment. None when no known limit ever deletes them.
    :param by: the limit that deletes them then.
    :param unknown: limits whose effect can't be told: one of them may delete the others earlier.
    """

    topic: str
    partition: int
    offsets: int
    lost: int = 0
    loses_at_ms: int | None = None
    by: Limit | None = None
    unknown: tuple[Unknown, ...] = ()

    def __str__(self) -> str:
        said = [f"{self.lost} of {self.offsets} offsets gone"] if self.lost else []
        if self.loses_at_ms is not None:
            sure = "not before" if self.by is Limit.TIME else "about"
            said.append(f"next loss by {self.by} {sure} {iso_instant(self.loses_at_ms)}")
        said.extend(map(str, self.unknown))
        return f"{self.topic}-{self.partition} ({'; '.join(said) or 'no loss'})"

    @property
    def urgency(self) -> tuple[float, int, int]:
        """Sorts by the next loss, then by the largest loss so far, then by what is unknown."""
        return (NEVER if self.loses_at_ms is None else self.loses_at_ms, -self.lost, -len(self.unknown))


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
        untold: dict[str, str] = {}  # somebody has to do something about each cause, also further down
        for partition, unknown in self.unforeseen():
            if str(unknown) not in text:
                untold.setdefault(str(unknown), f"{partition} ({unknown})")
        return f"{text}; {shorten(untold.values())}" if untold else text

    @property
    def lost(self) -> int:
        return sum(forecast.lost for forecast in self.ranges)

    @property
    def urgency(self) -> tuple[bool, float, int, int]:
        """Sorts windows with losses first, then as ranges."""
        return (not self.lost, *self.ranges[0].urgency)

    def unforeseen(self) -> Iterator[tuple[str, Unknown]]:
        """What can't be told about its partitions, unless it will be known by itself, by the partitions' names."""
        for each in self.ranges:
            yield from ((f"{each.topic}-{each.partition}", unknown) for unknown in each.unknown if not unknown.in_time)

    def loses_by(self, moment_ms: int) -> bool:
        """Whether something is gone, or may be gone at that moment, as far as is known."""
        return bool(self.lost) or self.ranges[0].urgency[0] <= moment_ms

    def to_json(self) -> dict[str, Any]:
        """The XCom: totals, and the next loss."""
        first = self.ranges[0]
        return {
            "window": self.window,
            "loses_at": None if first.loses_at_ms is None else iso_instant(first.loses_at_ms),
            "by": None if first.by is None else str(first.by),
            "topic": first.topic,
            "partition": first.partition,
            "offsets": sum(forecast.offsets for forecast in self.ranges),
            "lost": self.lost,
            "unknown": sum(bool(forecast.unknown) for forecast in self.ranges),
        }


def rest_of(pending: LogRange, extent: LogExtent) -> ReadPosition:
    """The first pending offset that may still exist."""
    assert extent.log_start_offset is not None
    return ReadPosition(pending.topic, pending.partition, max(pending.start_offset, extent.log_start_offset))


def applies(limit: Limit, facts: TopicFacts) -> bool:
    """Whether a topic is known to have this limit."""
    allowed = _allowed(limit, facts)
    return not isinstance(allowed, Unknown) and allowed != NEVER


def _allowed(limit: Limit, facts: TopicFacts) -> Bound:
    """What a topic allows, in milliseconds or bytes."""
    setting = facts.retention_ms if limit is Limit.TIME else facts.retention_bytes
    if setting is None or facts.cleanup_policy is None:
        return Unknown(limit, f"the settings of {facts.topic} may not be read (is the ACL DescribeConfigs missing?)")
    return NEVER if setting < 0 or "delete" not in facts.cleanup_policy else setting


def predates_tiers(local: ListedOffset) -> bool:
    """Whether a leader didn't say where the part of a log on its disk starts because its version of Kafka (before 3.4)
    keeps all of it there."""
    return local.error is not None and local.error.name == "UNSUPPORTED_VERSION"


def _bytes_per_offset(extent: LogExtent, size_bytes: int | None, local: ListedOffset | None) -> float | None:
    """Average size of a record on the leader's disk; None when unknown."""
    if size_bytes is None or local is None or (local.offset is None and not predates_tiers(local)):
        return None
    assert extent.log_start_offset is not None and extent.high_watermark is not None
    held = extent.high_watermark - max(extent.log_start_offset, local.offset or 0)
    return size_bytes / held if held > 0 else None


def log_pace(
    extent: LogExtent, size: LogSize | None, local: ListedOffset | None, earlier: OffsetSnapshot | None, now_ms: int
) -> LogPace:
    """How a log grows, assuming records as large as the present ones, and the rate since an earlier snapshot.

    :param size: size of the log on its leader's disk.
    :param local: where the part on that disk starts (``earliest-local``, KIP-405). If its leader couldn't be asked,
        the size of records is unknown.
    :param earlier: snapshot to compare the log end with; None when there is none.
    """
    assert extent.high_watermark is not None
    bytes_per_offset = _bytes_per_offset(extent, size and size.size_bytes, local)
    failed = (each.error for each in (size, local) if each is not None and bytes_per_offset is None)
    error = next((each for each in failed if each is not None), None)
    before = None if earlier is None else earlier.boundaries.get(TopicPartition.of(extent))
    if earlier is None or before is None or before.high_watermark > extent.high_watermark:
        return LogPace(bytes_per_offset, None, error)
    written, elapsed_ms = extent.high_watermark - before.high_watermark, max(1, now_ms - earlier.resolved_at_ms)
    return LogPace(bytes_per_offset, 1000 * written / elapsed_ms, error)


def forecast(
    pending: LogRange, extent: LogExtent, facts: TopicFacts, records: FirstRecords, pace: LogPace, now_ms: int
) -> RangeForecast:
    """What retention does to a range.

    :param pending: offsets of one partition that haven't been loaded yet.
    :param extent: the log's start and end, without an error.
    :param facts: the topic's settings.
    :param records: the first visible record in the rest of the range, if it was looked for.
    :param pace: how the log grows.
    """
    rest = rest_of(pending, extent)
    assert extent.high_watermark is not None
    lost = min(rest.offset, pending.end_offset) - pending.start_offset
    known = RangeForecast(pending.topic, pending.partition, pending.span, lost)
    if rest.offset >= pending.end_offset or records.nothing_before(rest, pending.end_offset):
        return known
    bounds = {
        Limit.TIME: _by_time(facts, records, rest),
        Limit.SIZE: _by_size(facts, pace, extent.high_watermark - rest.offset, now_ms),
    }
    dated = {limit: bound for limit, bound in bounds.items() if not isinstance(bound, Unknown) and bound <= _LAST_MS}
    by = min(dated, key=dated.__getitem__, default=None)
    unknown = tuple(bound for bound in bounds.values() if isinstance(bound, Unknown))
    return replace(known, loses_at_ms=None if by is None else int(dated[by]), by=by, unknown=unknown)


def _by_time(facts: TopicFacts, records: FirstRecords, rest: ReadPosition) -> Bound:
    """When the first record reaches the age that the topic allows. Its segment is as young as its youngest record."""
    allowed = _allowed(Limit.TIME, facts)
    if isinstance(allowed, Unknown) or allowed == NEVER:
        return allowed
    first = records.lookup(*rest)
    return _undated(first) if first is None or first.timestamp_ms is None else first.timestamp_ms + allowed


def _undated(first: FirstRecord | None) -> Unknown:
    """Why the first record's time isn't known."""
    if first is None:
        return Unknown(Limit.TIME, "its first record wasn't read")
    if first.error is not None:
        return Unknown(Limit.TIME, f"its first record can't be read: {first.error}", first.error)
    if first.missing_codec:
        return Unknown(
            Limit.TIME,
            f"its first record is compressed with {first.missing_codec}, whose library isn't installed on this machine "
            "(pip install 'airflow-kafka-offsets[codecs]')",
        )
    if first.offset is None:
        return Unknown(Limit.TIME, "its leader hasn't returned a record yet", in_time=True)
    return Unknown(Limit.TIME, "its first record has no timestamp")


def _by_size(facts: TopicFacts, pace: LogPace, offsets: int, now_ms: int) -> Bound:
    """When the log from here on reaches the size that the topic allows.

    :param offsets: number of offsets from here to the log end.
    """
    allowed = _allowed(Limit.SIZE, facts)
    if isinstance(allowed, Unknown) or allowed == NEVER:
        return allowed
    if pace.bytes_per_offset is None:
        why = "the size of its records is unknown" + (f": {pace.error}" if pace.error else "")
        return Unknown(Limit.SIZE, why, pace.error, in_time=pace.error is None)
    room_bytes = allowed - offsets * pace.bytes_per_offset
    if room_bytes <= 0:
        return now_ms
    if pace.offsets_per_s is None:
        return Unknown(Limit.SIZE, "no snapshot of a while ago shows how fast its log grows", in_time=True)
    bytes_per_s = pace.offsets_per_s * pace.bytes_per_offset
    return now_ms + 1000 * room_bytes / bytes_per_s if bytes_per_s else NEVER
