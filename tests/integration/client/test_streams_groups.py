"""Streams groups (KIP-1071); and groups that nobody describes: what is known of them is that they exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.requests.messages import ConsumerGroupDescribeRequest
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.errors import CommitRefusedError, ConditionFailedError, OffsetsError
from airflow_kafka_offsets.offsets.answers.groups import EMPTY, GroupKind
from airflow_kafka_offsets.offsets.lag import LagStatus
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.pipelines.resetter import Resetter
from dev.kafka import Broker
from tests.integration.client.cases.workload import commit, description_of, lag_of, new_name
from tests.integration.client.error_codes.codes import COORDINATOR_PASSES, Code, each_of
from tests.integration.client.pieces import A0, Pieces
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import (
    Listed,
    classic_groups_are,
    commits_are,
    consumer_groups_are,
    groups_are_listed,
    offsets_are,
)
from tests.integration.client.streams_member import streams_member
from tests.integration.conftest import MakeTopic, Produce

Join = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def topics(topic: MakeTopic, produce: Produce) -> list[str]:
    """Two topics of ten records each."""
    names = [topic(), topic()]
    for name in names:
        produce(name, 0, [(None, None, b"x")] * 10)
    return names


@pytest.fixture
def group() -> str:
    return new_name("streams")


@pytest.fixture
def join(broker: Broker) -> Join:
    return partial(streams_member, broker)


class TestStreamsGroup:
    @pytest.fixture(autouse=True)
    def member(self, join: Join, group: str, topics: list[str]) -> Iterator[None]:
        with join(group, topics):
            yield

    @pytest.fixture
    def half(self, client: OffsetsClient, join: Join, topics: list[str]) -> Iterator[str]:
        """A group that reads both topics, and has committed on the first alone."""
        name = new_name("streams")
        commit(client, name, {TopicPartition(topics[0], 0): 10})
        with join(name, topics):
            yield name

    def test_exists_and_is_of_its_kind(self, client: OffsetsClient, group: str) -> None:
        described = description_of(client, group)
        assert (described.no_such_group, described.kind, described.error) == (False, GroupKind.STREAMS, None)
        assert description_of(client, f"{group}-misspelt").no_such_group

    def test_is_measured_on_all_that_its_topology_reads(
        self, client: OffsetsClient, half: str, group: str, topics: list[str]
    ) -> None:
        lag = lag_of(client, half)
        assert {each.topic: (each.status, each.lag) for each in lag.partitions} == {
            topics[0]: (LagStatus.OK, 0),
            topics[1]: (LagStatus.NO_COMMIT, 10),
        }
        assert (lag.total, lag_of(client, group).total) == (10, 20)
        assert not GroupsCaughtUp((half,)).check(client).done
        assert {half, group} <= set(client.all_groups())

    def test_is_measured_on_topics_that_are_named(
        self, client: OffsetsClient, group: str, half: str, topics: list[str]
    ) -> None:
        assert [lag_of(client, each, topics=topics).total for each in (half, group)] == [10, 20]
        assert {each.status for each in lag_of(client, group, topics=topics).partitions} == {LagStatus.NO_COMMIT}
        assert GroupsCaughtUp((half,), (topics[0],)).check(client).done
        assert not GroupsCaughtUp((half,), tuple(topics)).check(client).done

    def test_is_not_reset_under_its_members(self, client: OffsetsClient, group: str, topics: list[str]) -> None:
        resetter = Resetter(client, group, topics=topics)
        plan = resetter.plan(OffsetSpec.EARLIEST)
        with pytest.raises(CommitRefusedError, match="active members"):
            resetter.execute(plan)


class TestLookUpInTheList:
    """Scripted: what the list of groups says of one that no description knows, and who is asked for it."""

    @pytest.fixture
    def unknown(self, one: Pieces) -> Pieces:
        """Nobody describes group g, which has read all of a."""
        return scripted(one)

    def test_a_group_of_each_other_kind_has_no_total(self, unknown: Pieces) -> None:
        for kind in ("Streams", "Share", "Something-New"):
            unknown.broker.on(ListGroupsRequest, groups_are_listed(Listed("g", "Stable", kind, kind.lower())))
            lag = lag_of(unknown.client, "g")
            assert (lag.no_such_group, lag.total, lag.error and lag.error.retriable) == (False, None, False), kind
            assert kind.lower() in str(lag.error)

    @pytest.mark.parametrize(("kind", "words"), [("Share", "share group"), ("Something-New", "something-new")])
    def test_a_group_that_commits_nothing_is_in_error_whatever_is_named(
        self, unknown: Pieces, kind: str, words: str
    ) -> None:
        """OffsetFetch answers as if it had read nothing: that would be a lag from the log start."""
        unknown.broker.on(OffsetFetchRequest, commits_are({}))
        unknown.broker.on(ListGroupsRequest, groups_are_listed(Listed("g", EMPTY, kind, kind.lower())))
        target = FixedOffsets.of("the target", [SeenOffset(*A0, 5)])
        asked: list[Callable[[], Any]] = [
            lambda: lag_of(unknown.client, "g", topics=["a"]).partitions.raise_for_errors(),
            lambda: unknown.client.group_lags({"g": [A0]}).raise_for_errors(),
            lambda: unknown.client.committed_offsets({"g": [A0]}).raise_for_errors(),
            lambda: unknown.client.committed_offsets({"g": None}).raise_for_errors(),
            lambda: GroupsCaughtUp(("g",), ("a",), no_commit="wait", max_lag=10).check(unknown.client),
            lambda: OffsetsReached("g", target).check(unknown.client),
            lambda: Resetter(unknown.client, "g", topics=["a"]).plan(OffsetSpec.EARLIEST),
            lambda: Resetter(unknown.client, "g").plan(OffsetSpec.LATEST),
        ]
        for ask in asked:
            with pytest.raises(OffsetsError, match=words) as failed:
                ask()
            assert not failed.value.retriable

    def test_a_group_whose_members_are_no_consumers_has_no_lag_before_it_commits(self, one: Pieces) -> None:
        """The workers of Kafka Connect, for example: they read no topics."""
        scripted(one, described={"g": "Stable"})
        one.broker.on(DescribeGroupsRequest, workers_are("g"))
        assert lag_of(one.client, "g", topics=["a"]).total == 0, "some commit"
        one.broker.on(OffsetFetchRequest, commits_are({}))
        lag = lag_of(one.client, "g", topics=["a"])
        assert lag.total is None
        assert "connect group (Stable)" in str(lag.error)

    @pytest.mark.parametrize("kind", ["Classic", "Consumer"])
    def test_a_group_without_members_reads_nothing_but_what_it_has_committed_on(
        self, unknown: Pieces, kind: str
    ) -> None:
        """E21"""
        for state in (EMPTY, "Dead"):
            unknown.broker.on(ListGroupsRequest, groups_are_listed(Listed("g", state, kind)))
            assert lag_of(unknown.client, "g").total == 0, state

    def test_a_group_with_members_that_is_not_described_yet_is_asked_again(self, unknown: Pieces) -> None:
        unknown.broker.on(ListGroupsRequest, groups_are_listed(Listed("g", "Stable", "Classic")))
        lag = lag_of(unknown.client, "g")
        assert (lag.no_such_group, lag.total, lag.error and lag.error.retriable) == (False, None, True)

    def test_a_group_with_commits_that_nobody_lists_is_asked_again(self, unknown: Pieces) -> None:
        """E30"""
        unknown.broker.on(ListGroupsRequest, groups_are_listed())
        lag = lag_of(unknown.client, "g")
        assert (lag.no_such_group, lag.total, lag.error and lag.error.retriable) == (False, None, True)

    def test_a_group_without_commits_that_nobody_lists_does_not_exist(self, unknown: Pieces) -> None:
        """E19"""
        unknown.broker.on(OffsetFetchRequest, commits_are({}))
        unknown.broker.on(ListGroupsRequest, groups_are_listed())
        assert lag_of(unknown.client, "g").no_such_group
        with pytest.raises(ConditionFailedError, match="doesn't exist"):
            GroupsCaughtUp(("g",)).check(unknown.client)

    def test_only_groups_that_came_back_unknown_are_looked_up_once_for_all_of_them(self, one: Pieces) -> None:
        scripted(one, described={"h": EMPTY, "i": EMPTY})
        one.broker.on(ListGroupsRequest, groups_are_listed(Listed("g", EMPTY, "Classic")))
        assert {each.group: each.total for each in one.client.group_lags(["h", "i"])} == {"h": 0, "i": 0}
        assert one.asked(ListGroupsRequest) == []
        totals = {each.group: each.total for each in one.client.group_lags(["g", "h", "g2", "i"])}
        assert totals == {"g": 0, "g2": None, "h": 0, "i": 0}
        assert len(one.asked(ListGroupsRequest)) == 1

    @each_of(*COORDINATOR_PASSES)
    def test_a_code_that_passes_is_asked_again(self, unknown: Pieces, code: Code) -> None:
        found = groups_are_listed(Listed("g", EMPTY, "Classic"))
        unknown.broker.on(ListGroupsRequest, groups_are_listed(error_code=code.code), found)
        assert lag_of(unknown.client, "g").total == 0

    def test_a_list_that_is_refused_leaves_it_open_whether_there_is_such_a_group(self, unknown: Pieces) -> None:
        unknown.broker.on(OffsetFetchRequest, commits_are({}))
        unknown.broker.on(ListGroupsRequest, groups_are_listed(error_code=31))
        lag = lag_of(unknown.client, "g")
        assert (lag.no_such_group, lag.total, lag.error and lag.error.name) == (
            False,
            None,
            "CLUSTER_AUTHORIZATION_FAILED",
        )

    @pytest.mark.parametrize("version", range(5))
    def test_brokers_that_know_no_types_know_no_groups_of_other_kinds(self, version: int) -> None:
        """Before Kafka 3.8."""
        with ScriptedCluster({"a": [0], "b": [0, 0]}, versions={ListGroupsRequest: (0, version)}) as cluster:
            old = scripted(Pieces(cluster, cluster.brokers[0], cluster.client()))
            old.broker.on(ListGroupsRequest, groups_are_listed())
            assert lag_of(old.client, "g").total == 0
            assert old.asked(ListGroupsRequest) == []


def workers_are(group: str) -> Answer:
    """A DescribeGroups answer: a group of Kafka Connect's workers."""

    def answer(request: Any) -> Any:
        response = classic_groups_are({group: "Stable"})(request)
        for each in response.groups:
            each.protocol_type = "connect"
        return response

    return answer


def scripted(pieces: Pieces, described: dict[str, str] | None = None) -> Pieces:
    """Each group has read all of a."""
    pieces.broker.on(OffsetFetchRequest, commits_are({A0: 5}))
    pieces.broker.on(ListOffsetsRequest, offsets_are(5))
    pieces.broker.on(DescribeGroupsRequest, classic_groups_are(described or {}))
    pieces.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({}))
    return pieces
