"""Holes: offsets between published windows that no published window has. Two snapshots say how many there are.

A window in a hole that is pinned but not published is "not loaded yet". Time without offsets is a hole of zero offsets,
which nobody needs to load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.errors import number_of, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Hole, State, Window
from airflow_kafka_offsets.offsets.answers.groups import lies_ahead
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot


@dataclass(frozen=True, slots=True)
class Missing:
    """A hole with offsets.

    :param hole: its times, and the windows in it that are pinned.
    :param ranges: the offsets that no published window has, by partition.
    """

    hole: Hole
    ranges: tuple[LogRange, ...]

    @property
    def offsets(self) -> int:
        """How many offsets it has."""
        return sum(each.span for each in self.ranges)

    @property
    def unpinned(self) -> int:
        """How many of them no window has: nobody will load these."""
        return self.offsets - sum(window.offsets for window in self.hole.pinned)

    def __str__(self) -> str:
        between = f"from {iso_instant(self.hole.start_ms)} to {iso_instant(self.hole.end_ms)}"
        words = []
        if self.unpinned:
            words.append(f"no window has {self.unpinned} of the {number_of(self.offsets, 'offset')} {between}")
        waiting = [window.name for window in self.hole.pinned if window.offsets]
        if waiting:
            words.append(f"not published yet: {shorten(waiting)}")
        return "; ".join(words)


def before(state: State, window: Window) -> Hole | None:
    """The time between a window and the nearest published one before it; None when they meet, or there is none."""
    earlier = next((each for each in reversed(list(state.published)) if each.end_ms <= window.start_ms), None)
    return None if earlier is None else _between(state, earlier.end_ms, window.start_ms)


def after(state: State, window: Window) -> Hole | None:
    """The time between a window and the nearest published one after it; None when they meet, or there is none."""
    later = next((each for each in state.published if each.start_ms >= window.end_ms), None)
    return None if later is None else _between(state, window.end_ms, later.start_ms)


def _between(state: State, start_ms: int, end_ms: int) -> Hole | None:
    return Hole(start_ms, end_ms, tuple(state.crossing(start_ms, end_ms))) if start_ms < end_ms else None


def missing(ledger: Ledger, hole: Hole | None) -> Missing | None:
    """A hole's offsets, which lie between its two snapshots; None when it has none."""
    if hole is None:
        return None
    ranges = ledger.between(hole.start_ms, hole.end_ms)
    return Missing(hole, tuple(ranges)) if ranges else None


def missing_in(ledger: Ledger) -> list[Missing]:
    """All holes with offsets between published windows, in order of time."""
    return [found for hole in ledger.state.holes() if (found := missing(ledger, hole))]


def missing_since(ledger: Ledger, commits: Mapping[TopicPartition, int], window: Window) -> Iterator[Missing]:
    """What a group would miss if it went on from a window's start: offsets from its commits on that no published window
    has. Latest first.

    :param commits: the committed offsets; a partition without a commit is absent, and begins with the first window.
    """
    state = ledger.state
    for hole in reversed(list(state.holes())):
        if hole.end_ms > window.start_ms:
            continue
        found = missing(ledger, hole)
        if found and any(lies_ahead(commits, TopicPartition.of(each), each.end_offset) for each in found.ranges):
            yield found
        if not _is_behind(ledger.offsets_at(hole.start_ms), commits):
            return
    yield from _before_the_first(ledger, commits)


def _before_the_first(ledger: Ledger, commits: Mapping[TopicPartition, int]) -> Iterator[Missing]:
    """What the group would miss before the first published window."""
    state = ledger.state
    published = next(state.published, None)
    if published is None:
        return
    first = next(iter(state.windows.values()))
    whole = Hole(first.start_ms, published.start_ms, tuple(state.crossing(first.start_ms, published.start_ms)))
    starts = ledger.offsets_at(published.start_ms).boundaries
    known = ledger.offsets_at(first.start_ms).boundaries
    ranges = []
    for key, boundary in sorted(starts.items()):
        begins = boundary.log_start_offset if key not in known else known[key].offset
        start = max(commits.get(key, begins), boundary.log_start_offset)
        if start < boundary.offset:
            ranges.append(LogRange(*key, start, boundary.offset))
    if ranges:
        yield Missing(whole, tuple(ranges))


def _is_behind(start: OffsetSnapshot, commits: Mapping[TopicPartition, int]) -> bool:
    """Whether a group's commits are before a snapshot on any partition, so that what is before it matters too."""
    return any(commits.get(key, -1) < boundary.offset for key, boundary in start.boundaries.items())
