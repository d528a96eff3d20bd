"""What pre-flight makes of leaders' answers on where epochs end: only what nobody can know passes, and says so.

Logs that are really cut: ``airflow/windows/cluster/test_leaders.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from airflow_kafka_offsets.errors import LogTruncatedError, OffsetsError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.pipelines.log_changes import refuse_rewritten
from tests.integration.client.leader_epochs_answers import epochs_end_at
from tests.integration.client.pieces import A0, B0, B1, Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.unit.offsets.builders import snapshot

STORAGE_ERROR, NOT_ALLOWED, NOT_ALLOWED_ON_CLUSTER = 56, 29, 31


def stored(offsets: Mapping[TopicPartition, int], leader_epoch: int | None = 3) -> OffsetSnapshot:
    (sample,) = snapshot({0: 0}).boundaries.values()
    boundaries = {
        key: replace(sample, topic=key.topic, partition=key.partition, offset=offset, leader_epoch=leader_epoch)
        for key, offset in offsets.items()
    }
    return replace(snapshot({0: 0}), boundaries=boundaries)


ALL_AT_5 = stored({A0: 5, B0: 5, B1: 5})


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "airflow_kafka_offsets.pipelines.log_changes"]


class TestPasses:
    def test_an_epoch_that_ends_at_the_offset_or_past_it(self, one: Pieces, caplog: pytest.LogCaptureFixture) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(5))
        refuse_rewritten(one.client, ALL_AT_5)
        assert warnings_of(caplog) == []

    def test_a_broker_that_is_too_old_to_tell_and_says_so(self, caplog: pytest.LogCaptureFixture) -> None:
        with ScriptedCluster({"a": [0], "b": [0, 0]}, versions={}) as cluster:
            refuse_rewritten(cluster.client(), ALL_AT_5)
        (warning,) = warnings_of(caplog)
        assert "truncated below the snapshot as of" in warning
        assert "a-0 (brokers before Kafka 2.1 don't say), b-0" in warning

    def test_a_missing_permission_that_only_brokers_have_and_says_which(
        self, one: Pieces, caplog: pytest.LogCaptureFixture
    ) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(5, errors={B0: NOT_ALLOWED_ON_CLUSTER}))
        refuse_rewritten(one.client, ALL_AT_5)
        assert (
            "b-0 (brokers of Kafka 2.1 and 2.2 say it only to users with the ACL ClusterAction"
            in warnings_of(caplog)[0]
        )

    def test_an_epoch_that_the_log_does_not_remember_and_says_so(
        self, one: Pieces, caplog: pytest.LogCaptureFixture
    ) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(-1))
        refuse_rewritten(one.client, stored({A0: 5}))
        assert "a-0 (its leader doesn't know epoch 3)" in warnings_of(caplog)[0]

    def test_a_boundary_without_an_epoch_and_says_so_unless_nothing_is_below_it(
        self, one: Pieces, caplog: pytest.LogCaptureFixture
    ) -> None:
        refuse_rewritten(one.client, stored({A0: 5, B0: 0}, None))
        (warning,) = warnings_of(caplog)
        assert warning.endswith("a-0 (its leader epoch isn't known)")


class TestFails:
    def test_on_an_epoch_that_ends_before_the_offset_whatever_the_others_say(self, one: Pieces) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(4, errors={B0: NOT_ALLOWED}))
        with pytest.raises(LogTruncatedError, match="a-0 was truncated at 4, below 5, b-1"):
            refuse_rewritten(one.client, ALL_AT_5)

    def test_on_an_epoch_that_the_log_has_not_come_to(self, one: Pieces) -> None:
        """E24: brokers before 2.8 have no ids, by which a topic that was made again is told. With the same id, the
        topic's epochs began anew."""
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(-1))
        with pytest.raises(
            OffsetsError, match=r"a-0: .* under epoch 9, but the log is at 7\. .*re-created; or, .*anew.*ledger restart"
        ) as failed:
            refuse_rewritten(one.client, stored({A0: 5}, 9))
        assert failed.value.retriable

    def test_on_a_missing_permission_which_it_names(self, one: Pieces) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(5, errors={B0: NOT_ALLOWED}))
        with pytest.raises(OffsetsError, match=r"ACL Describe .* b-0: TOPIC_AUTHORIZATION_FAILED") as failed:
            refuse_rewritten(one.client, ALL_AT_5)
        assert not failed.value.retriable

    def test_on_an_error_that_another_try_mends(self, one: Pieces) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(5, errors={B0: STORAGE_ERROR}))
        with one.cluster.client(timeout_s=2) as impatient, pytest.raises(OffsetsError, match="b-0: ") as failed:
            refuse_rewritten(impatient, ALL_AT_5)
        assert failed.value.retriable
