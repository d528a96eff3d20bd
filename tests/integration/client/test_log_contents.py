"""Counting what logs hold where brokers say what healthy ones don't: errors, batches that don't fit, ends that move."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.records import LogContents
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from tests.integration.client.error_codes.codes import outcome
from tests.integration.client.pieces import A0, ALL, B0, B1, Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import batches_are, offsets_are, silence
from tests.patience import GRACE_S
from tests.unit.client.records.stored_batches import T0, batch

END = 9
WHOLE = batch(*((each, T0) for each in range(2, END)))
HALF = batch((2, T0), (3, T0))
REST = batch(*((each, T0) for each in range(4, END)))


def count(client: OffsetsClient, *pieces: TopicPartition) -> LogContents:
    return client.log_contents([LogRange(*each, 2, END) for each in pieces or ALL])


def outcomes(found: LogContents) -> list[Any]:
    """Records and missing offsets, or name of the error, by partition."""
    return [outcome(each.error, (each.records, each.missing)) for each in found]


def asked(one: Pieces) -> list[dict[TopicPartition, int]]:
    """Offset by partition, of each Fetch in order of arrival."""
    return [
        {
            TopicPartition(topic.topic, each.partition): each.fetch_offset
            for topic in request.topics
            for each in topic.partitions
        }
        for request in one.asked(FetchRequest)
    ]


class TestErrorCodes:
    def test_cost_nothing_of_what_was_counted_before(self, one: Pieces) -> None:
        """E28: the leader moves in the middle of the range."""
        one.broker.on(
            FetchRequest,
            batches_are({A0: HALF}, end=END),
            batches_are({}, end=END, errors={A0: 6}),
            batches_are({A0: REST}, end=END),
        )
        assert outcomes(count(one.client, A0)) == [(7, 0)]
        assert asked(one) == [{A0: 2}, {A0: 4}, {A0: 4}]

    def test_keep_what_was_counted_beside_the_error(self, one: Pieces) -> None:
        one.broker.on(FetchRequest, batches_are({A0: HALF}, end=END), batches_are({}, end=END, errors={A0: 29}))
        (found,) = count(one.client, A0)
        assert outcome(found.error) == "TOPIC_AUTHORIZATION_FAILED"
        assert (found.records, found.counted_to) == (2, 4)


class TestRounds:
    def test_go_on_while_they_get_further(self, one: Pieces) -> None:
        """The deadline of a call is that of each round: here 7 answers take longer than one."""

        def slow(request: Any) -> Any:
            time.sleep(0.5)
            ((asked,),) = [topic.partitions for topic in request.topics]
            return batches_are({A0: batch((asked.fetch_offset, T0))}, end=END)(request)

        one.broker.on(FetchRequest, slow)
        assert outcomes(count(one.cluster.client(timeout_s=3), A0)) == [(7, 0)]

    def test_end_with_the_first_that_does_not(self) -> None:
        """E29: a broker that hangs costs its own partitions an error, and the others nothing."""
        with ScriptedCluster({"a": [0, 1]}, brokers=2) as cluster:
            cluster.brokers[0].on(FetchRequest, batches_are({A0: WHOLE}, end=END))
            cluster.brokers[1].on(FetchRequest, silence)
            started = time.monotonic()
            found = count(cluster.client(timeout_s=2), A0, TopicPartition("a", 1))
            assert outcomes(found) == [(7, 0), "REQUEST_TIMED_OUT"]
            assert time.monotonic() - started < 2 + GRACE_S


class TestAnswersThatAreShort:
    def test_are_asked_again_with_who_got_nothing_in_front(self, one: Pieces) -> None:
        """KIP-74: a batch that is larger than the limit comes for the first partition alone."""
        one.broker.on(
            FetchRequest,
            batches_are({A0: HALF}, end=END),
            batches_are({B0: WHOLE}, end=END),
            batches_are({B1: WHOLE}, end=END),
            batches_are({A0: REST}, end=END),
        )
        assert outcomes(count(one.client)) == [(7, 0)] * 3
        assert [list(each) for each in asked(one)] == [[A0, B0, B1], [B0, B1, A0], [B1, A0], [A0]]

    def test_of_a_log_whose_end_the_cleaner_emptied_are_missing_offsets(self, one: Pieces) -> None:
        """E11: also where the broker is too old for remote storage."""
        one.broker.on(FetchRequest, batches_are({A0: HALF}, end=END), batches_are({}, end=END))
        one.broker.on(ListOffsetsRequest, offsets_are(0, errors={A0: 35}))
        assert outcomes(count(one.client, A0)) == [(2, 5)]

    def test_are_no_end_while_the_leader_has_not_caught_up(self, one: Pieces) -> None:
        """E27"""
        one.broker.on(FetchRequest, batches_are({}, end=4), batches_are({A0: WHOLE}, end=END))
        assert outcomes(count(one.client, A0)) == [(7, 0)]

    def test_that_bring_no_whole_batch_are_an_error_and_no_gap(self, one: Pieces) -> None:
        """Kafka sends the first one whole since 0.10.1; others may not."""
        one.broker.on(FetchRequest, batches_are({A0: WHOLE[:-1]}, end=END))
        assert outcomes(count(one.client, A0)) == ["CORRUPT_MESSAGE"]


class TestOffsetOutOfRange:
    def test_is_gone_when_the_log_starts_later(self, one: Pieces) -> None:
        """E9"""
        one.broker.on(FetchRequest, batches_are({}, end=END, errors={A0: 1}))
        one.broker.on(ListOffsetsRequest, offsets_are(5))
        (found,) = count(one.client, A0)
        assert found.is_gone
        assert "the log starts at 5, past offset 2" in str(found.error)


class TestRanges:
    def test_without_offsets_are_counted_without_asking(self, one: Pieces) -> None:
        (found,) = one.client.log_contents([LogRange(*A0, 5, 5)])
        assert found.is_complete
        assert one.asked(FetchRequest) == []

    @pytest.mark.parametrize("ranges", [[LogRange(*A0, 0, 2), LogRange(*A0, 2, 4)], [LogRange(*A0, 4, 2)]])
    def test_that_are_not_one_a_partition_are_refused(self, one: Pieces, ranges: list[LogRange]) -> None:
        with pytest.raises(ConfigurationError, match="one range per partition"):
            one.client.log_contents(ranges)
