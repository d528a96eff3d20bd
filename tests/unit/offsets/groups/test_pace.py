"""Where a lag is going, by two measurements of it."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.offsets.groups.lag import LagStatus, LagSums, PartitionLag
from airflow_kafka_offsets.offsets.groups.pace import Trend, group_paces, pace_between
from airflow_kafka_offsets.offsets.specs import IsolationLevel

STABLE, DIRTY = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def measured(committed: int | None, end: int | None, dirty_end: int | None = None) -> PartitionLag:
    lag = None if committed is None or end is None else end - committed
    ends = {"last_stable_offset": end, "high_watermark": dirty_end if dirty_end is not None else end}
    return PartitionLag("t", 0, LagStatus.OK, lag, committed, log_start_offset=0, **ends)


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ((0, 100), (60, 120), (2, 6, Trend.CATCHING_UP, 15)),
        ((0, 100), (10, 120), (2, 1, Trend.FALLING_BEHIND, None)),
        ((0, 100), (20, 120), (2, 2, Trend.STEADY, None)),
        ((0, 100), (0, 100), (0, 0, Trend.STEADY, None)),
        ((90, 100), (120, 120), (2, 3, Trend.CAUGHT_UP, 0)),
        ((50, 100), (0, 100), (0, -5, Trend.FALLING_BEHIND, None)),
    ],
)
def test_over_ten_seconds(
    earlier: tuple[int, int], later: tuple[int, int], expected: tuple[float, float, Trend, float | None]
) -> None:
    pace = pace_between(measured(*earlier), measured(*later), 10, STABLE)
    assert pace is not None
    assert (pace.written, pace.read, pace.trend, pace.caught_up_in_s) == expected


def test_the_end_is_the_one_that_lag_is_measured_to() -> None:
    earlier, later = measured(0, 10, dirty_end=10), measured(0, 10, dirty_end=30)
    for level, written in ((STABLE, 0), (DIRTY, 2)):
        pace = pace_between(earlier, later, 10, level)
        assert pace is not None
        assert pace.written == written


@pytest.mark.parametrize(
    ("earlier", "later"),
    [((None, 10), (5, 10)), ((5, 10), (None, 10)), ((5, None), (5, 10)), ((5, 100), (5, 10))],
    ids=["no commit before", "no commit now", "no end before", "a log that was cut"],
)
def test_what_is_not_known_has_no_pace(
    earlier: tuple[int | None, int | None], later: tuple[int | None, int | None]
) -> None:
    assert pace_between(measured(*earlier), measured(*later), 10, STABLE) is None


class TestOfGroups:
    def test_is_that_of_all_partitions_together(self) -> None:
        earlier = {"a": LagSums(2, 100, 0), "b": LagSums(1, 10, 10)}
        later = {"a": LagSums(2, 120, 60), "b": LagSums(1, 30, 30), "new": LagSums(1, 5, 5)}
        assert group_paces(earlier, later, 10) == {
            "a": {"written_per_s": 2.0, "read_per_s": 6.0, "trend": "catching_up", "caught_up_in_s": 15},
            "b": {"written_per_s": 2.0, "read_per_s": 2.0, "trend": "caught_up", "caught_up_in_s": 0},
            "new": None,
        }

    @pytest.mark.parametrize("later", [LagSums(3, 120, 60), LagSums(2, 90, 60)], ids=["a partition more", "a cut log"])
    def test_is_not_known_where_the_sums_are_not_of_the_same(self, later: LagSums) -> None:
        assert group_paces({"a": LagSums(2, 100, 0)}, {"a": later}, 10) == {"a": None}
