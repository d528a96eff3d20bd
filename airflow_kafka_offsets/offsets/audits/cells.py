"""Cells: a window's ranges in pieces, each small enough to be compared row by row where it differs.

A cell of the table is compared by the number of its rows and their checksum (:mod:`.checksum`): with what every offset
comes to, or with what the log holds. Both equal means the same rows, each once. So whoever has both sums of all cells
knows which cells differ, however many rows there are, and only those are looked at closely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, merged
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.proof.left import pieces, span_of

SMALLEST = 65_536
"""Offsets of a cell, at least."""
_MOST_CELLS = 50_000
"""How many cells a window has at most, beside one for each partition: all are in the driver's memory."""
_MOST_PIECES = 8
"""How many ranges of a partition are read at most: each is a read of its own, and what is between two is read, too."""


class Sums(NamedTuple):
    """Sums over a cell's rows.

    :param rows: their number.
    :param checksum: a :class:`~airflow_kafka_offsets.offsets.proof.checksum.Checksum`.
    """

    rows: int = 0
    checksum: int = 0


CellKey = tuple[str, int, int]
"""Topic, partition, and number of a cell."""
SumsByCell = Mapping[CellKey, Sums]


@dataclass(frozen=True, slots=True)
class Cells:
    """A window's cells. A partition's cells are as long as all others, except its first and its last.

    :param size: offsets of a cell.
    :param ranges: each cell's range, in order.
    """

    size: int
    ranges: Mapping[CellKey, LogRange]

    @classmethod
    def of(cls, ranges: Collection[LogRange], size: int | None = None) -> Cells:
        """Those of some ranges that aren't empty and don't overlap.

        :param size: None for the smallest size with a number of cells that a driver keeps in memory.
        """
        chosen = size or max(SMALLEST, -(-span_of(ranges) // _MOST_CELLS))
        return cls(chosen, {key: cell for each in sorted(ranges) for key, cell in _cells(each, chosen)})

    def unlike_every_offset(self, found: SumsByCell, checksum: Checksum) -> list[CellKey]:
        """The cells that don't hold each of their offsets exactly once."""
        return [key for key, cell in self.ranges.items() if found.get(key, Sums()) != every_offset(cell, checksum)]


def every_offset(cell: LogRange, checksum: Checksum) -> Sums:
    """The sums of a cell that has each offset once."""
    tally = checksum.every_offset([cell])
    return Sums(tally.count, tally.checksum)


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


def _cells(whole: LogRange, size: int) -> Iterator[tuple[CellKey, LogRange]]:
    for number in range(whole.start_offset // size, (whole.end_offset - 1) // size + 1):
        start, end = max(whole.start_offset, number * size), min(whole.end_offset, (number + 1) * size)
        yield (*TopicPartition.of(whole), number), whole._replace(start_offset=start, end_offset=end)
