"""Tiling: whether windows meet, leave offsets out, or share some. Arithmetic on ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, TypeVar

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, by_partition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import Evidence

_OWN_BEGINNING = (Evidence.NEW_PARTITION, Evidence.CHOSEN)
"""Evidence for ranges that start where their partition does, or where the user chose to start it."""

Beginning = Callable[[OffsetRange], int]
"""Where a topic that the earlier window lacks began, as far as is known: its log start, on a range's partition."""


@dataclass(frozen=True, slots=True)
class Seam:
    """Where two windows fail to meet.

    :param end_offset: where the earlier window ends.
    :param start_offset: where the later one starts: higher means a gap, lower an overlap.
    """

    topic: str
    partition: int
    end_offset: int
    start_offset: int

    @property
    def is_gap(self) -> bool:
        """Whether offsets between the two are in neither window."""
        return self.start_offset > self.end_offset

    @property
    def size(self) -> int:
        """How many offsets are left out, or shared."""
        return abs(self.start_offset - self.end_offset)

    def __str__(self) -> str:
        kind = "gap" if self.is_gap else "overlap"
        return (
            f"{self.topic}-{self.partition}: {kind} of {self.size} offsets between {self.end_offset} and "
            f"{self.start_offset}"
        )


def seams(windows: Iterable[Sequence[OffsetRange]], beginning: Beginning | None = None) -> list[Seam]:
    """Every gap and overlap between consecutive windows, given in order of time. Empty when they tile.

    Consecutive windows tile when the later one continues each partition of the earlier one where that ended. A
    partition that only the later one has was added in between: it starts with its first record, or there is a gap
    before it.

    :param beginning: gives the start of topics that only the later window has; None ignores these topics.
    """
    return [seam for earlier, later in pairwise(windows) for seam in _between(by_partition(earlier), later, beginning)]


def _between(
    earlier: Mapping[TopicPartition, OffsetRange], later: Sequence[OffsetRange], beginning: Beginning | None
) -> Iterable[Seam]:
    topics = {key.topic for key in earlier}
    for each in later:
        before = earlier.get(TopicPartition.of(each))
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


def shared(one: Iterable[OffsetRange], other: Iterable[OffsetRange]) -> list[LogRange]:
    """The offsets that are in both windows, including lost ones. Empty when there are none."""
    theirs = by_partition(other)
    found = []
    for each in one:
        meeting = theirs.get(TopicPartition.of(each))
        if meeting is None:
            continue
        start, end = max(each.window_start, meeting.window_start), min(each.end_offset, meeting.end_offset)
        if start < end:
            found.append(LogRange(each.topic, each.partition, start, end))
    return found


def uncovered(gaps: Iterable[Seam], windows: Iterable[Iterable[OffsetRange]]) -> list[Seam]:
    """What remains of some gaps without the offsets that other windows have, including lost ones."""
    left = list(gaps)
    for ranges in map(by_partition, windows):
        left = [part for gap in left for part in _without(gap, ranges)]
    return left


def _without(gap: Seam, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterable[Seam]:
    covering = ranges.get(TopicPartition.of(gap))
    if covering is None:
        return [gap]
    parts = (
        replace(gap, start_offset=min(gap.start_offset, covering.window_start)),
        replace(gap, end_offset=max(gap.end_offset, covering.end_offset)),
    )
    return [part for part in parts if part.is_gap]


def ends_before(earlier: Iterable[OffsetRange], later: Iterable[OffsetRange]) -> bool:
    """Whether the earlier window ends at or before the later one's start on every partition that both have."""
    ends = by_partition(earlier)
    return all(
        before.end_offset <= each.window_start
        for each in later
        if (before := ends.get(TopicPartition.of(each))) is not None
    )


class Tile(Protocol):
    """A window among others: a manifest or a summary."""

    @property
    def window(self) -> str: ...

    @property
    def start_ms(self) -> int: ...

    @property
    def end_ms(self) -> int: ...


T = TypeVar("T", bound=Tile)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Two windows that don't tile.

    :param earlier: name of the window that starts first.
    :param later: name of the other window.
    :param seams: where they fail to meet, by partition; empty when they overlap in time.
    :param shared: offsets that both have; empty when they don't overlap in time.
    :param waiting: unpublished windows, around which both are published, that have some of the offsets left out
        between the two.
    :param missing: offsets left out between the two that no window has.
    :param meets: whether the later one starts at the instant when the earlier one ends.
    """

    earlier: str
    later: str
    seams: tuple[Seam, ...] = ()
    shared: tuple[LogRange, ...] = ()
    waiting: tuple[str, ...] = ()
    missing: tuple[Seam, ...] = ()
    meets: bool = False

    @property
    def gaps(self) -> tuple[Seam, ...]:
        """What no published window has between the two."""
        return tuple(seam for seam in self.seams if seam.is_gap)

    @property
    def start_ms(self) -> int:
        """Where the earlier one ends, Unix milliseconds."""
        return window_extent(self.earlier)[1]

    @property
    def end_ms(self) -> int:
        """Where the later one starts, Unix milliseconds."""
        return window_extent(self.later)[0]

    def problems(self) -> list[str]:
        """Overlaps, and seams of windows that meet in time but not in offsets, in words. Holes aren't included."""
        if self.shared:
            return [f"windows {self.earlier} and {self.later} overlap: {shorten(map(str, self.shared))}"]
        if self.meets or not all(seam.is_gap for seam in self.seams):
            return [f"at {iso_instant(self.end_ms)}, {seam}" for seam in self.seams]
        return []

    def holes(self) -> list[str]:
        """The offsets between the two that no window has, in words."""
        if self.problems() or not self.missing:
            return []
        late = f"; not published yet: {shorten(self.waiting)}" if self.waiting else ""
        between = f"{iso_instant(self.start_ms)} to {iso_instant(self.end_ms)}"
        return [f"no window from {between}: {shorten(map(str, self.missing))}{late}"]


@dataclass(frozen=True, slots=True)
class Tiling:
    """The result of checking a series of windows.

    :param windows: how many of them are published.
    :param problems: every overlap, and every seam where two windows meet in time but not in offsets; in words, in order
        of time.
    :param holes: offsets between two windows that no window has, not even an unpublished one; in words, in order of
        time.
    :param misfits: the pairs of windows that ``problems`` and ``holes`` describe.
    """

    windows: int
    problems: tuple[str, ...]
    holes: tuple[str, ...] = ()
    misfits: tuple[Misfit, ...] = ()

    @property
    def tiles(self) -> bool:
        """Whether there is no gap and no overlap."""
        return not self.problems and not self.holes


def check_tiling(
    windows: Sequence[T],
    ranges: Callable[[T], Sequence[OffsetRange]],
    surely_meet: Callable[[T, T], bool] = lambda *_: False,
    beginning: Callable[[T], Beginning | None] = lambda _: None,
    waiting: Sequence[T] = (),
) -> Tiling:
    """Check windows against each other, in order of their start: from the first window that is known to the last one,
    published or not.

    :param windows: the published windows.
    :param ranges: gives a window's ranges.
    :param surely_meet: whether two windows are known to meet, so that their ranges needn't be read.
    :param beginning: gives the start of topics that a window has and the one before it lacks.
    :param waiting: unpublished windows: offsets that one of them has aren't a hole. They may share offsets until one
        of them is taken back, so that only what they leave out counts.
    """
    outer = beyond(windows, waiting)
    unpublished = {window.window for window in outer}
    ordered = sorted([*windows, *outer], key=lambda window: (window.start_ms, window.end_ms))
    misfits: list[Misfit] = []
    before: list[T] = []
    for later in ordered:
        # Windows with other offsets may overlap in time: each is compared with all that reach into it.
        reaching = [earlier for earlier in before if earlier.end_ms > later.start_ms]
        for earlier in reaching:
            common = [] if {earlier.window, later.window} & unpublished else shared(ranges(earlier), ranges(later))
            if common:
                misfits.append(Misfit(earlier.window, later.window, shared=tuple(common)))
        if before and not reaching:
            furthest = max(before, key=lambda window: window.end_ms)
            found = [] if surely_meet(furthest, later) else seams([ranges(furthest), ranges(later)], beginning(later))
            if {furthest.window, later.window} & unpublished:
                found = [seam for seam in found if seam.is_gap]
            if found:
                may_have = [each for each in waiting if _may_have(each, furthest, later)]
                misfits.append(_misfit(furthest, later, found, may_have, ranges))
        before = [*reaching, later]
    problems = (line for misfit in misfits for line in misfit.problems())
    holes = (line for misfit in misfits for line in misfit.holes())
    return Tiling(len(windows), tuple(problems), tuple(holes), tuple(misfits))


def beyond(windows: Sequence[T], waiting: Sequence[T]) -> list[T]:
    """The unpublished windows that start before the first published one, or end after the last one; all of them while
    nothing is published."""
    first_ms = min((window.start_ms for window in windows), default=math.inf)
    last_ms = max((window.end_ms for window in windows), default=-math.inf)
    return [window for window in waiting if window.start_ms < first_ms or window.end_ms > last_ms]


def _may_have(window: Tile, earlier: Tile, later: Tile) -> bool:
    """Whether a window may have what two others leave out: it spans the time between them, or is a newer revision of
    one of them."""
    newer = window.window in (earlier.window, later.window)
    return newer or (window.start_ms < later.start_ms and window.end_ms > earlier.end_ms)


def _misfit(
    earlier: T, later: T, found: Sequence[Seam], waiting: Iterable[T], ranges: Callable[[T], Sequence[OffsetRange]]
) -> Misfit:
    """Two windows that don't meet, and the unpublished ones that have what they leave out. No more of these are read
    than necessary."""
    missing = [seam for seam in found if seam.is_gap]
    having: dict[str, None] = {}
    for window in waiting:
        if not missing:
            break
        left = uncovered(missing, [ranges(window)])
        if left != missing:
            having[window.window] = None
        missing = left
    meets = earlier.end_ms == later.start_ms
    return Misfit(earlier.window, later.window, tuple(found), (), tuple(having), tuple(missing), meets)
