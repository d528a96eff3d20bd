"""The pure halves: requests as they are built, and responses as they are read, without a network."""

from __future__ import annotations

import kafka.errors as kafka_errors
import pytest

from airflow_kafka_offsets.client.connection.wire import client_error, is_stale, named_error, response_error
from airflow_kafka_offsets.client.requests.list_offsets import failed_listing, join_extents
from airflow_kafka_offsets.client.requests.offset_commit import offset_commit_request
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class TestLogExtents:
    def test_an_extent_is_complete_or_in_error(self) -> None:
        error = named_error(29, "")
        starts = ListedOffsets([found(A0, 1), found(A1, 1)])
        stable = ListedOffsets([found(A0, 5), failed_listing(A1, OffsetSpec.LATEST, error)])
        good, bad = join_extents(starts, ListedOffsets([found(A0, 7), found(A1, 7)]), stable)
        assert (good.log_start_offset, good.high_watermark, good.last_stable_offset) == (1, 7, 5)
        assert (bad.error, bad.high_watermark) == (error, None)

    def test_an_end_without_an_offset_is_an_error_and_never_none_alone(self) -> None:
        ends = ListedOffsets([found(A0, 5)])
        nothing = ListedOffsets([ListedOffset("a", 0, OffsetSpec.LATEST, ListOutcome.NO_RECORD)])
        (extent,) = join_extents(ListedOffsets([found(A0, 1)]), ends, nothing)
        assert extent.error is not None


def found(key: TopicPartition, offset: int) -> ListedOffset:
    return ListedOffset(*key, OffsetSpec.LATEST, ListOutcome.FOUND, offset)


class TestOffsetCommit:
    def test_an_unknown_offset_is_never_committed(self) -> None:
        with pytest.raises(ConfigurationError, match="No offset is given for a-0"):
            offset_commit_request("g", CommittedOffsets([CommittedOffset("a", 0)]), 9)


class TestErrors:
    @pytest.mark.parametrize(
        ("code", "name", "retriable", "stale"),
        [
            (3, "UNKNOWN_TOPIC_OR_PARTITION", True, True),
            (6, "NOT_LEADER_OR_FOLLOWER", True, True),
            (14, "COORDINATOR_LOAD_IN_PROGRESS", True, False),
            (16, "NOT_COORDINATOR", True, True),
            (29, "TOPIC_AUTHORIZATION_FAILED", False, False),
            (78, "OFFSET_NOT_AVAILABLE", True, False),
            (-1, "UNKNOWN_SERVER_ERROR", False, False),
            (9999, "ERROR_9999", False, False),
        ],
    )
    def test_codes_have_kafkas_own_names(self, code: int, name: str, retriable: bool, stale: bool) -> None:
        error = response_error(code)
        assert error is not None
        assert (error.name, error.code, error.retriable, is_stale(error)) == (name, code, retriable, stale)

    @pytest.mark.parametrize(
        ("raised", "code", "words"),
        [
            (kafka_errors.KafkaTimeoutError("x"), 7, "h:1 did not answer in time"),
            (kafka_errors.KafkaConnectionError("111 ECONNREFUSED"), 13, "h:1: connection refused"),
            (kafka_errors.IncompatibleBrokerVersion("too old"), 35, "h:1: too old"),
            (RuntimeError("odd"), 13, "h:1: odd"),
        ],
    )
    def test_faults_of_the_connection_have_kafkas_client_codes(self, raised: Exception, code: int, words: str) -> None:
        error = client_error(raised, "h:1")
        assert (error.code, error.message) == (code, words)
