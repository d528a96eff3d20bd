"""Error codes of partitions and topics: what their leaders say of them, and the descriptions that lead there."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeProducersRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from airflow_kafka_offsets.errors import ClusterUnreachableError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.integration.client.error_codes.codes import LEADER_PASSES, LEADER_STAYS, Code, each_of, outcome
from tests.integration.client.pieces import A0, ALL, B0, B1, Pieces
from tests.integration.client.scripted import Answer
from tests.integration.client.scripted_answers import configs_are, metadata_is, offsets_are, producers_are


class TestListOffsets:
    @each_of(
        *LEADER_PASSES,
        (72, "LISTENER_NOT_FOUND", True),
        (74, "FENCED_LEADER_EPOCH", True, "E28"),
        (75, "UNKNOWN_LEADER_EPOCH", True, "E28"),
        (78, "OFFSET_NOT_AVAILABLE", False, "E27"),
        (100, "UNKNOWN_TOPIC_ID", True),
    )
    def test_a_code_that_passes_is_asked_again_for_its_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}), offsets_are(6))
        assert [outcome(*each) for each in self.listed(one)] == [5, 5, 6]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0, B0, B1], [B1]]
        assert one.described_topics() == [["a", "b"], ["b"]][: 1 + code.looks_up]

    @each_of(
        *LEADER_STAYS,
        (1, "OFFSET_OUT_OF_RANGE"),
        (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", False, "a timestamp, of an old log"),
    )
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}))
        assert [outcome(*each) for each in self.listed(one)] == [5, 5, code.name]
        assert len(one.asked(ListOffsetsRequest)) == 1

    @each_of((6, "NOT_LEADER_OR_FOLLOWER"), (78, "OFFSET_NOT_AVAILABLE"))
    def test_the_last_word_stands_at_the_deadline(self, one: Pieces, code: Code) -> None:
        """E27, E28"""
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}))
        hurried = one._replace(client=one.cluster.client(timeout_s=2))
        assert [outcome(*each) for each in self.listed(hurried)] == [5, 5, code.name]
        assert len(one.asked(ListOffsetsRequest)) > 1

    def listed(self, one: Pieces) -> list[tuple[ResponseError | None, int | None]]:
        return [(each.error, each.offset) for each in one.client.list_offsets(ALL, OffsetSpec.LATEST)]


class TestSegmentOffsets:
    """ListOffsets version 0."""

    @each_of(*LEADER_PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}), offsets_are(6))
        assert [outcome(*each) for each in self.segments(one)] == [(5,), (5,), (6,)]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0, B0, B1], [B1]]
        assert one.described_topics() == [["a", "b"], ["b"]][: 1 + code.looks_up]

    @each_of(*LEADER_STAYS)
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}))
        assert [outcome(*each) for each in self.segments(one)] == [(5,), (5,), code.name]
        assert len(one.asked(ListOffsetsRequest)) == 1

    def segments(self, one: Pieces) -> list[tuple[ResponseError | None, tuple[int, ...]]]:
        return [(each.error, each.offsets) for each in one.client.segment_offsets(ALL)]


class TestDescribeProducers:
    @each_of(*LEADER_PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeProducersRequest, producers_are(7, errors={B1: code.code}), producers_are(8))
        assert [outcome(*each) for each in self.producers(one)] == [[7], [7], [8]]
        assert one.asked_partitions(DescribeProducersRequest) == [[A0, B0, B1], [B1]]
        assert one.described_topics() == [["a", "b"], ["b"]][: 1 + code.looks_up]

    @each_of(*LEADER_STAYS)
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeProducersRequest, producers_are(7, errors={B1: code.code}))
        assert [outcome(*each) for each in self.producers(one)] == [[7], [7], code.name]
        assert len(one.asked(DescribeProducersRequest)) == 1

    def producers(self, one: Pieces) -> list[tuple[ResponseError | None, list[int]]]:
        return [(each.error, [one.producer_id for one in each.producers]) for each in one.client.producers(ALL)]


class TestMetadata:
    """Codes of topics and partitions, on the way to their leaders."""

    PASSES = (
        (5, "LEADER_NOT_AVAILABLE", True, "E26"),
        (7, "REQUEST_TIMED_OUT", True),
        (9, "REPLICA_NOT_AVAILABLE", True),
        (72, "LISTENER_NOT_FOUND", True, "the leader doesn't listen here yet"),
    )
    STAYS = (
        (-1, "UNKNOWN_SERVER_ERROR"),
        (17, "INVALID_TOPIC_EXCEPTION"),
        (29, "TOPIC_AUTHORIZATION_FAILED"),
        (42, "INVALID_REQUEST"),
    )

    @each_of(*PASSES)
    def test_a_topic_whose_code_passes_is_described_again_alone(self, one: Pieces, code: Code) -> None:
        answers = [metadata_is(one.cluster, topics={"b": code.code}), one.cluster.metadata]
        assert self.listed(one, *answers) == [5, 5, 5]
        assert one.described_topics() == [["a", "b"], ["b"]]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0], [B0, B1]]

    @each_of(*PASSES)
    def test_a_partition_without_a_leader_is_waited_for(self, one: Pieces, code: Code) -> None:
        """E26"""
        answers = [metadata_is(one.cluster, partitions={B1: code.code}), one.cluster.metadata]
        assert self.listed(one, *answers) == [5, 5, 5]
        assert one.described_topics() == [["a", "b"], ["b"]]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0, B0], [B1]]

    def test_a_topic_that_two_answers_do_not_know_is_in_error(self, one: Pieces) -> None:
        """A broker's metadata may lag."""
        name = "UNKNOWN_TOPIC_OR_PARTITION"
        assert self.listed(one, metadata_is(one.cluster, topics={"b": 3})) == [5, name, name]
        assert one.described_topics() == [["a", "b"], ["b"]]

    @each_of(*STAYS)
    def test_a_topic_whose_code_stays_is_in_error_at_once(self, one: Pieces, code: Code) -> None:
        assert self.listed(one, metadata_is(one.cluster, topics={"b": code.code})) == [5, code.name, code.name]
        assert one.described_topics() == [["a", "b"]]

    @each_of(*STAYS)
    def test_a_partition_whose_code_stays_is_in_error_at_once(self, one: Pieces, code: Code) -> None:
        assert self.listed(one, metadata_is(one.cluster, partitions={B1: code.code})) == [5, 5, code.name]
        assert one.described_topics() == [["a", "b"]]

    @each_of(*PASSES, *STAYS, (3, "UNKNOWN_TOPIC_OR_PARTITION"))
    def test_a_description_of_topics_has_the_code_as_data(self, one: Pieces, code: Code) -> None:
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": code.code}))
        described = one.client.topics(["a", "b"])
        assert [outcome(each.error, len(each.partitions)) for each in described] == [1, code.name]
        with pytest.raises(OffsetsError, match=rf"topic b: {code.name} \({code.code}\)"):
            one.client.partitions_of(["a", "b"])

    def listed(self, one: Pieces, *metadata: Answer) -> list[Any]:
        one.broker.on(MetadataRequest, *metadata)
        one.broker.on(ListOffsetsRequest, offsets_are(5))
        return [outcome(each.error, each.offset) for each in one.client.list_offsets(ALL, OffsetSpec.LATEST)]


class TestDescribeConfigs:
    @each_of(
        (-1, "UNKNOWN_SERVER_ERROR"),
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (29, "TOPIC_AUTHORIZATION_FAILED"),
        (31, "CLUSTER_AUTHORIZATION_FAILED"),
        (42, "INVALID_REQUEST"),
    )
    def test_settings_that_are_in_error_are_unknown_and_no_error(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeConfigsRequest, configs_are({"retention.ms": "5"}, errors={"b": code.code}))
        facts = one.client.topic_facts(["a", "b"])
        assert {topic: each.retention_ms for topic, each in facts.items()} == {"a": 5, "b": None}
        assert len(one.asked(DescribeConfigsRequest)) == 1

    @each_of((7, "REQUEST_TIMED_OUT"), (41, "NOT_CONTROLLER"))
    def test_settings_in_a_passing_error_are_asked_again(self, one: Pieces, code: Code) -> None:
        """Else no limit of retention is known, and a watch over it lets records be deleted."""
        settings = {"retention.ms": "5"}
        one.broker.on(DescribeConfigsRequest, configs_are(settings, errors={"b": code.code}), configs_are(settings))
        facts = one.client.topic_facts(["a", "b"])
        assert {topic: each.retention_ms for topic, each in facts.items()} == {"a": 5, "b": 5}

    def test_settings_in_an_error_that_does_not_pass_in_time_fail_retriably(self, one: Pieces) -> None:
        one.broker.on(DescribeConfigsRequest, configs_are({"retention.ms": "5"}, errors={"b": 7}))
        hurried = one.cluster.client(timeout_s=2)
        with pytest.raises(ClusterUnreachableError, match="the settings of topic b: REQUEST_TIMED_OUT") as failed:
            hurried.topic_facts(["a", "b"])
        assert failed.value.retriable
