"""The pure halves: requests as they are built, and responses as they are read, without a network."""

from __future__ import annotations

from typing import Any

import kafka.errors as kafka_errors
import pytest
from kafka.protocol.admin import DescribeConfigsResponse, ListGroupsResponse
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataRequest, MetadataResponse

from airflow_kafka_offsets.client.connection.response_errors import client_error, is_stale, named_error, response_error
from airflow_kafka_offsets.client.requests.describe_configs import parse_topic_configs, topic_facts
from airflow_kafka_offsets.client.requests.list_groups import parse_list_groups
from airflow_kafka_offsets.client.requests.list_offsets import (
    failed_listing,
    join_extents,
    list_offsets_request,
    parse_list_offsets,
)
from airflow_kafka_offsets.client.requests.offset_commit import offset_commit_request
from airflow_kafka_offsets.client.requests.offset_fetch import offset_fetch_request, parse_offset_fetch
from airflow_kafka_offsets.client.routing.coordinators import (
    coordinator_place,
    coordinator_requests,
    parse_coordinators,
)
from airflow_kafka_offsets.client.routing.metadata import metadata_request, parse_metadata
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def over_the_wire(message: Any, version: int) -> Any:
    """What the other side reads."""
    return type(message).decode(message.encode(version=version), version=version)


class TestListOffsetsRequest:
    @pytest.mark.parametrize(
        ("spec", "timestamp"),
        [
            (OffsetSpec.LATEST, -1),
            (OffsetSpec.EARLIEST, -2),
            (OffsetSpec.MAX_TIMESTAMP, -3),
            (OffsetSpec.EARLIEST_LOCAL, -4),
            (OffsetSpec.LATEST_TIERED, -5),
            (OffsetSpec.at(1_795_240_800_000), 1_795_240_800_000),
        ],
        ids=str,
    )
    def test_each_spec_has_its_number(self, spec: OffsetSpec, timestamp: int) -> None:
        assert self.build([A0], spec).topics[0].partitions[0].timestamp == timestamp

    def test_partitions_are_grouped_sent_once_and_with_their_epoch(self) -> None:
        request = self.build([B0, A1, A0, A0])
        assert [
            (topic.name, each.partition_index, each.current_leader_epoch)
            for topic in request.topics
            for each in topic.partitions
        ] == [("a", 0, 7), ("a", 1, -1), ("b", 0, -1)]

    def test_isolation_and_timeout_are_set(self) -> None:
        request = self.build([A0])
        assert (request.isolation_level, request.timeout_ms) == (1, 1500)

    def build(self, partitions: list[TopicPartition], spec: OffsetSpec = OffsetSpec.LATEST) -> Any:
        request = list_offsets_request(
            partitions,
            11,
            1500,
            spec=spec,
            isolation_level=IsolationLevel.READ_COMMITTED,
            epochs={A0: 7}.get,
        )
        return over_the_wire(request, ListOffsetsRequest.max_version)


class TestListOffsetsResponse:
    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"offset": 5}, (ListOutcome.FOUND, 5, None, None)),
            ({"offset": 5, "timestamp": 2000, "leader_epoch": 3}, (ListOutcome.FOUND, 5, 2000, 3)),
            ({}, (ListOutcome.NO_RECORD, None, None, None)),
            ({"offset": 5, "timestamp": 999}, (ListOutcome.OLDER_THAN_ASKED, 5, 999, None)),
            ({"error_code": 29}, (ListOutcome.ERROR, None, None, None)),
        ],
    )
    def test_minus_one_ends_here(self, fields: dict[str, int], expected: tuple[Any, ...]) -> None:
        topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
        partition = topic_class.ListOffsetsPartitionResponse(partition_index=0, **{"error_code": 0} | fields)
        response = over_the_wire(ListOffsetsResponse(topics=[topic_class(name="a", partitions=[partition])]), 8)
        answer = parse_list_offsets(response, OffsetSpec.parse("1970-01-01T00:00:01Z"))[A0]
        assert (answer.outcome, answer.offset, answer.timestamp_ms, answer.leader_epoch) == expected


class TestLogExtents:
    def test_an_extent_is_complete_or_in_error(self) -> None:
        error = named_error(29, "")
        starts = ListedOffsets([found(A0, 1), found(A1, 1)])
        stable = ListedOffsets([found(A0, 5), failed_listing(A1, OffsetSpec.LATEST, error)])
        ends = {READ_UNCOMMITTED: ListedOffsets([found(A0, 7), found(A1, 7)]), READ_COMMITTED: stable}
        good, bad = join_extents(starts, ends)
        assert (good.log_start_offset, good.high_watermark, good.last_stable_offset) == (1, 7, 5)
        assert (bad.error, bad.high_watermark) == (error, None)

    def test_an_end_without_an_offset_is_an_error_and_never_none_alone(self) -> None:
        nothing = ListedOffsets([ListedOffset("a", 0, OffsetSpec.LATEST, ListOutcome.NO_RECORD)])
        (extent,) = join_extents(ListedOffsets([found(A0, 1)]), {READ_COMMITTED: nothing})
        assert extent.error is not None

    def test_an_end_that_nobody_asked_for_is_none(self) -> None:
        (extent,) = join_extents(ListedOffsets([found(A0, 1)]), {READ_COMMITTED: ListedOffsets([found(A0, 5)])})
        assert (extent.last_stable_offset, extent.high_watermark, extent.error) == (5, None, None)


def found(key: TopicPartition, offset: int) -> ListedOffset:
    return ListedOffset(*key, OffsetSpec.LATEST, ListOutcome.FOUND, offset)


class TestMetadata:
    def test_topics_are_never_created_by_asking(self) -> None:
        assert over_the_wire(metadata_request(["a"], 12), 12).allow_auto_topic_creation is False

    @pytest.mark.parametrize("version", [0, 1, 12])
    def test_all_topics_can_be_asked_for_in_every_version(self, version: int) -> None:
        request = MetadataRequest.decode(metadata_request(None, version).encode(), version=version)
        assert request.topics == ([] if version == 0 else None)

    def test_a_leader_of_minus_one_is_no_leader_but_an_error(self) -> None:
        """E26"""
        topic_class = MetadataResponse.MetadataResponseTopic
        partition = topic_class.MetadataResponsePartition(partition_index=0, leader_id=-1, error_code=0)
        response = MetadataResponse(brokers=[], topics=[topic_class(name="a", error_code=0, partitions=[partition])])
        (topic,) = parse_metadata(over_the_wire(response, 7))
        assert topic.partitions[0].leader is None
        assert topic.partitions[0].error is not None
        assert topic.partitions[0].error.name == "LEADER_NOT_AVAILABLE"

    def test_a_missing_replica_beside_a_healthy_leader_is_no_error(self) -> None:
        topic_class = MetadataResponse.MetadataResponseTopic
        partition = topic_class.MetadataResponsePartition(partition_index=0, leader_id=0, leader_epoch=4, error_code=9)
        response = MetadataResponse(brokers=[], topics=[topic_class(name="a", error_code=0, partitions=[partition])])
        (topic,) = parse_metadata(over_the_wire(response, 9))
        assert (topic.partitions[0].leader, topic.partitions[0].leader_epoch, topic.partitions[0].error) == (0, 4, None)


class TestTopicFacts:
    def test_settings_that_may_not_be_described_are_none(self) -> None:
        denied = DescribeConfigsResponse.DescribeConfigsResult(error_code=29, resource_type=2, resource_name="a")
        configs = parse_topic_configs(over_the_wire(DescribeConfigsResponse(results=[denied]), 1))
        assert configs == {}
        topic_class = MetadataResponse.MetadataResponseTopic
        response = MetadataResponse(brokers=[], topics=[topic_class(name="a", error_code=0, partitions=[])])
        (topic,) = parse_metadata(over_the_wire(response, 7))
        assert topic_facts(topic, configs.get("a", {})).retention_ms is None


class TestOffsetFetch:
    def test_new_brokers_are_asked_for_all_groups_at_once_and_stable_offsets(self) -> None:
        request = over_the_wire(offset_fetch_request({"g": None, "h": [A1, A0]}, 9), 9)
        assert request.require_stable
        assert request.groups[0].topics is None
        assert request.groups[1].topics[0].partition_indexes == [0, 1]

    def test_minus_one_is_no_commit(self) -> None:
        """E18"""
        topic_class = OffsetFetchResponse.OffsetFetchResponseTopic
        partition = topic_class.OffsetFetchResponsePartition(
            partition_index=0, committed_offset=-1, metadata="", error_code=0
        )
        response = over_the_wire(OffsetFetchResponse(topics=[topic_class(name="a", partitions=[partition])]), 5)
        commit = parse_offset_fetch("g", response).offsets.lookup("a", 0)
        assert commit == CommittedOffset("a", 0)


class TestOffsetCommit:
    def test_epoch_and_metadata_are_sent(self) -> None:
        """E34"""
        offsets = CommittedOffsets([CommittedOffset("a", 0, 5, 3, "why"), CommittedOffset("a", 1, 6)])
        request = OffsetCommitRequest.decode(offset_commit_request("g", offsets, 9).encode(), version=9)
        sent = request.topics[0].partitions
        assert [(each.committed_offset, each.committed_leader_epoch, each.committed_metadata) for each in sent] == [
            (5, 3, "why"),
            (6, -1, ""),
        ]

    def test_an_unknown_offset_is_never_committed(self) -> None:
        with pytest.raises(ConfigurationError, match="No offset is given for a-0"):
            offset_commit_request("g", CommittedOffsets([CommittedOffset("a", 0)]), 9)


class TestCoordinators:
    @pytest.mark.parametrize(("version", "requests"), [(3, 2), (4, 1)])
    def test_groups_are_batched_from_version_four(self, version: int, requests: int) -> None:
        assert len(coordinator_requests(["g", "h"], version)) == requests

    def test_an_error_is_the_groups_own(self) -> None:
        rows = [
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=node, host="h", port=1, error_code=code, error_message=None
            )
            for key, node, code in (("g", 3, 0), ("h", -1, 30))
        ]
        response = over_the_wire(FindCoordinatorResponse(coordinators=rows), 4)
        found_rows = parse_coordinators(["g", "h"], [response])
        assert coordinator_place(found_rows["g"]) == 3
        assert coordinator_place(found_rows["h"]) == response_error(30)


class TestGroups:
    @pytest.mark.parametrize(
        ("version", "protocol_type", "group_type", "consumes"),
        [
            (0, "consumer", "", True),
            (0, "", "", True),
            (5, "", "Classic", True),
            (5, "consumer", "Consumer", True),
            (5, "connect", "Classic", False),
            (5, "share", "Share", False),
        ],
    )
    def test_of_consumers_are_told_from_others(
        self, version: int, protocol_type: str, group_type: str, consumes: bool
    ) -> None:
        """Brokers before 3.8 don't tell the type."""
        group = ListGroupsResponse.ListedGroup(
            group_id="g", protocol_type=protocol_type, group_state="Stable", group_type=group_type
        )
        response = over_the_wire(ListGroupsResponse(error_code=0, groups=[group]), version)
        assert parse_list_groups(response).groups == ({"g"} if consumes else set())


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
