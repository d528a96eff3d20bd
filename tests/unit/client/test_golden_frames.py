"""kafka-python's messages, and ours, against frames that Apache Kafka's own classes wrote."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest

from airflow_kafka_offsets.client import list_offsets_codec
from airflow_kafka_offsets.client.coordinators import coordinator_place, coordinator_requests, parse_coordinators
from airflow_kafka_offsets.client.delete_records import delete_records_request, parse_delete_records
from airflow_kafka_offsets.client.describe_groups import parse_consumer_group_describe, parse_describe_groups
from airflow_kafka_offsets.client.groups import ListedGroup, parse_list_groups
from airflow_kafka_offsets.client.list_offsets import list_offsets_request, parse_list_offsets
from airflow_kafka_offsets.client.messages import ConsumerGroupDescribeRequest
from airflow_kafka_offsets.client.metadata import metadata_request, parse_metadata
from airflow_kafka_offsets.client.offset_commit import offset_commit_request, parse_offset_commit
from airflow_kafka_offsets.client.offset_delete import offset_delete_request, parse_offset_delete
from airflow_kafka_offsets.client.offset_fetch import offset_fetch_request, parse_offset_fetch
from airflow_kafka_offsets.client.offset_fetch_codec import FIRST_VERSION, decode_offset_fetch, encode_offset_fetch
from airflow_kafka_offsets.client.producers import describe_producers_request, parse_describe_producers
from airflow_kafka_offsets.client.segment_offsets import parse_segment_offsets, segment_offsets_request
from airflow_kafka_offsets.client.topic_configs import parse_topic_configs, topic_configs_request
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.committed import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.groups import EMPTY, GroupDescription, GroupKind
from airflow_kafka_offsets.offsets.listed import ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.producers import ActiveProducer
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from tests.unit.client.golden.frames import CLASSES, FOLDER, Frame, encoded, every, frames, header_of

OTHER_NAMES = {
    "clusterAuthorizedOperations": "authorized_operations",
    "topicAuthorizedOperations": "authorized_operations",
}
"""kafka-python's names for fields, where they aren't Kafka's in snake case."""
NO_OPERATIONS = -(2**31)

FLIGHTS_0, FLIGHTS_1, FLIGHTS_2 = (TopicPartition("flights", each) for each in range(3))
WEATHER_1 = TopicPartition("weather", 1)
WORDS = "größer als 7 ✓"
NOON_MS = 1_795_240_800_000
FLEXIBLE_HEADER = 5
"""Size of the header of a flexible response: the correlation id and no tags."""


class TestFiles:
    def test_every_file_is_of_an_api_that_is_tested(self) -> None:
        assert {path.stem for path in FOLDER.glob("*.json")} == CLASSES.keys()

    @pytest.mark.parametrize("api", CLASSES)
    def test_every_version_that_is_spoken_has_its_frames(self, api: str) -> None:
        for kind, message_class in zip(("request", "response"), CLASSES[api], strict=True):
            versions = {frame.version for frame in frames(api, kind)}
            assert versions == set(range(message_class.max_version + 1))


class TestClasses:
    """kafka-python's message classes, and those that :mod:`airflow_kafka_offsets.client.messages` adds to them."""

    @every([frame for api in CLASSES for frame in frames(api, "response")])
    def test_reads_what_kafka_wrote(self, frame: Frame) -> None:
        response = frame.decode()
        assert response.header.correlation_id == 7
        assert in_kafkas_words(response, frame.fields) == frame.fields

    @every([frame for api in CLASSES for frame in frames(api, "response")])
    def test_reads_to_the_last_byte_and_writes_the_same_again(self, frame: Frame) -> None:
        assert bytes(frame.decode().encode(header=True)).hex() == frame.bytes.hex()

    @every([frame for api in CLASSES for frame in frames(api, "request")])
    def test_writes_what_kafka_writes(self, frame: Frame) -> None:
        fields = in_pythons_words(frame.message_class, frame.fields)
        assert encoded(frame.message_class[frame.version](**fields)).hex() == frame.bytes.hex()


def in_kafkas_words(message: Any, like: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message that a golden one has, as Kafka's JSON gives them."""
    return {name: _kafkas_value(getattr(message, python_name(name)), name, value) for name, value in like.items()}


def _kafkas_value(value: Any, name: str, like: Any) -> Any:
    if isinstance(like, list) and value is not None:
        likes = [*like, *[None] * len(value)]
        return [
            in_kafkas_words(each, other) if isinstance(other, dict) else each
            for each, other in zip(value, likes, strict=False)
        ]
    if isinstance(like, dict):
        return in_kafkas_words(value, like)
    if name.endswith("topicId"):
        return base64.urlsafe_b64encode((value or uuid.UUID(int=0)).bytes).decode().rstrip("=")
    if name.lower().endswith("authorizedoperations"):
        return NO_OPERATIONS if value is None else value if isinstance(value, int) else sum(1 << bit for bit in value)
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(value).decode()
    return value


def in_pythons_words(message_class: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a message's class for a golden message."""
    return {python_name(name): _pythons_value(message_class, python_name(name), each) for name, each in fields.items()}


def _pythons_value(message_class: Any, name: str, value: Any) -> Any:
    if isinstance(value, dict):
        inner_class = message_class.fields[name].data_class
        return inner_class(**in_pythons_words(inner_class, value))
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_pythons_value(message_class, name, each) for each in value]
    if name == "topic_id":
        return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
    return value


def python_name(name: str) -> str:
    return OTHER_NAMES.get(name) or re.sub(r"(?=[A-Z])", "_", name).lower()


class TestListOffsets:
    SPECS = {
        "latest": OffsetSpec.LATEST,
        "latest, read_committed": OffsetSpec.LATEST,
        "earliest": OffsetSpec.EARLIEST,
        "timestamp": OffsetSpec.at(NOON_MS),
        "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
        "earliest-local": OffsetSpec.EARLIEST_LOCAL,
        "latest-tiered": OffsetSpec.LATEST_TIERED,
    }

    @every(frames("list_offsets", "request", *SPECS, since=1))
    def test_every_spec_is_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        committed = frame.what.endswith("read_committed")
        asked = (
            [WEATHER_1, FLIGHTS_2, FLIGHTS_0],
            self.SPECS[frame.what],
            IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
        )
        how: dict[str, Any] = {
            "epochs": {FLIGHTS_0: 7, WEATHER_1: 0}.get,
            "timeout_ms": 1500,
            "version": frame.version,
        }
        assert encoded(list_offsets_request(*asked, **how)).hex() == frame.bytes.hex()
        if frame.version >= list_offsets_codec.FIRST_VERSION:
            body = list_offsets_codec.encode_list_offsets(*asked, **how)
            assert (header_of(ListOffsetsRequest[frame.version]()) + body).hex() == frame.bytes.hex()

    @every(frames("list_offsets", "response", "ends, and an error"))
    def test_ends_are_read_with_their_epoch_and_the_error_of_a_partition_is_its_own(self, frame: Frame) -> None:
        listed = parse_list_offsets(frame.decode(), OffsetSpec.LATEST)
        assert {piece: (each.outcome, each.offset, each.timestamp_ms) for piece, each in listed.items()} == {
            FLIGHTS_0: (ListOutcome.FOUND, 42, None),
            FLIGHTS_2: (ListOutcome.ERROR, None, None),
            WEATHER_1: (ListOutcome.FOUND, 0, None),
        }
        assert listed[FLIGHTS_0].leader_epoch == (7 if frame.version >= 4 else None)
        assert listed[WEATHER_1].leader_epoch is None
        assert name_of(listed[FLIGHTS_2].error) == "NOT_LEADER_OR_FOLLOWER"

    @every(frames("list_offsets", "response", "a record at a timestamp, no record, an older record", since=1))
    def test_a_record_is_found_missing_or_older_than_asked(self, frame: Frame) -> None:
        listed = parse_list_offsets(frame.decode(), OffsetSpec.at(NOON_MS))
        assert {piece: (each.outcome, each.offset, each.timestamp_ms) for piece, each in listed.items()} == {
            FLIGHTS_0: (ListOutcome.FOUND, 41, NOON_MS + 500),
            FLIGHTS_2: (ListOutcome.NO_RECORD, None, None),
            WEATHER_1: (ListOutcome.OLDER_THAN_ASKED, 3, NOON_MS - 500),
        }


class TestSegmentOffsets:
    """ListOffsets version 0."""

    ASKED = {
        "latest": (OffsetSpec.LATEST, 1),
        "latest, three offsets": (OffsetSpec.LATEST, 3),
        "earliest": (OffsetSpec.EARLIEST, 1),
        "timestamp": (OffsetSpec.at(NOON_MS), 1),
    }

    @every(frames("list_offsets", "request", *ASKED, until=0))
    def test_segments_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        request = segment_offsets_request([WEATHER_1, FLIGHTS_2, FLIGHTS_0], *self.ASKED[frame.what])
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("list_offsets", "response", "ends, and an error", until=0))
    def test_segments_are_read_newest_first_and_the_error_of_a_partition_is_its_own(self, frame: Frame) -> None:
        segments = parse_segment_offsets(frame.decode())
        assert {piece: (each.offsets, name_of(each.error)) for piece, each in segments.items()} == {
            FLIGHTS_0: ((42, 17, 0), None),
            FLIGHTS_2: ((), "NOT_LEADER_OR_FOLLOWER"),
            WEATHER_1: ((0,), None),
        }

    @every(frames("list_offsets", "response", "a record at a timestamp, no record, an older record", until=0))
    def test_no_segment_that_old_is_no_offset_and_no_error(self, frame: Frame) -> None:
        segments = parse_segment_offsets(frame.decode())
        assert [(each.offsets, each.error) for each in segments.values()] == [((41,), None), ((), None), ((3,), None)]


TOPIC_IDS = {"flights": "666c69db-4874-4655-aadd-b5a4a90e3152", "weather": "77656174-6865-7244-a8ab-d6df37690132"}


class TestOffsetFetch:
    """Version 0 reads ZooKeeper, in the same words."""

    SOME = (WEATHER_1, FLIGHTS_2, FLIGHTS_0)
    WANTED = {
        "some partitions of one group": {"g": SOME},
        "all that one group committed": {"g": None},
        "some of one group, all of another": {"g": SOME, "h": None},
    }

    @every(frames("offset_fetch", "request", *WANTED))
    def test_groups_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        wanted = self.WANTED[frame.what]
        if frame.version < FIRST_VERSION:
            (asked,) = wanted.items()
            written = encoded(offset_fetch_request(*asked, frame.version))
        else:
            body = encode_offset_fetch(wanted, frame.version, ids_for(frame, 10))
            written = header_of(OffsetFetchRequest[frame.version]()) + body
        assert written.hex() == frame.bytes.hex()

    @every(frames("offset_fetch", "response", "commits, none, and an error"))
    def test_commits_of_one_group_are_read(self, frame: Frame) -> None:
        group = parse_offset_fetch("g", frame.decode())
        assert group.error is None
        self.assert_commits(group.offsets, epoch=7 if frame.version >= 5 else None)

    @every(frames("offset_fetch", "response", "a group in error"))
    def test_the_error_of_a_group_is_its_own(self, frame: Frame) -> None:
        group = parse_offset_fetch("g", frame.decode())
        assert (name_of(group.error), len(group.offsets)) == ("NOT_COORDINATOR", 0)

    @every(frames("offset_fetch", "response", "groups with commits, in error, unstable, without commits"))
    def test_groups_of_one_answer_are_told_apart(self, frame: Frame) -> None:
        names = {topic_id: topic for topic, topic_id in TOPIC_IDS.items()}
        fetched = decode_offset_fetch(frame.bytes[FLEXIBLE_HEADER:], frame.version, names)
        assert fetched.throttle_time_ms == 100
        assert {group: name_of(each.error) for group, each in fetched.groups.items()} == {
            "g": None,
            "h": "NOT_COORDINATOR",
            "i": None,
            "j": None,
        }
        self.assert_commits(fetched.groups["g"].offsets, epoch=7)
        (unstable,) = fetched.groups["i"].offsets
        assert (unstable.offset, name_of(unstable.error)) == (None, "UNSTABLE_OFFSET_COMMIT")
        assert len(fetched.groups["j"].offsets) == 0

    def assert_commits(self, offsets: CommittedOffsets, epoch: int | None) -> None:
        missing = offsets.lookup(*WEATHER_1)
        assert [offsets.lookup(*each) for each in (FLIGHTS_0, FLIGHTS_1, FLIGHTS_2)] == [
            CommittedOffset("flights", 0, 42, epoch, WORDS),
            CommittedOffset("flights", 1, 0),
            CommittedOffset("flights", 2),
        ]
        assert missing is not None
        assert (missing.offset, name_of(missing.error)) == (None, "UNKNOWN_TOPIC_OR_PARTITION")


class TestOffsetCommit:
    OFFSETS = CommittedOffsets(
        [
            CommittedOffset("flights", 0, 42, 7, WORDS),
            CommittedOffset("flights", 2, 0),
            CommittedOffset("weather", 1, 2**40),
        ]
    )

    @every(frames("offset_commit", "request", "an administrator", since=2))
    def test_offsets_are_committed_as_an_administrator_of_kafka_does(self, frame: Frame) -> None:
        request = offset_commit_request("g", self.OFFSETS, frame.version, ids_for(frame, 10))
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("offset_commit", "response", since=2))
    def test_what_was_written_is_told_from_what_was_refused(self, frame: Frame) -> None:
        written = parse_offset_commit(self.OFFSETS, frame.decode(), ids_for(frame, 10))
        assert [(each.topic, each.partition, each.offset, name_of(each.error)) for each in written] == [
            ("flights", 0, 42, None),
            ("flights", 2, None, "UNKNOWN_MEMBER_ID"),
            ("weather", 1, None, "TOPIC_AUTHORIZATION_FAILED"),
        ]


class TestOffsetDelete:
    SOME = (WEATHER_1, FLIGHTS_2, FLIGHTS_0)

    @every(frames("offset_delete", "request", "some partitions"))
    def test_commits_are_deleted_as_kafka_does(self, frame: Frame) -> None:
        assert encoded(offset_delete_request("g", self.SOME, frame.version)).hex() == frame.bytes.hex()

    @every(frames("offset_delete", "response", "deleted, and errors"))
    def test_the_error_of_a_partition_is_its_own(self, frame: Frame) -> None:
        deleted = parse_offset_delete(self.SOME, frame.decode())
        assert [(each.topic, each.partition, each.offset, name_of(each.error)) for each in deleted] == [
            ("flights", 0, None, None),
            ("flights", 2, None, "GROUP_SUBSCRIBED_TO_TOPIC"),
            ("weather", 1, None, "UNKNOWN_TOPIC_OR_PARTITION"),
        ]

    @every(frames("offset_delete", "response", "a group in error"))
    def test_the_error_of_the_group_is_each_partitions(self, frame: Frame) -> None:
        deleted = parse_offset_delete(self.SOME, frame.decode())
        assert deleted.partitions() == [FLIGHTS_0, FLIGHTS_2, WEATHER_1]
        assert {name_of(each.error) for each in deleted} == {"NON_EMPTY_GROUP"}


class TestDescribeGroups:
    @every(frames("describe_groups", "response"))
    def test_classic_groups_are_read_with_their_members(self, frame: Frame) -> None:
        groups = parse_describe_groups(frame.decode())
        first, second = groups["g"].members
        assert (groups["g"].kind, groups["g"].state) == (GroupKind.CLASSIC, "Stable")
        assert (str(first), first.topics) == (
            "reader-ü at 192.0.2.1 reading flights-0, flights-2",
            ("flights", "weather"),
        )
        assert (second.member_id, second.assignment) == ("member-2", ())
        assert groups["h"] == GroupDescription("h", EMPTY, GroupKind.CLASSIC)

    @every(frames("describe_groups", "response"))
    def test_a_group_that_is_not_found_is_unknown_in_every_version(self, frame: Frame) -> None:
        """E19"""
        assert parse_describe_groups(frame.decode())["i"] == GroupDescription("i")

    @every(frames("describe_groups", "request", "two groups", until=2))
    def test_groups_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        """Later versions also ask what the user may do with them, which this client doesn't."""
        request = DescribeGroupsRequest[frame.version](groups=["g", "h"], include_authorized_operations=False)
        assert encoded(request).hex() == frame.bytes.hex()


class TestConsumerGroupDescribe:
    @every(frames("consumer_group_describe", "request", "two groups"))
    def test_groups_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        request = ConsumerGroupDescribeRequest(
            version=frame.version, group_ids=["g", "h"], include_authorized_operations=False
        )
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("consumer_group_describe", "response"))
    def test_members_are_read_with_what_they_read_now(self, frame: Frame) -> None:
        """E33: the assignment that they have, not the one that they are to have."""
        group = parse_consumer_group_describe(frame.decode())["g"]
        assert (group.kind, group.state) == (GroupKind.CONSUMER, "Reconciling")
        assert [(each.member_id, each.assignment, each.topics) for each in group.members] == [
            ("member-1", (FLIGHTS_0, FLIGHTS_2, WEATHER_1), ("flights", "weather")),
            ("member-2", (), ()),
        ]

    @every(frames("consumer_group_describe", "response"))
    def test_a_group_that_is_not_found_is_unknown(self, frame: Frame) -> None:
        """E19"""
        assert parse_consumer_group_describe(frame.decode())["h"] == GroupDescription("h")


class TestDescribeProducers:
    @every(frames("describe_producers", "request", "some partitions"))
    def test_partitions_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        request = describe_producers_request([WEATHER_1, FLIGHTS_2, FLIGHTS_0], frame.version)
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("describe_producers", "response"))
    def test_open_transactions_are_told_from_none_and_from_errors(self, frame: Frame) -> None:
        found = parse_describe_producers(frame.decode())
        assert found[FLIGHTS_0].producers == (ActiveProducer(4000, 3, NOON_MS, 42), ActiveProducer(2**40, 3))
        assert [each.producer_id for each in found[FLIGHTS_0].open_transactions] == [4000]
        assert (found[FLIGHTS_2].producers, found[FLIGHTS_2].error) == ((), None)
        assert str(found[WEATHER_1].error) == "NOT_LEADER_OR_FOLLOWER (6): Not the leader."


class TestDeleteRecords:
    @every(frames("delete_records", "request"))
    def test_records_are_deleted_as_kafka_does(self, frame: Frame) -> None:
        request = delete_records_request({WEATHER_1: -1, FLIGHTS_0: 42}, 1500, frame.version)
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("delete_records", "response"))
    def test_the_new_log_start_is_read_and_the_error_of_a_partition_is_its_own(self, frame: Frame) -> None:
        extents = parse_delete_records(frame.decode())
        assert {piece: (each.log_start_offset, name_of(each.error)) for piece, each in extents.items()} == {
            FLIGHTS_0: (42, None),
            WEATHER_1: (None, "OFFSET_OUT_OF_RANGE"),
        }


class TestCoordinators:
    @every(frames("find_coordinator", "request", "of a group", "of two groups"))
    def test_groups_are_looked_up_as_kafka_does(self, frame: Frame) -> None:
        groups = ["g", "h"] if frame.version >= 4 else ["g"]
        (request,) = coordinator_requests(groups, frame.version)
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("find_coordinator", "response", "found", "found, and not available"))
    def test_a_coordinator_is_found(self, frame: Frame) -> None:
        row = parse_coordinators(["g"], [frame.decode()])["g"]
        assert coordinator_place(row) == 3
        assert (row.host, row.port) == ("kafka-3.example", 9092)

    @every(frames("find_coordinator", "response", "not available", "found, and not available"))
    def test_none_is_an_error_in_kafkas_words(self, frame: Frame) -> None:
        place = coordinator_place(parse_coordinators(["h"], [frame.decode()])["h"])
        assert isinstance(place, ResponseError)
        assert place.name == "COORDINATOR_NOT_AVAILABLE"
        assert place.message == ("The coordinator is not available." if frame.version >= 1 else "")


class TestMetadata:
    TOPICS = {
        "two topics": ["flights", "weather"],
        "all topics, by an empty list": None,
        "all topics, by null": None,
        "no topics": [],
    }

    @every(frames("metadata", "request", *TOPICS))
    def test_topics_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        assert encoded(metadata_request(self.TOPICS[frame.what], frame.version)).hex() == frame.bytes.hex()

    ALL_KINDS = frames("metadata", "response", "a topic with every kind of partition, an internal one, an unknown one")

    @every(ALL_KINDS)
    def test_partitions_have_a_leader_and_its_epoch_or_an_error(self, frame: Frame) -> None:
        topic = parse_metadata(frame.decode()).lookup("flights")
        assert topic is not None
        assert [(each.leader, name_of(each.error)) for each in topic.partitions] == [
            (1, None),
            (None, "LEADER_NOT_AVAILABLE"),
            (2, None),
        ]
        assert topic.partitions[0].leader_epoch == (7 if frame.version >= 7 else None)

    @every(ALL_KINDS)
    def test_topics_have_what_their_version_tells_of_them(self, frame: Frame) -> None:
        topics = parse_metadata(frame.decode())
        assert topics.cluster_id == ("MkU3OEVBNTcwNTJENDM2Qg" if frame.version >= 2 else None)
        assert [(each.topic, each.internal, name_of(each.error)) for each in topics] == [
            ("__consumer_offsets", frame.version >= 1, None),
            ("flights", False, None),
            ("weather", False, "UNKNOWN_TOPIC_OR_PARTITION"),
        ]
        assert [each.topic_id is not None for each in topics] == [frame.version >= 10] * 2 + [False]


class TestListGroups:
    @every(frames("list_groups", "request", "all groups"))
    def test_all_groups_are_asked_for_by_leaving_the_filters_out(self, frame: Frame) -> None:
        assert encoded(ListGroupsRequest[frame.version]()).hex() == frame.bytes.hex()

    @every(frames("list_groups", "response", "groups of all kinds"))
    def test_groups_are_read_with_what_their_version_tells_of_them(self, frame: Frame) -> None:
        groups = parse_list_groups(frame.decode()).groups
        states, types = frame.version >= 4, frame.version >= 5
        assert groups["gruppe-ü"] == ListedGroup(
            "gruppe-ü", "consumer", "Reconciling" if states else None, "consumer" if types else None
        )
        consuming = [group for group, listed in groups.items() if listed.consumes]
        assert consuming == ["g", "gruppe-ü", "commits-only"]

    @every(frames("list_groups", "response", "a coordinator that still loads"))
    def test_a_coordinator_that_still_loads_lists_none_and_says_so(self, frame: Frame) -> None:
        listed = parse_list_groups(frame.decode())
        assert (listed.groups, name_of(listed.error)) == ({}, "COORDINATOR_LOAD_IN_PROGRESS")


class TestTopicConfigs:
    @every(frames("describe_configs", "request", "what windows depend on"))
    def test_settings_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        assert encoded(topic_configs_request(["flights", "weather"], frame.version)).hex() == frame.bytes.hex()

    @every(frames("describe_configs", "response"))
    def test_settings_with_a_value_are_read_of_topics_that_may_be_described(self, frame: Frame) -> None:
        assert parse_topic_configs(frame.decode()) == {
            "flights": {"retention.ms": "604800000", "cleanup.policy": "compact,delete"}
        }


def ids_for(frame: Frame, since: int) -> Mapping[str, str] | None:
    """Topic ids, for the versions that take them instead of names."""
    return TOPIC_IDS if frame.version >= since else None


def name_of(error: ResponseError | None) -> str | None:
    return None if error is None else error.name
