"""Positions: fixed offsets that belong to one topic, and not to another one of its name."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import (
    KafkaOffsetsError,
    LogTruncatedError,
    OffsetsError,
    ResponseError,
    TopicChangedError,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.unit.offsets.builders import HOUR_MS, LEDGER_ID, T0, extent, extents, snapshot

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
AT_5, LATER = SeenOffset("t", 0, 5), SeenOffset("t", 1, 7)


class TestPositions:
    def test_a_snapshot_gives_its_offsets_and_the_ids_of_its_topics(self) -> None:
        positions = FixedOffsets.of_snapshot(snapshot({0: 5, 1: 7}), "s3://ledger/p")
        assert dict(positions.items()) == {ZERO: 5, ONE: 7}
        assert positions.source == "the snapshot as of 2026-11-21T06:00:00.000Z"
        assert positions.where() == {"ledger": "s3://ledger/p"}
        assert positions.cluster_id == "cluster-1"
        assert [each.leader_epoch for each in positions.seen] == [1, 1]

    def test_so_does_the_end_of_a_window(self) -> None:
        pinned = Manifest.of("loads", LEDGER_ID, snapshot({0: 5}), snapshot({0: 9}, at_ms=T0 + HOUR_MS))
        (seen,) = FixedOffsets.of_window_end(pinned).seen
        assert (seen.offset, seen.leader_epoch) == (9, pinned.ranges[0].end_leader_epoch)
        assert seen.leader_epoch is not None
        assert FixedOffsets.of_window_end(pinned).cluster_id == pinned.cluster_id

    def test_log_ends_are_those_of_the_isolation_level(self) -> None:
        logs = extents(extent(0, end=100, stable=90))
        ends = {level: FixedOffsets.of_ends("ends", logs, level, "cluster-1", {}) for level in IsolationLevel}
        assert [each.leader_epoch for each in ends[IsolationLevel.READ_COMMITTED].seen] == [1]
        assert ends[IsolationLevel.READ_COMMITTED].cluster_id == "cluster-1"
        assert dict(ends[IsolationLevel.READ_COMMITTED].items()) == {ZERO: 90}
        assert dict(ends[IsolationLevel.READ_UNCOMMITTED].items()) == {ZERO: 100}

    def test_an_end_that_is_not_known_is_an_error(self) -> None:
        broken = LogExtent("t", 0, error=ResponseError("LEADER_NOT_AVAILABLE", 5, True))
        with pytest.raises(OffsetsError):
            FixedOffsets.of_ends("ends", extents(broken), IsolationLevel.READ_COMMITTED, None, {})

    def test_equal_positions_are_one_value(self) -> None:
        assert len({FixedOffsets.of("a", [AT_5, LATER]), FixedOffsets.of("a", [LATER, AT_5])}) == 1


class TestRefusals:
    positions = FixedOffsets.of("snapshot 1", [AT_5], {"t": "id-1"}, cluster_id="cluster-1")

    def test_a_topic_that_was_created_again_is_another_one(self) -> None:
        """E24."""
        with pytest.raises(TopicChangedError, match="t was re-created"):
            self.positions.refuse_other_source("cluster-1", {"t": "id-2"})

    @pytest.mark.parametrize("ids", [{"t": "id-1"}, {"t": None}, {}])
    def test_the_same_one_and_one_whose_id_nobody_knows_are_taken(self, ids: dict[str, str | None]) -> None:
        self.positions.refuse_other_source("cluster-1", ids)
        self.positions.refuse_other_source(None, ids)

    def test_another_cluster_is_told_though_its_topics_have_no_ids(self) -> None:
        """S16: brokers before 2.8."""
        with pytest.raises(
            TopicChangedError,
            match="The connection now reaches cluster cluster-2, but snapshot 1 belongs to cluster cluster-1",
        ) as told:
            self.positions.refuse_other_source("cluster-2", {"t": None})
        assert told.value.topic == "t", "a watch goes on without it"
        self.positions.on([]).refuse_other_source("cluster-2", {"t": None})
        FixedOffsets.of("by hand", [AT_5]).refuse_other_source("cluster-2", {"t": None})

    def test_a_log_that_ends_before_its_offset_was_truncated(self) -> None:
        self.positions.refuse_truncated(extents(extent(0, 0, 5)))
        with pytest.raises(LogTruncatedError, match="t-0 now ends at 4"):
            self.positions.refuse_truncated(extents(extent(0, 0, 4)))

    @pytest.mark.parametrize(
        ("seen_under", "error"), [(2, OffsetsError), (1, LogTruncatedError), (0, LogTruncatedError)]
    )
    def test_the_end_that_an_earlier_leader_tells_proves_nothing(
        self, seen_under: int, error: type[KafkaOffsetsError]
    ) -> None:
        """S15: cut off from the controller, it doesn't know its successor."""
        target = FixedOffsets.of("snapshot 1", [SeenOffset("t", 0, 5, seen_under)])
        with pytest.raises(error) as refused:
            target.refuse_truncated(extents(extent(0, 0, 4)))
        assert refused.value.retriable is (error is OffsetsError)
