"""The pre-flight before a run: are the topics the same, and the records all there?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.errors import (
    DataLossError,
    LogTruncatedError,
    OffsetsError,
    ResponseError,
    TopicChangedError,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.pipelines.log_changes import lost_in
from tests.unit.offsets.builders import HOUR_MS, LEDGER_ID, T0, extent, extents, snapshot


def manifest(first: dict[int, int], last: dict[int, int]) -> Manifest:
    start, end = snapshot(first, at_ms=T0), snapshot(last, at_ms=T0 + HOUR_MS)
    return Manifest.of("loads", LEDGER_ID, start, end)


class TestPinnedWindow:
    def test_a_window_whose_records_are_all_there_passes(self) -> None:
        assert lost_in(manifest({0: 10}, {0: 30}), extents(extent(0, 10, 30))) == ()

    def test_loss_is_named_with_partitions_and_exact_counts(self) -> None:
        """S12, E9: before Spark starts."""
        pinned = manifest({0: 10, 1: 0}, {0: 30, 1: 5})
        with pytest.raises(DataLossError, match=r"7 of 25 offsets .* t-0: 2 offsets from 10 .* t-1: 5 offsets from 0"):
            lost_in(pinned, extents(extent(0, 12, 99), extent(1, 50, 99)))

    def test_who_loads_the_rest_is_told_exactly_what_is_lost(self) -> None:
        """The manifest stays as it is: losses are facts of an attempt."""
        pinned = manifest({0: 10, 1: 0, 2: 7}, {0: 30, 1: 5, 2: 9})
        logs = extents(extent(0, 12, 99), extent(1, 50, 99), extent(2, 7, 99))
        assert lost_in(pinned, logs, "load_rest") == (LogRange("t", 0, 10, 12), LogRange("t", 1, 0, 5))

    def test_a_range_past_the_end_is_a_truncated_log(self) -> None:
        """S15, E14."""
        with pytest.raises(LogTruncatedError, match="t-0 now ends at 20, before offset 30 of window"):
            lost_in(manifest({0: 10}, {0: 30}), extents(extent(0, 0, 99, stable=20)))

    def test_the_end_that_an_earlier_leader_tells_proves_nothing(self) -> None:
        """S15: cut off from the controller, it doesn't know its successor."""
        earlier = extents(extent(0, 0, 20)._replace(leader_epoch=0))
        with pytest.raises(OffsetsError, match="seen under epoch 1, but the log is at 0") as refused:
            lost_in(manifest({0: 10}, {0: 30}), earlier)
        assert refused.value.retriable

    def test_a_partition_that_cannot_be_asked_is_an_error(self) -> None:
        bad = LogExtent("t", 0, error=ResponseError("LEADER_NOT_AVAILABLE", 5, True))
        with pytest.raises(OffsetsError, match="LEADER_NOT_AVAILABLE"):
            lost_in(manifest({0: 10}, {0: 30}), extents(bad))

    def test_another_cluster_is_refused(self) -> None:
        pinned = manifest({0: 1}, {0: 2})
        with pytest.raises(TopicChangedError, match="cluster-1"):
            check_topics(pinned, "cluster-9", pinned.topics)

    def test_a_deleted_topic_is_refused(self) -> None:
        with pytest.raises(TopicChangedError, match="no longer exists"):
            check_topics(manifest({0: 1}, {0: 2}), "cluster-1", {})

    def test_a_recreated_topic_is_refused(self) -> None:
        """S16, E24."""
        pinned = manifest({0: 1}, {0: 2})
        other = {"t": replace(pinned.topics["t"], topic_id="id-2")}
        with pytest.raises(TopicChangedError, match="re-created"):
            check_topics(pinned, "cluster-1", other)
