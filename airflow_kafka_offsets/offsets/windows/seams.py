"""Seams: where one window's ranges end and another's begin. They meet, leave offsets out, or share some.

Pure arithmetic on ranges. Which windows are to be compared is the ledger's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import Evidence

_OWN_BEGINNING = (Evidence.NEW_PARTITION, Evidence.CHOSEN)
"""Why a range begins where its partition, or the user's share of it, does."""

Beginning = Callable[[OffsetRange], int]
"""Where a topic began that the earlier window doesn't have, as far as is known: its log start, on a range's partition.
"""


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

    @property
    def is_gap(self) -> bool:
        """Whether offsets between the two are in neither."""
        return self.start_offset > self.end_offset

    @property
    def size(self) -> int:
        """How many offsets are left out, or are in both."""
        return abs(self.start_offset - self.end_offset)

    def __str__(self) -> str:
        kind = "gap" if self.is_gap else "overlap"
        return (
            f"{self.topic}-{self.partition}: {kind} of {self.size} offsets between {self.end_offset} and "
            f"{self.start_offset}"
        )


def seams(windows: Iterable[Sequence[OffsetRange]], beginning: Beginning | None = None) -> list[Seam]:
    """Every gap and overlap between consecutive windows, given in order of time. Empty when they tile.

    Consecutive windows tile when each partition of the earlier one goes on in the later one where it ended. A partition
    that only the later one has was added since: it begins with its first record, or there is a gap before it.

    :param beginning: asked of topics that only the later one has; None leaves them out.
    """
    return [each for earlier, later in pairwise(windows) for each in _between(_by_partition(earlier), later, beginning)]


def _between(
    earlier: Mapping[TopicPartition, OffsetRange], later: Sequence[OffsetRange], beginning: Beginning | None
) -> Iterable[Seam]:
    topics = {key.topic for key in earlier}
    for each in later:
        before = earlier.get(TopicPartition(each.topic, each.partition))
        if before is not None:
            end_offset = before.end_offset
        elif each.start_evidence in _OWN_BEGINNING:
            continue
        elif each.topic in topics:
            end_offset = 0
        elif beginning is None or each.start_evidence is Evidence.LOG_START:
            continue
        else:
            end_offset = min(beginning(each), each.window_start)
        if each.window_start != end_offset:
            yield Seam(each.topic, each.partition, end_offset, each.window_start)


@dataclass(frozen=True, slots=True)
class SharedRange:
    """Offsets that two windows both have.

    :param topic: topic name.
    :param partition: partition number.
    :param start_offset: first of them.
    :param end_offset: end of them, exclusive.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        """How many they are."""
        return self.end_offset - self.start_offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: {self.size} offsets from {self.start_offset} on"


def shared(one: Iterable[OffsetRange], other: Iterable[OffsetRange]) -> list[SharedRange]:
    """The offsets that are in both of two windows, what was lost of them included. Empty when there are none."""
    theirs = _by_partition(other)
    found = []
    for each in one:
        meeting = theirs.get(TopicPartition(each.topic, each.partition))
        if meeting is None:
            continue
        start, end = max(each.window_start, meeting.window_start), min(each.end_offset, meeting.end_offset)
        if start < end:
            found.append(SharedRange(each.topic, each.partition, start, end))
    return found


def uncovered(gaps: Iterable[Seam], windows: Iterable[Iterable[OffsetRange]]) -> list[Seam]:
    """What is left of some gaps without the offsets that are in other windows, what was lost of them included."""
    left = list(gaps)
    for ranges in map(_by_partition, windows):
        left = [part for each in left for part in _without(each, ranges)]
    return left


def _without(gap: Seam, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterable[Seam]:
    covering = ranges.get(TopicPartition(gap.topic, gap.partition))
    if covering is None:
        return [gap]
    parts = (
        replace(gap, start_offset=min(gap.start_offset, covering.window_start)),
        replace(gap, end_offset=max(gap.end_offset, covering.end_offset)),
    )
    return [each for each in parts if each.is_gap]


def ends_before(earlier: Iterable[OffsetRange], later: Iterable[OffsetRange]) -> bool:
    """Whether on every partition of both one window ends at or before the other's start."""
    ends = _by_partition(earlier)
    return all(
        before.end_offset <= each.window_start
        for each in later
        if (before := ends.get(TopicPartition(each.topic, each.partition))) is not None
    )


def _by_partition(ranges: Iterable[OffsetRange]) -> dict[TopicPartition, OffsetRange]:
    return {TopicPartition(each.topic, each.partition): each for each in ranges}
