"""Lag on named partitions: each group is judged on exactly those, and each partition answers for itself."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.lag import GroupLag, GroupLags, LagStatus
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.integration.client.pieces import A0, ALL, B0, B1, Pieces
from tests.integration.client.scripted_answers import commits_are, offsets_are
from tests.integration.conftest import MakeTopic, Produce


@pytest.fixture
def flights(topic: MakeTopic, produce: Produce) -> str:
    """Two partitions of ten records each."""
    name = topic(partitions=2)
    for partition in range(2):
        produce(name, partition, [(None, None, b"x")] * 10)
    return name


@pytest.fixture
def keys(flights: str) -> list[TopicPartition]:
    return [TopicPartition(flights, 0), TopicPartition(flights, 1)]


@pytest.fixture
def groups(client: OffsetsClient, keys: list[TopicPartition]) -> list[str]:
    """Two groups with commits on both partitions."""
    names = [f"{keys[0].topic}-{number}" for number in range(2)]
    for number, name in enumerate(names):
        commits = CommittedOffsets(CommittedOffset(*key, 3 + number) for key in keys)
        client.commit_offsets(name, commits).raise_for_errors()
    return names


def lag_in(lags: GroupLags, group: str) -> GroupLag:
    found = lags.lookup(group)
    assert found is not None
    return found


def told(lag: GroupLag) -> dict[TopicPartition, tuple[LagStatus, int | None]]:
    return {TopicPartition(each.topic, each.partition): (each.status, each.lag) for each in lag.partitions}


class TestGroups:
    def test_are_judged_on_their_own_partitions(
        self, client: OffsetsClient, groups: list[str], keys: list[TopicPartition]
    ) -> None:
        lags = client.group_lags({groups[0]: keys[:1], groups[1]: keys})
        assert told(lag_in(lags, groups[0])) == {keys[0]: (LagStatus.OK, 7)}
        assert told(lag_in(lags, groups[1])) == dict.fromkeys(keys, (LagStatus.OK, 6))
        assert [lag_in(lags, each).total for each in groups] == [7, 12]

    def test_say_the_same_as_when_their_topics_are_named(
        self, client: OffsetsClient, groups: list[str], keys: list[TopicPartition]
    ) -> None:
        on_topics = client.group_lags(groups, topics=[keys[0].topic])
        on_partitions = client.group_lags(dict.fromkeys(groups, keys))
        assert [each.partitions for each in on_topics] == [each.partitions for each in on_partitions]

    def test_that_do_not_exist_are_unknown(
        self, client: OffsetsClient, groups: list[str], keys: list[TopicPartition]
    ) -> None:
        """E19"""
        lags = client.group_lags({groups[0]: keys, "zzz-nobody": keys[:1]})
        assert [(each.no_such_group, each.total) for each in lags] == [(False, 14), (True, None)]
        assert told(lag_in(lags, "zzz-nobody")) == {keys[0]: (LagStatus.UNKNOWN_GROUP, None)}


class TestPartitions:
    def test_that_do_not_exist_are_errors_of_their_own(
        self, client: OffsetsClient, groups: list[str], keys: list[TopicPartition]
    ) -> None:
        """E25: nothing is raised, and the others answer."""
        gone = [TopicPartition(keys[0].topic, 9), TopicPartition("no-such-topic", 0)]
        lag = lag_in(client.group_lags({groups[0]: [*keys, *gone]}), groups[0])
        assert told(lag) == dict.fromkeys(keys, (LagStatus.OK, 7)) | dict.fromkeys(gone, (LagStatus.ERROR, None))
        assert {each.error.name for each in lag.partitions if each.error} == {"UNKNOWN_TOPIC_OR_PARTITION"}
        assert lag.total is None

    def test_may_be_named_twice(self, client: OffsetsClient, groups: list[str], keys: list[TopicPartition]) -> None:
        """E40"""
        assert lag_in(client.group_lags({groups[0]: [*keys, *keys]}), groups[0]).total == 14

    def test_and_topics_are_not_named_both(
        self, client: OffsetsClient, groups: list[str], keys: list[TopicPartition]
    ) -> None:
        with pytest.raises(ConfigurationError, match="not both"):
            client.group_lags({groups[0]: keys}, topics=[keys[0].topic])


class TestLagOnFewerPartitions:
    def test_is_that_of_the_same_group_on_these(
        self, client: OffsetsClient, groups: list[str], keys: list[TopicPartition]
    ) -> None:
        whole = lag_in(client.group_lags({groups[0]: keys}), groups[0])
        part = whole.on(keys[1:])
        assert (part.group, part.total, whole.total) == (groups[0], 7, 14)
        assert told(part) == {keys[1]: (LagStatus.OK, 7)}

    def test_leaves_out_what_the_group_was_not_judged_on(
        self, client: OffsetsClient, groups: list[str], keys: list[TopicPartition]
    ) -> None:
        """A sum over nothing is not zero."""
        part = lag_in(client.group_lags({groups[0]: keys[:1]}), groups[0]).on(keys[1:])
        assert (told(part), part.total) == ({}, None)


class TestRequests:
    @pytest.fixture(autouse=True)
    def _answers(self, one: Pieces) -> None:
        one.broker.on(OffsetFetchRequest, commits_are(dict.fromkeys(ALL, 2)))
        one.broker.on(ListOffsetsRequest, offsets_are(5))

    def test_ask_for_no_metadata_while_leaders_are_known(self, one: Pieces) -> None:
        for _ in range(3):
            lags = one.client.group_lags({"g": [A0, B1], "h": [B0]})
            assert [each.total for each in lags] == [6, 3]
        assert one.described_topics() == [["a", "b"]]
        assert one.located_groups() == [["g", "h"]]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0, B0, B1]] * 9

    def test_name_to_the_coordinator_what_each_group_is_judged_on(self, one: Pieces) -> None:
        one.client.group_lags({"g": [A0, B1], "h": [B0]})
        (request,) = one.asked(OffsetFetchRequest)
        named = {
            group.group_id: [(topic.name, each) for topic in group.topics for each in topic.partition_indexes]
            for group in request.groups
        }
        assert named == {"g": [A0, B1], "h": [B0]}

    def test_take_three_rounds_at_first(self, one: Pieces) -> None:
        """E16: leaders beside coordinators; commits; start and both ends of the logs, after the commits."""
        one.client.group_lags({"g": ALL})
        first, second, *rest = [type(each) for _, each in one.cluster.asked if type(each) is not MetadataRequest]
        assert (first, second, rest) == (FindCoordinatorRequest, OffsetFetchRequest, [ListOffsetsRequest] * 3)
