"""The search for records where brokers say what healthy ones don't: errors, quotas, batches that didn't fit."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.records import FirstRecords, ReadPosition
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.integration.client.error_codes.codes import LEADER_PASSES, LEADER_STAYS, Code, each_of, outcome
from tests.integration.client.pieces import A0, ALL, B0, B1, Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import batches_are, offsets_are, silence, start_and_end_are, throttled
from tests.patience import GRACE_S
from tests.unit.client.records import stored_batches
from tests.unit.client.records.stored_batches import T0

END = 9


def batch(offset: int) -> bytes:
    """One record."""
    return stored_batches.batch((offset, T0))


FIVES = dict.fromkeys(ALL, batch(5))
SIXES = dict.fromkeys(ALL, batch(6))


def search(client: OffsetsClient, *pieces: TopicPartition, offset: int = 2) -> FirstRecords:
    return client.first_records([ReadPosition(*each, offset) for each in pieces or ALL])


def outcomes(found: FirstRecords) -> list[Any]:
    """Offset, or name of the error, or where the search ended."""
    return [
        outcome(each.error, each.offset if each.searched_to is None else f"none to {each.searched_to}")
        for each in found
    ]


def asked(one: Pieces) -> list[dict[TopicPartition, tuple[int, int]]]:
    """Offset and bytes by partition, of each Fetch in order of arrival."""
    return [
        {
            TopicPartition(topic.topic, each.partition): (each.fetch_offset, each.partition_max_bytes)
            for topic in request.topics
            for each in topic.partitions
        }
        for request in one.asked(FetchRequest)
    ]


class TestErrorCodes:
    @each_of(
        *LEADER_PASSES,
        (72, "LISTENER_NOT_FOUND", True),
        (74, "FENCED_LEADER_EPOCH", True, "E28"),
        (75, "UNKNOWN_LEADER_EPOCH", True, "E28"),
        (78, "OFFSET_NOT_AVAILABLE", False, "E27"),
    )
    def test_that_pass_are_asked_again_for_their_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(FetchRequest, batches_are(FIVES, end=END, errors={B1: code.code}), batches_are(SIXES, end=END))
        assert outcomes(search(one.client)) == [5, 5, 6]
        assert [set(each) for each in asked(one)] == [set(ALL), {B1}]
        assert one.described_topics() == [["a", "b"], ["b"]][: 1 + code.looks_up]

    @each_of(*LEADER_STAYS, (2, "CORRUPT_MESSAGE"), (76, "UNSUPPORTED_COMPRESSION_TYPE", False, "zstd"))
    def test_that_stay_are_data_of_their_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(FetchRequest, batches_are(FIVES, end=END, errors={B1: code.code}))
        assert outcomes(search(one.client)) == [5, 5, code.name]
        assert len(one.asked(FetchRequest)) == 1

    def test_of_the_request_are_those_of_each_partition(self, one: Pieces) -> None:
        one.broker.on(FetchRequest, batches_are({}, end=END, error_code=-1))
        assert outcomes(search(one.client)) == ["UNKNOWN_SERVER_ERROR"] * 3

    def test_stand_at_the_deadline_when_they_do_not_pass(self, one: Pieces) -> None:
        one.broker.on(FetchRequest, batches_are(FIVES, end=END, errors={B1: 6}))
        started = time.monotonic()
        *found, failed = outcomes(search(one.cluster.client(timeout_s=2)))
        assert found == [5, 5]
        assert failed in ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"), "the last answer, or none by the deadline"
        assert time.monotonic() - started < 2 + GRACE_S

    def test_cost_nothing_of_what_was_read_before(self, one: Pieces) -> None:
        one.broker.on(
            FetchRequest,
            batches_are({A0: batch(1) + batch(2) + batch(3)}, end=END, errors={A0: 78}),
            batches_are({A0: batch(5)}, end=END),
        )
        assert outcomes(search(one.client, A0, offset=4)) == [5]


class TestOffsetOutOfRange:
    """The answer doesn't say where the log begins."""

    @pytest.mark.parametrize(("start", "found"), [(5, 5), (9, "none to 9")])
    def test_below_the_log_start_goes_on_from_there(self, one: Pieces, start: int, found: Any) -> None:
        """E9"""
        empty = batches_are(FIVES if start == 5 else {}, end=END)
        one.broker.on(FetchRequest, batches_are(FIVES, end=END, errors={A0: 1}), empty)
        one.broker.on(ListOffsetsRequest, start_and_end_are(start, END))
        assert outcomes(search(one.client, A0)) == [found]
        assert [each[A0][0] for each in asked(one)] == [2, start]

    def test_past_the_end_has_no_record(self, one: Pieces) -> None:
        """E17"""
        one.broker.on(FetchRequest, batches_are({}, end=END, errors={A0: 1}))
        one.broker.on(ListOffsetsRequest, start_and_end_are(0, END))
        assert outcomes(search(one.client, A0, offset=99)) == ["none to 9"]

    def test_within_the_log_is_asked_again(self, one: Pieces) -> None:
        """E27: a new leader that has not caught up."""
        one.broker.on(FetchRequest, batches_are({}, end=END, errors={A0: 1}), batches_are(FIVES, end=END))
        one.broker.on(ListOffsetsRequest, start_and_end_are(0, END))
        assert outcomes(search(one.client, A0)) == [5]


class TestAnswersThatAreShort:
    def test_are_asked_again_first_and_for_more(self, one: Pieces) -> None:
        """KIP-74: a batch that is larger than the limit comes for the first partition alone."""
        one.broker.on(
            FetchRequest,
            batches_are({A0: batch(5)}, end=END),
            batches_are({B0: batch(6)}, end=END),
            batches_are({B1: batch(7)}, end=END),
        )
        assert outcomes(search(one.client)) == [5, 6, 7]
        first, second, third = asked(one)
        assert (list(first), list(second), list(third)) == ([A0, B0, B1], [B0, B1], [B1])
        assert first[B1][1] < second[B1][1] < third[B1][1]

    def test_are_no_end_of_the_log_while_others_took_the_room(self, one: Pieces) -> None:
        """Who comes before the first batch would have got one; who comes after it need not."""
        one.broker.on(ListOffsetsRequest, offsets_are(0))
        one.broker.on(FetchRequest, batches_are({B0: batch(6)}, end=END), batches_are({B1: batch(7)}, end=END))
        assert outcomes(search(one.client)) == ["none to 9", 6, 7]

    def test_are_asked_again_when_the_records_are_in_slow_remote_storage(self, one: Pieces) -> None:
        """KIP-405: no batch came, and the broker has none on its own disk."""
        one.broker.on(ListOffsetsRequest, offsets_are(4))
        one.broker.on(FetchRequest, batches_are({}, end=END), batches_are(FIVES, end=END))
        assert outcomes(search(one.client, A0)) == [5]

    def test_of_a_log_whose_end_the_cleaner_emptied_end_there(self, one: Pieces) -> None:
        """E11: also where the broker is too old for remote storage."""
        one.broker.on(FetchRequest, batches_are({}, end=END))
        one.broker.on(ListOffsetsRequest, offsets_are(0, errors={A0: 35}))
        assert outcomes(search(one.client, A0)) == ["none to 9"]

    def test_go_on_until_there_is_a_record_or_the_end(self, one: Pieces) -> None:
        """Larger pieces, once there was nothing in the first."""
        one.broker.on(FetchRequest, *(batches_are({A0: batch(each)}, end=END) for each in (2, 3, 8)))
        found = one.client.first_records([ReadPosition(*A0, 2)], at_or_after_ms=T0 + 1)
        assert outcomes(found) == ["none to 9"]
        assert [each[A0] for each in asked(one)] == [(2, 16 * 1024), (3, 1 << 20), (4, 1 << 20)]

    def test_that_cut_the_first_batch_off_are_asked_for_more(self, one: Pieces) -> None:
        """Kafka sends it whole since 0.10.1; others may not."""
        one.broker.on(FetchRequest, batches_are({A0: batch(5)[:-1]}, end=END), batches_are(FIVES, end=END))
        assert outcomes(search(one.client, A0)) == [5]
        first, second = asked(one)
        assert first[A0][1] < second[A0][1]

    def test_that_leave_a_partition_out_are_its_error(self, one: Pieces) -> None:
        def forgetful(request: Any) -> Any:
            response = batches_are(FIVES, end=END)(request)
            response.responses.pop()
            return response

        one.broker.on(FetchRequest, forgetful)
        assert outcomes(search(one.client)) == [5, "UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"]


class TestBrokers:
    def test_that_enforce_a_quota_are_asked_again(self, one: Pieces) -> None:
        """KIP-124: the answer has no partition at all, which is no answer about any."""

        def nothing(request: Any) -> Any:
            response = batches_are({}, end=END)(request)
            response.responses = []
            return response

        one.broker.on(FetchRequest, throttled(nothing, 50), batches_are(FIVES, end=END))
        assert outcomes(search(one.client)) == [5, 5, 5]
        assert one.client.throttle_time_ms == 50

    def test_that_hang_cost_their_own_positions_an_error_by_the_deadline(self) -> None:
        """E29"""
        with ScriptedCluster({"a": [0, 1]}, brokers=2) as cluster:
            cluster.brokers[0].on(FetchRequest, batches_are({A0: batch(5)}, end=END))
            cluster.brokers[1].on(FetchRequest, silence)
            started = time.monotonic()
            found = search(cluster.client(timeout_s=2), A0, TopicPartition("a", 1))
            assert outcomes(found) == [5, "REQUEST_TIMED_OUT"]
            assert time.monotonic() - started < 2 + GRACE_S

    def test_that_never_come_to_an_end_do_not_keep_anybody_past_the_deadline(self, one: Pieces) -> None:
        at = iter(range(2, 10**6))

        def endless(request: Any) -> Any:
            time.sleep(0.01)
            return batches_are({A0: batch(next(at))}, end=10**7)(request)

        one.broker.on(FetchRequest, endless)
        started = time.monotonic()
        hurried = one.cluster.client(timeout_s=2)
        (found,) = hurried.first_records([ReadPosition(*A0, 2)], at_or_after_ms=T0 + 1)
        assert time.monotonic() - started < 2 + GRACE_S
        assert found.error is not None
        assert (found.error.name, found.error.retriable) == ("REQUEST_TIMED_OUT", True)
        assert "only read up to offset" in found.error.message

    def test_that_are_too_old_say_so(self) -> None:
        """Before Kafka 0.11 there is no isolation level."""
        with ScriptedCluster({"a": [0]}, versions={FetchRequest: (0, 3)}) as cluster:
            cluster.brokers[0].on(FetchRequest, batches_are(FIVES, end=END))
            assert outcomes(search(cluster.client(), A0)) == ["UNSUPPORTED_VERSION"]

    @pytest.mark.parametrize("version", range(4, 11))
    def test_are_asked_in_each_version(self, version: int) -> None:
        with ScriptedCluster({"a": [0]}, versions={FetchRequest: (4, version)}) as cluster:
            cluster.brokers[0].on(FetchRequest, batches_are(FIVES, end=END))
            assert outcomes(search(cluster.client(), A0)) == [5]
            (request,) = cluster.requests(FetchRequest)
            assert (request.API_VERSION, request.isolation_level, request.min_bytes) == (version, 1, 0)
            assert request.topics[0].partitions[0].current_leader_epoch == (7 if version >= 9 else -1)


class TestManyReaders:
    def test_of_the_same_offset_share_a_request(self, one: Pieces) -> None:
        """A hundred groups in the same tail."""
        one.broker.on(FetchRequest, batches_are({A0: b"".join(map(batch, range(2, 60)))}, end=60))
        positions = [ReadPosition(*A0, each) for each in range(2, 60)]
        found = one.client.first_records(positions, at_or_after_ms=T0 + 1)
        assert outcomes(found) == ["none to 60"] * 58
        assert len(asked(one)) <= 9

    def test_of_a_topic_without_an_id_read_again_in_each_call(self, one: Pieces) -> None:
        """E24: it may be another one by then."""
        one.broker.on(FetchRequest, batches_are({A0: batch(8)}, end=END))
        for _ in range(2):
            assert outcomes(one.client.first_records([ReadPosition(*A0, 2)], at_or_after_ms=T0 + 1)) == ["none to 9"]
        assert [each[A0][0] for each in asked(one)] == [2, 2]
