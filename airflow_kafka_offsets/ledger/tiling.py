"""Tiling: is every offset from the first window's start to the last one's end in exactly one window?

Arithmetic on the ledger alone; Kafka isn't asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.seams import Beginning, seams, shared


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
class Tiling:
    """The verdict over a run of windows.

    :param windows: how many there are.
    :param problems: every overlap, and every seam where two windows meet in time and not in offsets, in words and in
        order of time.
    :param holes: every time without a window that has offsets, in words.
    """

    windows: int
    problems: tuple[str, ...]
    holes: tuple[str, ...] = ()

    @property
    def tiles(self) -> bool:
        """Whether there is no gap and no overlap."""
        return not self.problems and not self.holes


def _never(_: object, __: object) -> bool:
    return False


def _unknown(_: object) -> None:
    return None


def check_tiling(
    windows: Sequence[T],
    ranges: Callable[[T], Sequence[OffsetRange]],
    surely_meet: Callable[[T, T], bool] = _never,
    beginning: Callable[[T], Beginning | None] = _unknown,
) -> Tiling:
    """Check windows against each other, in order of their start.

    :param ranges: a window's ranges.
    :param surely_meet: whether two windows are known to meet, so that their ranges needn't be read.
    :param beginning: where topics begin that a window has and the one before it lacks, when the two don't meet in time.
    """
    ordered = sorted(windows, key=lambda each: (each.start_ms, each.end_ms))
    problems: list[str] = []
    holes: list[str] = []
    before: list[T] = []
    for later in ordered:
        # Windows of other offsets may lie in each other's time: each is compared with all that reach into it.
        reaching = [each for each in before if each.end_ms > later.start_ms]
        for each in reaching:
            common = shared(ranges(each), ranges(later))
            if common:
                problems.append(f"windows {each.window} and {later.window} overlap: {shorten(map(str, common))}")
        if before and not reaching:
            furthest = max(before, key=lambda each: each.end_ms)
            if not surely_meet(furthest, later):
                apart = furthest.end_ms < later.start_ms
                found = seams([ranges(furthest), ranges(later)], beginning(later) if apart else None)
                if not apart or not all(each.is_gap for each in found):
                    problems += [f"at {iso_instant(later.start_ms)}, {seam}" for seam in found]
                elif found:
                    between = f"{iso_instant(furthest.end_ms)} to {iso_instant(later.start_ms)}"
                    holes.append(f"no window from {between}: {shorten(map(str, found))}")
        before = [*reaching, later]
    return Tiling(len(ordered), tuple(problems), tuple(holes))
