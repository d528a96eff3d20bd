"""Judges windows as wholes: that what was planned is published, that each run has its own increment, that the reported
holes are the real ones, and that nothing is published of a topic that was re-created before the ledger was told.

Plain arithmetic, as in :mod:`.judge`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tests.chaos.judge import Key, Piece, Times


def judge_windows(
    published: Collection[Times], planned: Collection[Times], shaken: Collection[Times] = ()
) -> list[str]:
    """Planned windows that aren't published, and published windows that weren't planned.

    :param shaken: planned windows that may have been taken away.
    """
    missing = sorted(set(planned) - set(published) - set(shaken))
    more = sorted(set(published) - set(planned))
    return [
        *(f"window {each} isn't published" for each in missing),
        *(f"window {each} is published, and isn't planned" for each in more),
    ]


@dataclass(frozen=True, slots=True)
class Hole:
    """Offsets in no window, between two published windows that don't meet in time.

    :param start_ms: the earlier window's end, Unix milliseconds.
    :param end_ms: the later window's start, Unix milliseconds.
    :param offsets: by topic and partition.
    """

    start_ms: int
    end_ms: int
    offsets: Mapping[Key, range]

    @property
    def times(self) -> Times:
        return self.start_ms, self.end_ms

    def __str__(self) -> str:
        return f"{self.start_ms}..{self.end_ms} with {dict(self.offsets)}"


def holes(pieces: Iterable[Piece]) -> list[Hole]:
    """The holes between the published windows, in order of time."""
    by_window: dict[Times, list[Piece]] = defaultdict(list)
    for each in pieces:
        by_window[each.window].append(each)
    found = [
        Hole(one[1], other[0], _left_out(earlier, later))
        for (one, earlier), (other, later) in pairwise(sorted(by_window.items()))
        if one[1] < other[0]
    ]
    return [each for each in found if each.offsets]


def _left_out(earlier: Iterable[Piece], later: Iterable[Piece]) -> dict[Key, range]:
    """The offsets between two windows. For a partition that the earlier one doesn't have, all before the later one."""
    ends = {(each.topic, each.partition): each.end_offset for each in earlier}
    starts = {(each.topic, each.partition): each.lost.start for each in later}
    found = {key: range(ends.get(key, 0), start) for key, start in starts.items()}
    return {key: each for key, each in found.items() if each}


def judge_holes(pieces: Iterable[Piece], told: Iterable[Hole]) -> list[str]:
    """Differences between the holes that the ledger reports and the real ones."""
    wanted, by_times = {each.times: each for each in holes(pieces)}, {each.times: each for each in told}
    complaints = [
        f"hole {each} isn't told as it is: {by_times.get(times)}"
        for times, each in wanted.items()
        if by_times.get(times) != each
    ]
    return complaints + [f"a hole {times} is told, and isn't there" for times in sorted(by_times.keys() - wanted)]


def judge_runs(published: Collection[Times], answers: Iterable[tuple[int, Times]]) -> list[str]:
    """Runs with several increments, increments of several runs, and increments that aren't published.

    :param answers: the increments that runs were given: the run's number and a window.
    """
    had, owners = defaultdict(set), defaultdict(set)
    for run, window in answers:
        had[run].add(window)
        owners[window].add(run)
    several = {run: sorted(windows) for run, windows in had.items() if len(windows) > 1}
    shared = {window: sorted(runs) for window, runs in owners.items() if len(runs) > 1}
    return [
        *(f"run {run} has {len(windows)} increments: {windows}" for run, windows in several.items()),
        *(f"runs {runs} have one increment: {window}" for window, runs in shared.items()),
        *judge_windows(published, owners),
    ]


@dataclass(frozen=True, slots=True)
class Remade:
    """A pipeline whose topic was re-created after its window was pinned, and that was told of it then.

    :param refused: how each load of that window ended: whether it was refused.
    :param pieces: of what is published in the end.
    :param first: that window's times.
    :param visible: the offsets of the new topic's records, by topic and partition.
    :param left: what the ledger says was left unloaded of the old topic.
    :param records: how many records each partition of the old one had.
    """

    refused: Collection[bool]
    pieces: Collection[Piece]
    first: Times
    visible: Mapping[Key, Collection[int]]
    left: Mapping[Key, range]
    records: int


def judge_remade(found: Remade) -> Iterator[str]:
    """Loads of the old topic that went through, and what the window after the restart lacks, or has too much."""
    if not found.refused:
        yield "no load was tried after the topic was re-created"
    if not all(found.refused):
        yield "a window was loaded, though its topic was re-created"
    if any(each.window == found.first for each in found.pieces):
        yield "the first window is published, though its topic was re-created"
    later = {
        (each.topic, each.partition): sorted(each.published) for each in found.pieces if each.window != found.first
    }
    for key, offsets in found.visible.items():
        if later.get(key) != sorted(offsets):
            yield f"after the restart {key} has {sorted(offsets)}, and {later.get(key)} are published"
        left = found.left.get(key, range(0))
        if not left or left.stop != found.records:
            yield f"the restart says that {left} of {key} was left, which had {found.records} records"
