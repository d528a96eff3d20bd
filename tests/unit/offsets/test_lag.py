"""Lag: a number with a status, and a total that refuses to be a number while a part is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupDescription,
    GroupOffsets,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.lag import GroupLag, LagStatus, partition_lag
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from tests.unit.offsets.builders import extent, extents

GONE = ResponseError("UNKNOWN_TOPIC_OR_PARTITION", 3, True)


def commit(offset: int | None, partition: int = 0) -> CommittedOffset:
    return CommittedOffset("t", partition, offset)


class TestPartitionLag:
    @pytest.mark.parametrize(
        ("committed", "start", "end", "status", "lag"),
        [
            pytest.param(60, 0, 100, LagStatus.OK, 40, id="behind"),
            pytest.param(100, 0, 100, LagStatus.OK, 0, id="caught up"),
            pytest.param(0, 0, 0, LagStatus.OK, 0, id="empty log, committed at its start"),
            pytest.param(None, 0, 0, LagStatus.NO_COMMIT, 0, id="E38: nothing committed, nothing to read"),
            pytest.param(None, 30, 100, LagStatus.NO_COMMIT, 70, id="E18: never committed counts from the log start"),
            pytest.param(10, 30, 100, LagStatus.BELOW_LOG_START, 90, id="E9: commit points at deleted records"),
            pytest.param(101, 0, 100, LagStatus.AHEAD_OF_LOG, None, id="E17: commit past the end is unknown, not zero"),
        ],
    )
    def test_number_and_status(
        self, committed: int | None, start: int, end: int, status: LagStatus, lag: int | None
    ) -> None:
        measured = partition_lag(commit(committed), extent(0, start, end))
        assert (measured.status, measured.lag) == (status, lag)

    def test_lost_records_are_counted_apart(self) -> None:
        assert partition_lag(commit(10), extent(0, 30, 100)).lost == 20
        assert partition_lag(commit(60), extent(0, 30, 100)).lost == 0

    def test_read_committed_measures_to_the_last_stable_offset(self) -> None:
        """E13, E15: an open transaction is not lag under read_committed, and is under read_uncommitted."""
        measured = extent(0, 0, 100, stable=80)
        assert partition_lag(commit(80), measured).lag == 0
        assert partition_lag(commit(80), measured, IsolationLevel.READ_UNCOMMITTED).lag == 20

    def test_a_commit_between_last_stable_offset_and_high_watermark_is_caught_up(self) -> None:
        measured = partition_lag(commit(90), extent(0, 0, 100, stable=80))
        assert (measured.status, measured.lag) == (LagStatus.OK, 0)

    @pytest.mark.parametrize("side", ["commit", "extent"])
    def test_an_error_on_either_side_leaves_lag_unknown(self, side: str) -> None:
        """E25, E26: never zero for a partition that could not be asked."""
        bad_commit = CommittedOffset("t", 0, error=GONE) if side == "commit" else commit(5)
        bad_extent = LogExtent("t", 0, error=GONE) if side == "extent" else extent()
        measured = partition_lag(bad_commit, bad_extent)
        assert (measured.status, measured.lag, measured.error) == (LagStatus.ERROR, None, GONE)

    @given(st.integers(0, 10**12), st.integers(0, 10**12), st.none() | st.integers(0, 10**12))
    def test_lag_is_never_negative(self, start: int, length: int, committed: int | None) -> None:
        lag = partition_lag(commit(committed), extent(0, start, start + length)).lag
        assert lag is None or lag >= 0


class TestGroupLag:
    @given(
        st.dictionaries(st.integers(0, 5), st.none() | st.integers(0, 120), max_size=5),
        st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 20))),
        st.sampled_from(IsolationLevel),
    )
    def test_the_total_is_the_sum_of_the_partitions_or_unknown(
        self,
        committed: dict[int, int | None],
        logs: dict[int, tuple[int, int, int]],
        isolation_level: IsolationLevel,
    ) -> None:
        """The total is summed without the partitions, and must say the same."""
        offsets = GroupOffsets("g", CommittedOffsets(commit(offset, number) for number, offset in committed.items()))
        measured = extents(
            *(
                extent(number, start, start + stable + more, stable=start + stable)
                for number, (start, stable, more) in logs.items()
            )
        )
        lag = GroupLag(offsets, measured, isolation_level=isolation_level)
        lags = [each.lag for each in lag.partitions]
        assert lag.total == (None if None in lags or not lags else sum(each for each in lags if each is not None))

    def test_the_total_adds_up_all_partitions_committed_or_not(self) -> None:
        offsets = GroupOffsets("g", CommittedOffsets([commit(90, 0)]))
        assert GroupLag(offsets, extents(extent(0), extent(1))).total == 110

    def test_the_total_is_unknown_while_one_partition_is(self) -> None:
        offsets = GroupOffsets("g", CommittedOffsets([commit(90, 0), commit(500, 1)]))
        assert GroupLag(offsets, extents(extent(0), extent(1))).total is None

    def test_an_unknown_group_has_no_lag(self) -> None:
        """E19: a misspelt group is never zero behind."""
        lag = GroupLag(GroupOffsets("g"), extents(extent(0)), description=GroupDescription("g"))
        assert lag.total is None
        assert [each.status for each in lag.partitions] == [LagStatus.UNKNOWN_GROUP]

    def test_a_group_in_error_has_no_lag(self) -> None:
        refused = ResponseError("GROUP_AUTHORIZATION_FAILED", 30, False)
        lag = GroupLag(GroupOffsets("g", error=refused), extents(extent(0)))
        assert lag.total is None
        assert [each.error for each in lag.partitions] == [refused]

    def test_a_group_that_may_read_more_keeps_its_lags_and_has_no_total(self) -> None:
        lag = GroupLag(GroupOffsets("g", CommittedOffsets([commit(90, 0)])), extents(extent(0)), error=GONE)
        assert (lag.error, lag.total, [each.lag for each in lag.partitions]) == (GONE, None, [10])
        part = lag.on([TopicPartition("t", 0)])
        assert (part.error, part.total, [each.lag for each in part.partitions]) == (GONE, None, [10])


class TestGroupLagOnFewerPartitions:
    def whole(self, *, error: ResponseError | None = None) -> GroupLag:
        commits = GroupOffsets("g", CommittedOffsets([commit(60), commit(150, 1)]), error)
        return GroupLag(commits, extents(extent(0), extent(1), extent(2)))

    def test_is_measured_from_the_same_commits_and_ends(self) -> None:
        part = self.whole().on([TopicPartition("t", 0), TopicPartition("t", 2)])
        assert [(each.partition, each.lag) for each in part.partitions] == [(0, 40), (2, 100)]
        assert (part.group, part.total, self.whole().total) == ("g", 140, None)

    def test_keeps_what_the_ends_are_and_what_is_wrong_with_the_group(self) -> None:
        key = TopicPartition("t", 1)
        assert self.whole().on([key]).total is None
        assert self.whole(error=GONE).on([key]).error == GONE

    def test_leaves_out_what_the_group_was_not_judged_on(self) -> None:
        """A sum over nothing is not zero."""
        part = self.whole().on([TopicPartition("t", 7), TopicPartition("u", 0)])
        assert (list(part.partitions), part.total) == ([], None)
