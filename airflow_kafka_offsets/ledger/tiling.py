"""Tiling: is every offset from the first window's start to the last one's end in exactly one window?

Arithmetic on the ledger alone; Kafka isn't asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.windows import seams


@dataclass(frozen=True, slots=True)
class Tiling:
    """The verdict over a run of windows.

    :param windows: how many there are.
    :param span: offsets in all of them together.
    :param problems: every hole, overlap and seam, in words and in order of time; empty when they tile.
    """

    windows: int
    span: int
    problems: tuple[str, ...]

    @property
    def tiles(self) -> bool:
        """Whether there is no gap and no overlap."""
        return not self.problems


def check_tiling(manifests: Sequence[Manifest]) -> Tiling:
    """Check windows against each other, in order of their start."""
    ordered = sorted(manifests, key=lambda each: (each.start_ms, each.end_ms))
    reaching = accumulate(ordered, _further)
    problems = [
        problem
        for furthest, later in zip(reaching, ordered[1:], strict=False)
        for problem in _problems(furthest, later)
    ]
    return Tiling(len(ordered), sum(each.span for each in ordered), tuple(problems))


def _further(one: Manifest, other: Manifest) -> Manifest:
    return max(one, other, key=lambda each: each.end_ms)


def _problems(furthest: Manifest, later: Manifest) -> list[str]:
    """How a window fails to meet the one before it that reaches furthest."""
    if furthest.end_ms < later.start_ms:
        return [f"no window from {iso_instant(furthest.end_ms)} to {iso_instant(later.start_ms)}"]
    if furthest.end_ms > later.start_ms:
        return [f"windows {furthest.window} and {later.window} overlap in time"]
    return [f"at {iso_instant(later.start_ms)}, {seam}" for seam in seams([furthest.ranges, later.ranges])]
