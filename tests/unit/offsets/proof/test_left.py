"""What is left of a window: read + lost = window, whatever was lost at its start."""

from __future__ import annotations

from hypothesis import given, strategies as st

from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.left import left_of, span_of
from tests.unit.spark.manifests import manifest_of

WINDOW = manifest_of([("flights", 0, 10, 20), ("flights", 1, 7, 7), ("flights", 2, 0, 5), ("weather", 0, 3, 9)])
STARTS = st.dictionaries(
    st.sampled_from([("flights", 0), ("flights", 1), ("flights", 2), ("weather", 0)]), st.integers(0, 25)
)


def offsets(ranges: list[LogRange]) -> list[tuple[str, int, int]]:
    return [(each.topic, each.partition, number) for each in ranges for number in range(*each[2:])]


def test_without_a_loss_it_is_each_range_that_has_offsets() -> None:
    assert left_of(WINDOW) == tuple(each.log_range for each in WINDOW.non_empty())
    assert span_of(left_of(WINDOW)) == WINDOW.span


def test_a_loss_at_the_start_is_what_retention_leaves() -> None:
    left = left_of(WINDOW, [LogRange("flights", 0, 0, 15), LogRange("flights", 2, 0, 5)])
    assert left == (LogRange("flights", 0, 15, 20), LogRange("weather", 0, 3, 9))


@given(STARTS)
def test_read_and_lost_are_the_window_with_no_offset_twice(log_starts: dict[tuple[str, int], int]) -> None:
    lost = [LogRange(*key, 0, start) for key, start in log_starts.items()]
    left = list(left_of(WINDOW, lost))
    whole, gone = offsets([each.log_range for each in WINDOW.ranges]), set(offsets(lost))
    assert offsets(left) == [each for each in whole if each not in gone]
    assert all(each.span > 0 for each in left)
