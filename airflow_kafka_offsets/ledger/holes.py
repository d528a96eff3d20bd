"""Holes: offsets that no published window has. Two snapshots say how many there are.

They count what can exist now: what a restart has ended is no hole, but a loss (:class:`.entries.Restarted`).

A window in a hole that is pinned but not published is "not loaded yet". Time without offsets is a hole of zero offsets,
which nobody needs to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from airflow_kafka_offsets.errors import number_of, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.answers.groups import lies_ahead
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition


@dataclass(frozen=True, slots=True)
class Hole:
    """Some time with offsets that no published window has.

    :param start_ms: where it starts, Unix milliseconds; there is a snapshot. Before the first window, where it ends.
    :param end_ms: where it ends; there is one too.
    :param pinned: the windows in it: they are not loaded yet.
    :param ranges: its offsets, by partition.
    :param free: those of them that no window has: nobody will load these.
    """

    start_ms: int
    end_ms: int
    pinned: tuple[Window, ...]
    ranges: tuple[LogRange, ...]
    free: tuple[LogRange, ...]

    @property
    def offsets(self) -> int:
        """How many offsets it has."""
        return sum(each.span for each in self.ranges)

    @property
    def before_first(self) -> bool:
        """Whether it is before the first window, where no snapshot says when it starts: ``start_ms`` is its end too."""
        return self.start_ms == self.end_ms

    @property
    def unpinned(self) -> int:
        """How many of them no window has."""
        return sum(each.span for each in self.free)

    def __str__(self) -> str:
        start, end = iso_instant(self.start_ms), iso_instant(self.end_ms)
        between = f"before {end}, where the first window starts" if self.before_first else f"from {start} to {end}"
        words = []
        if self.unpinned:
            words.append(f"no window has {self.unpinned} of the {number_of(self.offsets, 'offset')} {between}")
        waiting = [window.name for window in self.pinned if window.offsets]
        if waiting:
            words.append(f"not published yet: {shorten(waiting)}")
        return "; ".join(words)


def between_published(state: State) -> list[tuple[int, int]]:
    """The time between published windows that don't share a snapshot, in order: starts and ends, Unix milliseconds."""
    published = pairwise(state.published)
    return [(earlier.end_ms, later.start_ms) for earlier, later in published if earlier.end_ms < later.start_ms]


def hole_between(ledger: Ledger, start_ms: int, end_ms: int) -> Hole | None:
    """The hole between two snapshots, with windows between them that aren't published; None without offsets."""
    ranges = ledger.between(start_ms, end_ms)
    if not ranges:
        return None
    pinned = tuple(ledger.state.crossing(start_ms, end_ms))
    ends = [start_ms, *(at_ms for window in pinned for at_ms in (window.start_ms, window.end_ms)), end_ms]
    gaps = [gap for gap in zip(ends[::2], ends[1::2], strict=True) if gap[0] < gap[1]]
    free = tuple(each for gap in gaps for each in ledger.between(*gap))
    can_exist = tuple(each for each in pinned if not each.offsets or _left(ledger, each))
    return Hole(start_ms, end_ms, can_exist, tuple(ranges), free)


def _left(ledger: Ledger, window: Window) -> int:
    """How many of a window's offsets restarts since have left."""
    if not any(restart.number > window.number for restart in ledger.state.restarts):
        return window.offsets
    return sum(each.span for each in ledger.between(window.start_ms, window.end_ms))


def ended_windows(ledger: Ledger) -> list[Window]:
    """The windows that aren't published and of whose offsets restarts have ended some: they can't be loaded as they
    are any more."""
    return [
        each for each in ledger.state.windows.values() if not each.publication and _left(ledger, each) < each.offsets
    ]


def hole_times(state: State) -> list[tuple[int, int]]:
    """Where holes may be, in order: the time that no published window has, from the start of the first window that is
    known, published or not, to the end of the last one. Starts and ends, Unix milliseconds. Before the first published
    window and after the last one, only where some of it is in no window at all: the rest is yet to be loaded."""
    windows, between = list(state.windows.values()), between_published(state)
    if not windows:
        return []
    published = [at_ms for window in state.published for at_ms in (window.start_ms, window.end_ms)]
    ends = [windows[0].start_ms, *published, windows[-1].end_ms]
    free = [earlier.end_ms for earlier, later in pairwise(windows) if earlier.end_ms < later.start_ms]
    times = [time for time in zip(ends[::2], ends[1::2], strict=True) if time[0] < time[1]]
    return [time for time in times if time in between or any(time[0] <= at_ms < time[1] for at_ms in free)]


def holes_of(ledger: Ledger) -> list[Hole]:
    """All holes, in order of time."""
    return list(filter(None, in_parallel(lambda time: hole_between(ledger, *time), hole_times(ledger.state))))


def skipped_by(ledger: Ledger, window: Window) -> list[Hole]:
    """The holes that a window answers for, latest first.

    A window answers for the time that it skipped when it was pinned: from the last window that was there before it.
    Each hole is so one window's matter, whatever is loaded first. A window that was pinned when a later one was there
    fills a hole itself, as those of a backfill do, and answers for nothing: what it leaves is the later one's matter.
    """
    before = [each for each in ledger.state.windows.values() if each.number < window.number]
    if not before or before[-1].start_ms >= window.end_ms:
        return []  # it was the first one, or a later one was there
    skipped = [
        hole_between(ledger, each.start_ms, each.end_ms)
        for each in unpublished_stretches(ledger.state)
        if each.window is None and before[-1].end_ms <= each.start_ms and each.end_ms <= window.start_ms
    ]
    return list(filter(None, reversed(skipped)))


class Stretch(NamedTuple):
    """Some time whose offsets aren't loaded.

    :param start_ms: where it starts, Unix milliseconds; there is a snapshot.
    :param end_ms: where it ends; there is one too.
    :param window: the window that is pinned for it; None when no window has it.
    """

    start_ms: int
    end_ms: int
    window: Window | None


def unpublished_stretches(state: State) -> Iterator[Stretch]:
    """What no published window has, from the start of the first window to the end of the last one, in order."""
    return _without(state, lambda window: window.publication is not None)


def unloaded_stretches(state: State) -> Iterator[Stretch]:
    """What isn't loaded, from the start of the first window to the end of the last one, in order. All time after that
    isn't loaded either. A window that is to be loaded again is part of it, though readers have its rows until then; one
    that something else has loaded, as audits say, isn't."""
    return _without(state, lambda window: window.loaded is not None or window.is_elsewhere)


def _without(state: State, is_done: Callable[[Window], bool]) -> Iterator[Stretch]:
    at_ms = None
    for window in state.windows.values():
        if at_ms is not None and at_ms < window.start_ms:
            yield Stretch(at_ms, window.start_ms, None)
        if not is_done(window):
            yield Stretch(window.start_ms, window.end_ms, window)
        at_ms = window.end_ms


def missing_since(ledger: Ledger, commits: Mapping[TopicPartition, int], window: Window) -> Iterator[Hole]:
    """What a group would miss if it went on from a window's start: offsets from its commits on that no published window
    has. Latest first.

    :param commits: the committed offsets; a partition without a commit is absent, and begins with the first window.
    """
    for stretch in reversed([each for each in unpublished_stretches(ledger.state) if each.end_ms <= window.start_ms]):
        ranges = ledger.between(*stretch[:2])
        if any(lies_ahead(commits, TopicPartition.of(each), each.end_offset) for each in ranges):
            pinned, free = ((), tuple(ranges)) if stretch.window is None else ((stretch.window,), ())
            yield Hole(stretch.start_ms, stretch.end_ms, pinned, tuple(ranges), free)
        starts = ledger.offsets_now(stretch.start_ms).boundaries
        if all(commits.get(key, -1) >= each.offset for key, each in starts.items()):
            return
    first = next(iter(ledger.state.windows.values()))
    before = [
        LogRange(*key, max(commits[key], each.log_start_offset), each.offset)
        for key, each in sorted(ledger.offsets_now(first.start_ms).boundaries.items())
        if key in commits and max(commits[key], each.log_start_offset) < each.offset
    ]
    if before:
        yield Hole(first.start_ms, first.start_ms, (), tuple(before), tuple(before))
