"""Descriptions of groups: whether all topics are told that their members read."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.offsets.answers.groups import (
    CONSUMER_PROTOCOL,
    EMPTY,
    GroupDescription,
    GroupKind,
    GroupMember,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition

A_0, B_0 = TopicPartition("a", 0), TopicPartition("b", 0)


def member(
    *topics: str,
    assignment: tuple[TopicPartition, ...] = (),
    target: tuple[TopicPartition, ...] = (),
    topic_regex: str = "",
) -> GroupMember:
    return GroupMember("m", "c", "h", assignment, topics, target, topic_regex)


def is_told(state: str, kind: GroupKind, *members: GroupMember, protocol_type: str = CONSUMER_PROTOCOL) -> bool:
    return GroupDescription("g", state, kind, protocol_type, members).topics_unknown is None


class TestClassicGroup:
    @pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
    def test_that_rebalances_tells_nothing_of_its_members_or_what_they_read_before(self, state: str) -> None:
        """Kafka 3.9, and Kafka 4."""
        assert not is_told(state, GroupKind.CLASSIC, member(), member())
        assert not is_told(state, GroupKind.CLASSIC, member(assignment=(A_0,)), member())

    def test_that_rebalances_on_a_broker_that_tells_all_the_same_is_told(self) -> None:
        assert is_told("PreparingRebalance", GroupKind.CLASSIC, member("a"), member("a", "b"))

    def test_that_is_stable_is_told(self) -> None:
        assert is_told("Stable", GroupKind.CLASSIC, member("a", assignment=(A_0,)), member())

    def test_without_members_is_told(self) -> None:
        """E21"""
        assert is_told(EMPTY, GroupKind.CLASSIC)

    def test_of_another_protocol_reads_no_topics(self) -> None:
        assert is_told("PreparingRebalance", GroupKind.CLASSIC, member(), protocol_type="connect")


class TestGroupOfKip848:
    """E33."""

    @pytest.mark.parametrize("state", ["Assigning", "Reconciling", "Stable"])
    def test_tells_names_always(self, state: str) -> None:
        assert is_told(state, GroupKind.CONSUMER, member("a", "b"), member("a"))

    def test_tells_what_an_expression_matches_once_it_has_assigned_by_it(self) -> None:
        waiting, reading = member(topic_regex="a.*"), member(topic_regex="a.*", target=(A_0,))
        assert not is_told("Assigning", GroupKind.CONSUMER, reading)
        assert not is_told("Stable", GroupKind.CONSUMER, waiting)
        assert is_told("Reconciling", GroupKind.CONSUMER, waiting, reading)
        assert is_told("Stable", GroupKind.CONSUMER, member(topic_regex="a.*", assignment=(A_0,), target=(A_0,)))

    def test_assigns_named_topics_by_no_expression(self) -> None:
        named = member("b", assignment=(B_0,), target=(B_0,))
        assert not is_told("Stable", GroupKind.CONSUMER, named, member(topic_regex="a.*"))
        assert is_told("Stable", GroupKind.CONSUMER, named, member(topic_regex="a.*", target=(A_0,)))

    def test_does_not_tell_which_of_two_expressions_it_has_assigned_by(self) -> None:
        """Kafka 4.3 assigns a topic to a member whose expression doesn't match it, before it has resolved that one."""
        first = member(topic_regex="a.*", assignment=(A_0,), target=(A_0,))
        assert not is_told("Stable", GroupKind.CONSUMER, first, member(topic_regex="b.*", target=(A_0,)))

    def test_reads_what_its_members_are_to_be_assigned(self) -> None:
        """A partition between two members is nobody's for a while."""
        moving = GroupDescription("g", members=(member(topic_regex="a.*"), member(topic_regex="a.*", target=(A_0,))))
        assert moving.topics() == {"a"}


def listed(state: str, kind: GroupKind, protocol_type: str = CONSUMER_PROTOCOL) -> GroupDescription:
    return GroupDescription("g", state, kind, protocol_type, listed=True)


class TestGroupThatIsOnlyListed:
    @pytest.mark.parametrize("kind", ["streams", "share", "of-tomorrow"])
    @pytest.mark.parametrize("state", [EMPTY, "Stable"])
    def test_never_tells_when_its_kind_should_have_been_described(self, kind: str, state: str) -> None:
        unknown = listed(state, GroupKind(kind), kind).topics_unknown
        assert unknown is not None
        assert not unknown.retriable
        assert f"it is a {kind} group ({state})" in unknown.message
        assert "name the topics" in unknown.message

    @pytest.mark.parametrize("kind", [GroupKind.CLASSIC, GroupKind.CONSUMER])
    def test_is_told_when_it_has_no_members(self, kind: GroupKind) -> None:
        """E21"""
        for state in (EMPTY, "Dead"):
            assert listed(state, kind).topics_unknown is None
            assert not listed(state, kind).may_have_members
        assert listed("Stable", kind).may_have_members
        unknown = listed("Stable", kind).topics_unknown
        assert unknown is not None
        assert unknown.retriable

    def test_is_not_unknown(self) -> None:
        assert not listed(EMPTY, GroupKind.STREAMS).no_such_group
        assert GroupDescription("g", listed=False).no_such_group


def test_the_error_may_pass_and_says_what_to_do() -> None:
    group = GroupDescription("g", "PreparingRebalance", GroupKind.CLASSIC, CONSUMER_PROTOCOL, (member(),))
    assert group.topics_unknown is not None
    assert group.topics_unknown.retriable
    assert str(group.topics_unknown) == (
        "REBALANCE_IN_PROGRESS (27): the group is PreparingRebalance, and Kafka reports what all members read only "
        "when it is Stable; wait, or name the topics (topics=, --topics)"
    )
