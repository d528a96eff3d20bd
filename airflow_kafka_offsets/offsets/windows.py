"""Windows: two snapshots of the same topics, ``[start, end)``, and the exact range of offsets between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_kafka_offsets.errors import ConfigurationError, DataLossError, IntervalError, TopicChangedError, shorten
from airflow_kafka_offsets.offsets.instants import compact_instant, iso_instant, parse_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.resolving import refuse_changed_topics
from airflow_kafka_offsets.offsets.snapshots import Boundary, Evidence, OffsetSnapshot

_WINDOW_ID = re.compile(r"\d{8}T\d{9}Z_\d{8}T\d{9}Z")


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition that belong to a window.

    :param topic: topic name.
    :param partition: partition number.
    :param start_offset: first offset of the window, inclusive.
    :param end_offset: end of the window, exclusive; equal to ``start_offset`` when the window holds nothing here.
    :param start_evidence: why the start is believed.
    :param end_evidence: why the end is believed.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    start_evidence: Evidence
    end_evidence: Evidence

    @property
    def span(self) -> int:
        """Number of offsets: exactly the records on a plain topic, an upper bound where there are gaps (E11)."""
        return self.end_offset - self.start_offset


@dataclass(frozen=True, slots=True)
class Window:
    """Two snapshots and the ranges between them.

    :param start: snapshot at the start, inclusive.
    :param end: snapshot at the end, exclusive.
    :param ranges: a range for every partition of the end snapshot, in order, empty ones included.
    """

    start: OffsetSnapshot
    end: OffsetSnapshot
    ranges: tuple[OffsetRange, ...]

    @property
    def id(self) -> str:
        """Its name in the ledger."""
        return window_id(self.start.timestamp_ms, self.end.timestamp_ms)


def window_id(start_ms: int, end_ms: int) -> str:
    """The name of the window between two instants: ``20261121T050000000Z_20261121T060000000Z``.

    :raises IntervalError: when it is empty or inverted.
    """
    if start_ms >= end_ms:
        raise IntervalError(
            f"A window needs an end after its start; these are {iso_instant(start_ms)} and {iso_instant(end_ms)}."
        )
    return f"{compact_instant(start_ms)}_{compact_instant(end_ms)}"


def window_between(start: OffsetSnapshot, end: OffsetSnapshot) -> Window:
    """The window from one snapshot to a later one.

    A partition that the start doesn't have begins at the log start that the end snapshot recorded (S17, E23).

    :raises IntervalError: when the end isn't after the start.
    :raises ConfigurationError: when the snapshots differ in isolation level.
    :raises TopicChangedError: when a topic or partition of the start is missing or another one at the end.
    :raises DataLossError: when records between the two were gone when the end was resolved; names exact counts (E9).
    """
    window_id(start.timestamp_ms, end.timestamp_ms)
    if start.isolation_level is not end.isolation_level:
        raise ConfigurationError(
            f"The snapshots differ in isolation level: {start.isolation_level} and {end.isolation_level} (E15)."
        )
    refuse_changed_topics(start, end)
    gone = sorted(start.boundaries.keys() - end.boundaries.keys())
    if gone:
        raise TopicChangedError(f"{gone[0]} is in the snapshot at {start.as_of}, but not in the one at {end.as_of}.")
    ranges = tuple(_range(start.boundaries.get(key), each) for key, each in sorted(end.boundaries.items()))
    lost = [(each, count) for each in ranges if (count := _lost(each, end))]
    if lost:
        where = shorten(f"{each.topic}-{each.partition}: {count} from {each.start_offset} on" for each, count in lost)
        raise DataLossError(
            f"{sum(count for _, count in lost)} offsets between {start.as_of} and {end.as_of} were gone when the end "
            f"was resolved: {where}."
        )
    return Window(start, end, ranges)


def _lost(pinned: OffsetRange, end: OffsetSnapshot) -> int:
    log_start = end.boundaries[TopicPartition(pinned.topic, pinned.partition)].log_start_offset
    return max(0, min(log_start, pinned.end_offset) - pinned.start_offset)


def _range(start: Boundary | None, end: Boundary) -> OffsetRange:
    if start is None:
        offset, evidence = min(end.log_start_offset, end.offset), Evidence.NEW_PARTITION
    else:
        offset, evidence = start.offset, start.evidence
    if offset > end.offset:
        raise IntervalError(
            f"{end.topic}-{end.partition} would start at offset {offset} and end at {end.offset}: these snapshots are "
            "not from one chain."
        )
    return OffsetRange(end.topic, end.partition, offset, end.offset, evidence, end.evidence)


def is_window_id(name: str) -> bool:
    """Whether something is named as a window is."""
    return _WINDOW_ID.fullmatch(name) is not None


def window_extent(name: str) -> tuple[int, int]:
    """A window's start and end in Unix milliseconds, from its name."""
    start, _, end = name.partition("_")
    return parse_instant(start), parse_instant(end)


@dataclass(frozen=True, slots=True)
class Seam:
    """Where two windows fail to meet.

    :param topic: topic name.
    :param partition: partition number.
    :param end_offset: where the earlier window ends.
    :param start_offset: where the later one starts: further is a gap, less far an overlap.
    """

    topic: str
    partition: int
    end_offset: int
    start_offset: int

    def __str__(self) -> str:
        kind = "gap" if self.start_offset > self.end_offset else "overlap"
        size = abs(self.start_offset - self.end_offset)
        return (
            f"{self.topic}-{self.partition}: {kind} of {size} offsets between {self.end_offset} and {self.start_offset}"
        )


def seams(windows: Iterable[Sequence[OffsetRange]]) -> list[Seam]:
    """Every gap and overlap between consecutive windows, given in order of time. Empty when they tile.

    Consecutive windows tile when each partition of the earlier one goes on in the later one where it ended. A partition
    that only the later one has is new, and no seam.
    """
    found = []
    for earlier, later in pairwise(windows):
        starts = {TopicPartition(each.topic, each.partition): each.start_offset for each in later}
        for each in earlier:
            start = starts.get(TopicPartition(each.topic, each.partition))
            if start is not None and start != each.end_offset:
                found.append(Seam(each.topic, each.partition, each.end_offset, start))
    return found
