"""Groups, described and listed in frames as Apache Kafka's own classes write them."""

from __future__ import annotations

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

from airflow_kafka_offsets.client.requests.describe_groups import parse_consumer_group_describe, parse_describe_groups
from airflow_kafka_offsets.client.requests.list_groups import parse_list_groups, parse_listed
from airflow_kafka_offsets.client.requests.messages import ConsumerGroupDescribeRequest
from airflow_kafka_offsets.offsets.answers.groups import EMPTY, GroupDescription, GroupKind
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


class TestConsumerGroupDescribe:
    @every(frames("consumer_group_describe", "request", "two groups"))
    def test_groups_are_asked_for_as_kafka_asks(self, frame: Frame) -> None:
        request = ConsumerGroupDescribeRequest(
            version=frame.version, group_ids=["g", "h"], include_authorized_operations=False
        )
        assert encoded(request).hex() == frame.bytes.hex()

    @every(frames("consumer_group_describe", "response"))
    def test_members_are_read_with_what_they_read_now(self, frame: Frame) -> None:
        """E33: the assignment that they have, apart from the one that they are to have."""
        group = parse_consumer_group_describe(frame.decode())["g"]
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
        assert parse_consumer_group_describe(frame.decode())["h"] == GroupDescription("h")


class TestListGroups:
    @every(frames("list_groups", "request", "all groups"))
    def test_all_groups_are_asked_for_by_leaving_the_filters_out(self, frame: Frame) -> None:
        assert encoded(ListGroupsRequest[frame.version]()).hex() == frame.bytes.hex()

    @every(frames("list_groups", "response", "groups of all kinds"))
    def test_groups_of_consumers_are_told_from_others_in_every_version(self, frame: Frame) -> None:
        assert parse_list_groups(frame.decode()).groups == {"g", "gruppe-ü", "commits-only"}

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
