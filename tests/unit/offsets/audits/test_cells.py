"""Cells: their sums tell those that hold each offset once from all others, and reading them reads little else."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from functools import reduce
from operator import xor

from hypothesis import given, strategies as st

from airflow_kafka_offsets.offsets.audits.cells import CellKey, Cells, Sums, read_together
from airflow_kafka_offsets.offsets.partitions import LogRange, span_of
from airflow_kafka_offsets.offsets.proof.checksum import Checksum, xxhash64

CHECKSUM = Checksum(salt=17, with_topic=False)
SIZE = 4
WINDOW = (LogRange("t", 0, 3, 21), LogRange("t", 1, 8, 12))
OFFSETS = {(each.partition, offset) for each in WINDOW for offset in range(each.start_offset, each.end_offset)}


def sums_of(rows: Iterable[tuple[int, int]]) -> dict[CellKey, Sums]:
    """The sums of rows (partition, offset), one by one, as Spark sums them up."""
    found: dict[CellKey, list[int]] = {}
    for partition, offset in rows:
        seed = xxhash64(struct.pack("<i", partition), xxhash64(struct.pack("<q", CHECKSUM.salt), 42))
        hashes = [xxhash64(struct.pack("<q", each), seed) for each in (offset, offset + 1)]
        found.setdefault(CellKey(0, "t", partition, offset // SIZE), []).append(reduce(xor, hashes))
    signed = {key: reduce(xor, each) for key, each in found.items()}
    return {
        key: Sums(len(found[key]), number - (1 << 64) if number >> 63 else number) for key, number in signed.items()
    }


ROWS = st.lists(st.sampled_from(sorted(OFFSETS)), max_size=40)


class TestSums:
    @given(changes=ROWS, removed=st.sets(st.sampled_from(sorted(OFFSETS))))
    def test_tell_exactly_the_cells_that_hold_each_offset_once(
        self, changes: list[tuple[int, int]], removed: set[tuple[int, int]]
    ) -> None:
        rows = [*(OFFSETS - removed), *changes]
        times = Counter(rows)
        wrong = {(0, "t", *place) for place in ((p, offset // SIZE) for p, offset in OFFSETS if times[p, offset] != 1)}
        assert set(Cells.of([WINDOW], SIZE).unlike_every_offset(sums_of(rows), [CHECKSUM])) == wrong

    def test_a_row_that_stands_in_for_another_is_noticed(self) -> None:
        """As many rows as offsets, of which one is there twice and one isn't."""
        rows = [*OFFSETS - {(0, 5)}, (0, 6)]
        assert Cells.of([WINDOW], SIZE).unlike_every_offset(sums_of(rows), [CHECKSUM]) == [(0, "t", 0, 1)]


class TestCells:
    def test_have_each_offset_of_the_window_once(self) -> None:
        cells = Cells.of([WINDOW], SIZE).ranges.values()
        found = [(each.partition, offset) for each in cells for offset in range(each.start_offset, each.end_offset)]
        assert sorted(found) == sorted(OFFSETS)

    def test_are_few_enough_for_a_drivers_memory(self) -> None:
        cells = Cells.of([[LogRange("t", 0, 5, 5 + 10**11)]])
        assert len(cells.ranges) <= 50_002
        assert span_of(cells.ranges.values()) == 10**11

    @given(st.sets(st.integers(0, 200)))
    def test_are_read_in_few_ranges_with_what_lies_between_those_that_are_closest(self, chosen: set[int]) -> None:
        wanted = [LogRange("t", 0, each * SIZE, (each + 1) * SIZE) for each in chosen]
        read = read_together(wanted)
        assert len(read) <= 8
        covered = {offset for each in read for offset in range(each.start_offset, each.end_offset)}
        assert {offset for each in wanted for offset in range(each.start_offset, each.end_offset)} <= covered
        if chosen:
            assert (read[0].start_offset, read[-1].end_offset) == (min(chosen) * SIZE, (max(chosen) + 1) * SIZE)

    def test_those_that_touch_are_one_range(self) -> None:
        cells = Cells.of([WINDOW], SIZE).ranges.values()
        assert read_together(cells) == list(WINDOW)
