"""Cells: a window's ranges in pieces, each small enough to be compared row by row where it differs.

A cell of the table is compared by the number of its rows and their checksum (:mod:`.checksum`): with what every offset
comes to, or with what the log holds. Both equal means the same rows, each once, as surely as the checksum says. So
whoever has both sums of all cells knows which cells differ, however many rows there are, and only those are looked at
closely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import xor
from typing import NamedTuple

from airflow_kafka_offsets.offsets.partitions import LogRange, merged, pieces, span_of
from airflow_kafka_offsets.offsets.proof.checksum import Checksum

SMALLEST = 65_536
"""Offsets of a cell, at least."""
_MOST_CELLS = 50_000
"""How many cells there are at most, beside one for each partition of each window: all are in the driver's memory."""
_MOST_PIECES = 8
"""How many ranges of a partition are read at most: each is a read of its own, and what is between two is read, too."""


class Sums(NamedTuple):
    """Sums over a cell's rows.

    :param rows: their number.
    :param checksum: a :class:`~airflow_kafka_offsets.offsets.proof.checksum.Checksum`.
    """

    rows: int = 0
    checksum: int = 0


class CellKey(NamedTuple):
    """Which cell.

    :param window: its window's place among those that are audited.
    :param number: its offsets, divided by the size of a cell.
    """

    window: int
    topic: str
    partition: int
    number: int


SumsByCell = Mapping[CellKey, Sums]


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of some windows. All are of one size, except a partition's first and last one in a window.

    :param size: offsets of a cell.
    :param ranges: each cell's range, in order.
    """

    size: int
    ranges: Mapping[CellKey, LogRange]

    @classmethod
    def of(cls, windows: Sequence[Collection[LogRange]], size: int | None = None) -> Cells:
        """Those of each window's ranges, which aren't empty.

        :param size: None for the smallest size with a number of cells that a driver keeps in memory.
        """
        chosen = size or max(SMALLEST, -(-sum(map(span_of, windows)) // _MOST_CELLS))
        parts = ((place, each) for place, ranges in enumerate(windows) for each in sorted(ranges))
        return cls(chosen, {key: cell for part in parts for key, cell in _cells(*part, chosen)})

    def unlike_every_offset(self, found: SumsByCell, checksums: Sequence[Checksum]) -> list[CellKey]:
        """The cells that don't hold each of their offsets exactly once.

        :param checksums: each window's.
        """
        return [
            key for key, cell in self.ranges.items() if found.get(key, Sums()) != sums_of([cell], checksums[key.window])
        ]

    def of_partition(self, window: int, whole: LogRange) -> list[CellKey]:
        """Those of one range of a window."""
        return [key for key, _ in _cells(window, whole, self.size)]


def sums_of(runs: Sequence[LogRange], checksum: Checksum) -> Sums:
    """The sums of a cell that has each offset of some runs once.

    :param runs: ranges of one partition, in order and not empty.
    """
    if not runs:
        return Sums()
    tally = checksum.every_offset(runs)
    return Sums(tally.count, tally.checksum)


def total(sums: Iterable[Sums | None]) -> Sums:
    """The sums of several cells; without Nones."""
    known = [each for each in sums if each is not None]
    return Sums(sum(each.rows for each in known), reduce(xor, (each.checksum for each in known), 0))


def read_together(cells: Iterable[LogRange]) -> list[LogRange]:
    """The ranges to read so that all cells are read: those that touch are one, and of each partition there are only a
    few, with what is between their cells."""
    return [each for found in pieces(merged(cells)).values() for each in _joined(found)]


def _joined(found: list[LogRange]) -> list[LogRange]:
    """At most so many ranges of a partition, joined where they are closest to each other."""
    gaps = sorted(
        range(1, len(found)), key=lambda place: found[place].start_offset - found[place - 1].end_offset, reverse=True
    )
    cuts = [0, *sorted(gaps[: _MOST_PIECES - 1]), len(found)]
    return [found[first]._replace(end_offset=found[last - 1].end_offset) for first, last in pairwise(cuts)]


def _cells(window: int, whole: LogRange, size: int) -> Iterator[tuple[CellKey, LogRange]]:
    for number in range(whole.start_offset // size, (whole.end_offset - 1) // size + 1):
        start, end = max(whole.start_offset, number * size), min(whole.end_offset, (number + 1) * size)
        key = CellKey(window, whole.topic, whole.partition, number)
        yield key, whole._replace(start_offset=start, end_offset=end)
