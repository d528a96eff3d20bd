"""Topics that one answer can't describe: nothing that was asked of them gets smaller or goes missing for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from kafka.protocol.admin import DescribeConfigsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from airflow_kafka_offsets.client.requests.messages import ConsumerGroupDescribeRequest
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.lag import GroupLag
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.pipelines.resetter import Resetter
from airflow_kafka_offsets.pipelines.resolver import Resolver
from tests.integration.client.error_codes.codes import Code, each_of
from tests.integration.client.pieces import A0, B0, Pieces
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import (
    classic_groups_are,
    commits_are,
    configs_are,
    consumer_groups_are,
    groups_are_listed,
    metadata_is,
    offsets_are,
    start_and_end_are,
)

UNDESCRIBABLE = (
    (-1, "UNKNOWN_SERVER_ERROR"),
    (3, "UNKNOWN_TOPIC_OR_PARTITION"),
    (17, "INVALID_TOPIC_EXCEPTION"),
    (29, "TOPIC_AUTHORIZATION_FAILED"),
)
"""What a broker says of a topic that is not asked for again, or only once: see :func:`times_asked`."""


def times_asked(code: Code) -> int:
    """How many answers with this code a topic needs to be in error: two say that it doesn't exist."""
    return 1 + (code.name == "UNKNOWN_TOPIC_OR_PARTITION")


def without_topic(cluster: ScriptedCluster, topic: str) -> Answer:
    """A Metadata answer that says nothing of a topic."""

    def answer(request: Any) -> Any:
        response = cluster.metadata(request)
        response.topics = [each for each in response.topics if each.name != topic]
        return response

    return answer


def without_partitions(cluster: ScriptedCluster, topic: str) -> Answer:
    """A Metadata answer that gives a topic neither partitions nor an error."""

    def answer(request: Any) -> Any:
        response = cluster.metadata(request)
        for each in response.topics:
            each.partitions = [] if each.name == topic else each.partitions
        return response

    return answer


def group_of(one: Pieces, commits: Mapping[TopicPartition, int], end: int = 5) -> None:
    """A group ``g`` without members; all logs reach from 0 to ``end``."""
    one.broker.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty"}))
    one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({}))
    one.broker.on(OffsetFetchRequest, commits_are(commits))
    one.broker.on(ListOffsetsRequest, start_and_end_are(0, end))


def read_by_g(one: Pieces, topic: str, commits: Mapping[TopicPartition, int]) -> None:
    """Group ``g`` of :func:`group_of`, with a member (KIP-848) that subscribes to one topic."""
    group_of(one, commits)
    response_class = ConsumerGroupDescribeRequest.response_class
    member_class = response_class.DescribedGroup.Member
    nothing = member_class.Assignment(topic_partitions=[])
    described = consumer_groups_are({"g": "Stable"})

    def answer(request: Any) -> Any:
        response = described(request)
        response.groups[0].members = [
            member_class(
                member_id="m",
                member_epoch=1,
                client_id="reader",
                client_host="/127.0.0.1",
                subscribed_topic_names=[topic],
                assignment=nothing,
                target_assignment=member_class.Target(topic_partitions=[]),
            )
        ]
        return response

    one.broker.on(DescribeGroupsRequest, classic_groups_are({}))
    one.broker.on(ConsumerGroupDescribeRequest, answer)


def lag_of(one: Pieces) -> GroupLag:
    lag = one.client.group_lags(["g"]).lookup("g")
    assert lag is not None
    return lag


class TestLag:
    """The group has committed on all of a and on b-0; on b-1 it is 5 behind, and has never committed."""

    COMMITS = {A0: 5, B0: 5}

    @each_of(*UNDESCRIBABLE)
    def test_a_topic_in_error_leaves_the_total_unknown_and_never_smaller(self, one: Pieces, code: Code) -> None:
        """E18: where b-1 was left out for want of metadata, the group was "0 behind" for one poll."""
        group_of(one, self.COMMITS)
        whole, flawed = one.cluster.metadata, metadata_is(one.cluster, topics={"b": code.code})
        one.broker.on(MetadataRequest, whole, *[flawed] * times_asked(code), whole)
        lags = [lag_of(one) for _ in range(3)]
        assert [each.total for each in lags] == [5, None, 5]
        assert [(each.lag, each.error and each.error.name) for each in lags[1].partitions] == [
            (0, None),
            (None, code.name),
        ]

    @pytest.mark.parametrize("flaw", [without_topic, without_partitions])
    def test_a_topic_that_an_answer_is_silent_about_is_in_error_too(self, one: Pieces, flaw: Any) -> None:
        group_of(one, self.COMMITS)
        one.broker.on(MetadataRequest, flaw(one.cluster, "b"), one.cluster.metadata)
        hurried = one._replace(client=one.cluster.client(timeout_s=3))
        totals = [lag_of(hurried).total for _ in range(2)]
        assert totals in ([None, 5], [5, 5])

    def test_an_error_that_stays_is_told_in_time_for_the_ends(self, one: Pieces) -> None:
        group_of(one, self.COMMITS)
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": 5}))
        lag = lag_of(one._replace(client=one.cluster.client(timeout_s=3)))
        assert lag.total is None
        assert [(each.lag, each.error and each.error.name) for each in lag.partitions] == [
            (0, None),
            (None, "LEADER_NOT_AVAILABLE"),
        ]

    def test_a_wait_is_not_over_by_it(self, one: Pieces) -> None:
        group_of(one, {A0: 5, B0: 5})
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": -1}), one.cluster.metadata)
        with pytest.raises(OffsetsError, match="group g on b-0: UNKNOWN_SERVER_ERROR"):
            GroupsCaughtUp(("g",)).check(one.client)


class TestTopicThatMembersRead:
    """Group g has committed on all of a, and a member of it reads b, of which there are neither commits nor metadata.

    What is known of a stays known. All that g reads is not, so that its total isn't either.
    """

    @each_of(*UNDESCRIBABLE)
    def test_its_error_is_the_groups_and_the_other_topics_keep_their_lags(self, one: Pieces, code: Code) -> None:
        """E25: a group whose members go on reading what remains."""
        read_by_g(one, "b", commits={A0: 2})
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": code.code}))
        lag = lag_of(one)
        assert [(each.topic, each.lag) for each in lag.partitions] == [("a", 3)]
        assert lag.total is None
        assert lag.error is not None
        assert (lag.error.name, lag.error.message[:7]) == (code.name, "topic b")

    def test_it_is_the_error_of_a_group_that_reads_nothing_else(self, one: Pieces) -> None:
        read_by_g(one, "b", commits={})
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": 3}))
        lag = lag_of(one)
        assert (list(lag.partitions), lag.total, lag.never_committed) == ([], None, False)
        assert lag.error is not None
        assert lag.error.name == "UNKNOWN_TOPIC_OR_PARTITION"

    @pytest.mark.parametrize("policy", [{}, {"no_commit": "ignore"}, {"max_lag": 99}])
    def test_no_wait_is_over(self, one: Pieces, policy: dict[str, Any]) -> None:
        read_by_g(one, "b", commits={A0: 5})
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": 3}))
        with pytest.raises(OffsetsError, match=r"group g: UNKNOWN_TOPIC_OR_PARTITION \(3\): topic b"):
            GroupsCaughtUp(("g",), **policy).check(one.client)

    def test_a_wait_for_the_topics_that_count_goes_on(self, one: Pieces) -> None:
        read_by_g(one, "b", commits={A0: 5})
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": 3}))
        assert GroupsCaughtUp(("g",), topics=("a",)).check(one.client).done

    @each_of((-1, "UNKNOWN_SERVER_ERROR"), (29, "TOPIC_AUTHORIZATION_FAILED", False, "it reads a topic that is hidden"))
    def test_a_group_that_can_not_be_described_keeps_the_lags_of_its_commits(self, one: Pieces, code: Code) -> None:
        """E32: its members may read more than it has committed on."""
        group_of(one, {A0: 2})
        one.broker.on(DescribeGroupsRequest, classic_groups_are({}))
        one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({"g": code.code}))
        lag = lag_of(one)
        assert ([each.lag for each in lag.partitions], lag.total) == ([3], None)
        assert lag.error is not None
        assert lag.error.name == code.name


class TestSurveys:
    @pytest.mark.parametrize("flaw", [without_topic, without_partitions])
    def test_a_topic_that_an_answer_is_silent_about_is_refused(self, one: Pieces, flaw: Any) -> None:
        """A snapshot without it would say that the topic has no partitions."""
        one.broker.on(MetadataRequest, flaw(one.cluster, "b"))
        one.broker.on(ListOffsetsRequest, offsets_are(5))
        one.broker.on(DescribeConfigsRequest, configs_are({}))
        one.client.cluster_id()
        hurried = one.cluster.hurried(one.client)
        with pytest.raises(OffsetsError, match="topic b"):
            hurried.survey(["a", "b"])
        with pytest.raises(OffsetsError, match="topic b"):
            hurried.partitions_of(["a", "b"])


class TestPatterns:
    def test_a_matching_topic_in_error_is_refused_and_not_left_out(self, one: Pieces, tmp_path: Path) -> None:
        """The pipeline's next window would be of fewer topics."""
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": 5}))
        ledger = Ledger(ObjectStoragePath(f"file://{tmp_path}"), "loads")
        resolver = Resolver(one.client, ledger, re.compile("[ab]"), IsolationLevel.READ_COMMITTED)
        with pytest.raises(OffsetsError, match="topic b: LEADER_NOT_AVAILABLE"):
            resolver.snapshot(AsOf(AsOfKind.LATEST))


class TestAllGroups:
    """Groups are listed by their coordinators; those of a partition of the offsets topic without a leader by nobody."""

    def test_a_list_that_is_short_for_want_of_a_coordinator_is_refused(self) -> None:
        with ScriptedCluster({"__consumer_offsets": [0, -1]}) as cluster:
            cluster.brokers[0].on(ListGroupsRequest, groups_are_listed("g"))
            with pytest.raises(OffsetsError, match=r"Listing groups.*__consumer_offsets-1: LEADER_NOT_AVAILABLE"):
                cluster.client(timeout_s=2).all_groups()

    @each_of((5, "LEADER_NOT_AVAILABLE"), (7, "REQUEST_TIMED_OUT"))
    def test_an_error_of_the_offsets_topic_that_passes_is_asked_again(self, code: Code) -> None:
        """Behind it may be a partition without a leader."""
        with ScriptedCluster({"__consumer_offsets": [0, -1]}) as cluster:
            flawed = metadata_is(cluster, topics={"__consumer_offsets": code.code})
            cluster.brokers[0].on(MetadataRequest, flawed, cluster.metadata)
            cluster.brokers[0].on(ListGroupsRequest, groups_are_listed("g"))
            with pytest.raises(OffsetsError, match=r"Listing groups.*__consumer_offsets-1: LEADER_NOT_AVAILABLE"):
                cluster.client(timeout_s=4).all_groups()

    @each_of((5, "LEADER_NOT_AVAILABLE"), (-1, "UNKNOWN_SERVER_ERROR"))
    def test_an_error_of_the_offsets_topic_that_stays_is_refused(self, one: Pieces, code: Code) -> None:
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"__consumer_offsets": code.code}))
        one.broker.on(ListGroupsRequest, groups_are_listed("g"))
        with pytest.raises(OffsetsError, match=rf"Listing groups.*topic __consumer_offsets: {code.name}"):
            one.cluster.client(timeout_s=2).all_groups()

    @each_of((3, "UNKNOWN_TOPIC_OR_PARTITION"), (29, "TOPIC_AUTHORIZATION_FAILED"))
    def test_where_the_offsets_topic_is_not_to_be_seen_the_list_is_what_brokers_say(
        self, one: Pieces, code: Code
    ) -> None:
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"__consumer_offsets": code.code}))
        one.broker.on(ListGroupsRequest, groups_are_listed("g"))
        assert one.client.all_groups() == ["g"]


class TestReset:
    def test_a_topic_whose_id_is_unknown_just_now_is_not_written_by_its_name(self, one: Pieces) -> None:
        """Brokers check ids: without one, commits would go to a topic that was made anew since the plan."""
        group_of(one, {A0: 3, B0: 3})
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": 5}), one.cluster.metadata)
        with pytest.raises(OffsetsError, match="LEADER_NOT_AVAILABLE"):
            Resetter(one.client, "g").plan(OffsetSpec.LATEST)
