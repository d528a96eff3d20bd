"""Tiling: is every offset from the first window's start to the last one's end in exactly one window?

Arithmetic on the ledger alone; Kafka isn't asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol, TypeVar

from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.seams import Seam


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
    :param problems: every hole, overlap and seam, in words and in order of time; empty when they tile.
    """

    windows: int
    problems: tuple[str, ...]

    @property
    def tiles(self) -> bool:
        """Whether there is no gap and no overlap."""
        return not self.problems


def check_tiling(windows: Sequence[T], between: Callable[[T, T], Iterable[Seam]]) -> Tiling:
    """Check windows against each other, in order of their start.

    :param between: the gaps and overlaps between a window and the next one.
    """
    ordered = sorted(windows, key=lambda each: (each.start_ms, each.end_ms))
    reaching = accumulate(ordered, _further)
    problems = [
        problem
        for furthest, later in zip(reaching, ordered[1:], strict=False)
        for problem in _problems(furthest, later, between)
    ]
    return Tiling(len(ordered), tuple(problems))


def _further(one: T, other: T) -> T:
    return max(one, other, key=lambda each: each.end_ms)


def _problems(furthest: T, later: T, between: Callable[[T, T], Iterable[Seam]]) -> list[str]:
    """How a window fails to meet the one before it that reaches furthest."""
    if furthest.end_ms > later.start_ms:
        return [f"windows {furthest.window} and {later.window} overlap in time"]
    found = list(between(furthest, later))
    if found and furthest.end_ms < later.start_ms:
        return [f"no window from {iso_instant(furthest.end_ms)} to {iso_instant(later.start_ms)}: {found[0]}"]
    return [f"at {iso_instant(later.start_ms)}, {seam}" for seam in found]
