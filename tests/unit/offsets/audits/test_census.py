"""The census: what it keeps of a count, and what cells hold by it."""

from __future__ import annotations

from hypothesis import given, strategies as st

from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.answers.records import LogContent, Runs
from airflow_kafka_offsets.offsets.audits.cells import Cells, Sums, sums_of
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.partitions import LogRange
from tests.unit.offsets.audits.test_cells import CHECKSUM, SIZE, sums_of as sums_of_rows

WHOLE = LogRange("t", 0, 3, 43)


def runs_of(offsets: set[int]) -> Runs:
    """Offsets as runs."""
    starts = sorted(each for each in offsets if each - 1 not in offsets)
    ends = sorted(each + 1 for each in offsets if each + 1 not in offsets)
    return tuple(zip(starts, ends, strict=True))


@given(st.sets(st.integers(WHOLE.start_offset, WHOLE.end_offset - 1)))
def test_cells_hold_by_it_what_a_table_does_that_has_each_record_once(offsets: set[int]) -> None:
    content = LogContent(*WHOLE, records=len(offsets), runs=runs_of(offsets))
    census, cells = Census.of([content]), Cells.of([[WHOLE]], SIZE)
    rows = sums_of_rows((0, offset) for offset in offsets)
    for key, cell in cells.ranges.items():
        assert sums_of(list(census.records_in(cell)), CHECKSUM) == rows.get(key, Sums())
    assert census.records == len(offsets)


def test_it_is_read_as_it_was_written() -> None:
    contents = [LogContent("t", 0, 0, 9, 3, runs=((0, 2), (5, 6))), LogContent("t", 1, 0, 9, 4, runs=None)]
    census = Census.of(contents)
    assert plain_json.from_bytes(Census, plain_json.to_bytes(census), "a census") == census
    kept = [(key.partition, each.records, each.runs) for key, each in census.partitions.items()]
    assert kept == [(0, 3, ((0, 2), (5, 6))), (1, 4, None)]
