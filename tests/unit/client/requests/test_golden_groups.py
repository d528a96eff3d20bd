"""Groups, described and listed in frames as Apache Kafka's own classes write them."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

from airflow_kafka_offsets.client.requests.describe_groups import (
    CONSUMER,
    SHARE,
    STREAMS,
    NewerKind,
    parse_describe_groups,
)
from airflow_kafka_offsets.client.requests.describe_share_group_offsets import (
    describe_share_group_offsets_request,
    parse_describe_share_group_offsets,
)
from airflow_kafka_offsets.client.requests.list_groups import parse_list_groups, parse_listed
from airflow_kafka_offsets.offsets.answers.groups import (
    EMPTY,
    CommittedOffset,
    GroupDescription,
    GroupKind,
    ShareOffset,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.unit.client.requests.golden.frames import Frame, encoded, every, frames
from tests.unit.client.requests.golden.pieces import FLIGHTS_0, FLIGHTS_2, WEATHER_1
from tests.unit.client.requests.golden.words import name_of


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


@pytest.mark.parametrize(("kind", "group"), [(CONSUMER, "g"), (SHARE, "s"), (STREAMS, "app")])
def test_newer_groups_are_asked_for_as_kafka_asks(kind: NewerKind, group: str) -> None:
    asked_by_kafka = frames(f"{kind.kind}_group_describe", "request", "two groups")
    assert asked_by_kafka
    for frame in asked_by_kafka:
        asked = kind.request(version=frame.version, group_ids=[group, "h"], include_authorized_operations=False)
        assert encoded(asked).hex() == frame.bytes.hex()


class TestConsumerGroupDescribe:
    @every(frames("consumer_group_describe", "response"))
    def test_members_are_read_with_what_they_read_now(self, frame: Frame) -> None:
        """E33: the assignment that they have, apart from the one that they are to have."""
        group = CONSUMER.parse(frame.decode())["g"]
        assert (group.kind, group.state) == (GroupKind.CONSUMER, "Reconciling")
        assert [(each.member_id, each.assignment, each.topics) for each in group.members] == [
            ("member-1", (FLIGHTS_0, FLIGHTS_2, WEATHER_1), ("flights", "weather")),
            ("member-2", (), ()),
        ]
        assert [(each.target, each.topic_regex) for each in group.members] == [
            ((FLIGHTS_0, FLIGHTS_2), ""),
            ((WEATHER_1,), "wea.*"),
        ]

    @every(frames("consumer_group_describe", "response"))
    def test_a_group_that_is_not_found_is_unknown(self, frame: Frame) -> None:
        """E19"""
        assert CONSUMER.parse(frame.decode())["h"] == GroupDescription("h")


class TestShareGroupDescribe:
    @every(frames("share_group_describe", "response"))
    def test_members_are_read_with_the_topics_they_subscribe_to(self, frame: Frame) -> None:
        groups = SHARE.parse(frame.decode())
        (member,) = groups["s"].members
        assert (groups["s"].kind, groups["s"].state) == (GroupKind.SHARE, "Stable")
        assert (member.assignment, member.topics) == ((FLIGHTS_0, FLIGHTS_2), ("flights", "weather"))
        assert groups["s"].topics_unknown is None
        assert groups["h"] == GroupDescription("h")


class TestStreamsGroupDescribe:
    @every(frames("streams_group_describe", "response"))
    def test_members_read_all_that_the_topology_reads(self, frame: Frame) -> None:
        """Also topics that Kafka Streams made to repartition, and never those that it only writes to."""
        group = STREAMS.parse(frame.decode())["app"]
        assert (group.kind, group.state) == (GroupKind.STREAMS, "Stable")
        assert group.topics() == {"flights", "weather", "app-by-plane-repartition"}
        assert group.topics_unknown is None

    @every(frames("streams_group_describe", "response"))
    def test_what_is_read_is_unknown_until_all_topics_are_found(self, frame: Frame) -> None:
        groups = STREAMS.parse(frame.decode())
        unknown = groups["new"].topics_unknown
        assert (name_of(unknown), groups["new"].topics()) == ("REBALANCE_IN_PROGRESS", set())
        assert groups["h"] == GroupDescription("h")


class TestDescribeShareGroupOffsets:
    FLIGHTS = tuple(TopicPartition("flights", number) for number in range(3))

    @every(frames("describe_share_group_offsets", "request"))
    def test_groups_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        wanted = {"s": [*self.FLIGHTS, WEATHER_1], "t": None}
        assert encoded(describe_share_group_offsets_request(wanted, frame.version)).hex() == frame.bytes.hex()

    @every(frames("describe_share_group_offsets", "response", since=1))
    def test_offsets_are_read_with_their_lag_or_none_or_an_error(self, frame: Frame) -> None:
        wanted = {"s": [*self.FLIGHTS, WEATHER_1, TopicPartition("weather", 2)], "t": None}
        groups = parse_describe_share_group_offsets(wanted, frame.decode())
        begun, unstarted, uncounted, moved, missing = groups["s"].offsets
        assert begun == ShareOffset("flights", 0, 42, 7, 3)
        assert unstarted == ShareOffset("flights", 1)
        assert uncounted == ShareOffset("flights", 2, 9, None, 3)
        assert (moved.error and str(moved.error)) == "NOT_LEADER_OR_FOLLOWER (6): Not the leader."
        assert name_of(missing.error) == "UNKNOWN_SERVER_ERROR", "the answer has no such partition"
        assert (name_of(groups["t"].error), len(groups["t"].offsets)) == ("GROUP_ID_NOT_FOUND", 0)

    @every(frames("describe_share_group_offsets", "response", since=1))
    def test_what_is_not_counted_is_an_error_and_never_a_lag(self, frame: Frame) -> None:
        commits = parse_describe_share_group_offsets({"s": None}, frame.decode())["s"].as_commits()
        begun, unstarted, uncounted, _ = commits.offsets
        assert begun == CommittedOffset("flights", 0, 42, counted_lag=7)
        assert unstarted == CommittedOffset("flights", 1)
        assert (uncounted.offset, name_of(uncounted.error)) == (None, "NOT_COUNTED")

    @every(frames("describe_share_group_offsets", "response", until=0))
    def test_the_version_without_lag_has_none(self, frame: Frame) -> None:
        found = parse_describe_share_group_offsets({"s": None}, frame.decode())["s"]
        assert [offset.lag for offset in found.offsets] == [None] * 4


class TestListGroups:
    @every(frames("list_groups", "request", "all groups"))
    def test_all_groups_are_asked_for_by_leaving_the_filters_out(self, frame: Frame) -> None:
        assert encoded(ListGroupsRequest[frame.version]()).hex() == frame.bytes.hex()

    @every(frames("list_groups", "response", "groups of all kinds"))
    def test_groups_that_read_topics_are_told_from_others_in_every_version(self, frame: Frame) -> None:
        assert parse_list_groups(frame.decode()).groups == {"g", "gruppe-ü", "commits-only", "s", "app"}

    @every(frames("list_groups", "response", "groups of all kinds", since=5))
    def test_those_of_all_kinds_are_found_by_name(self, frame: Frame) -> None:
        found = parse_listed(frame.decode(), ["g", "s", "commits-only", "no-such"])
        assert found == {
            "g": GroupDescription("g", "Stable", GroupKind.CLASSIC, "consumer", listed=True),
            "s": GroupDescription("s", "Stable", GroupKind.SHARE, "share", listed=True),
            "commits-only": GroupDescription("commits-only", EMPTY, GroupKind.CLASSIC, listed=True),
            "no-such": GroupDescription("no-such", listed=False),
        }

    @every(frames("list_groups", "response", "a coordinator that still loads"))
    def test_a_coordinator_that_still_loads_lists_none_and_says_so(self, frame: Frame) -> None:
        listed = parse_list_groups(frame.decode())
        assert (listed.groups, name_of(listed.error)) == (set(), "COORDINATOR_LOAD_IN_PROGRESS")
