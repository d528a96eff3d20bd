"""Error codes of groups themselves: of describing and of listing them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from airflow_kafka_offsets.client.requests.messages import ConsumerGroupDescribeRequest
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.offsets.answers.groups import GroupDescription, GroupKind
from tests.integration.client.error_codes.codes import (
    COORDINATOR_PASSES,
    COORDINATOR_STAYS,
    UNSUPPORTED_VERSION,
    Code,
    each_of,
)
from tests.integration.client.pieces import A0, Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import (
    Listed,
    classic_groups_are,
    commits_are,
    consumer_groups_are,
    coordinators_on,
    groups_are_listed,
    silence,
)


class TestDescribeGroups:
    """Both descriptions: a code in one of them counts where the other one doesn't know the group."""

    BOTH = {"g": "Empty", "h": "Stable"}

    @each_of(*COORDINATOR_PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_group_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(
            DescribeGroupsRequest, classic_groups_are(self.BOTH | {"h": code.code}), classic_groups_are(self.BOTH)
        )
        one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({}))
        assert described(one) == {"g": "classic Empty", "h": "classic Stable"}
        assert [each.groups for each in one.asked(DescribeGroupsRequest)] == [["g", "h"], ["h"]]
        assert one.located_groups() == [["g", "h"], ["h"]][: 1 + code.looks_up]

    @each_of(*COORDINATOR_STAYS)
    def test_a_code_that_stays_is_data_of_its_group_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeGroupsRequest, classic_groups_are(self.BOTH | {"h": code.code}))
        one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({"h": code.code}))
        assert described(one) == {"g": "classic Empty", "h": code.name}
        assert len(one.asked(DescribeGroupsRequest)) == 1

    def test_a_group_that_neither_finds_is_unknown_and_no_error(self, one: Pieces) -> None:
        """E19: GROUP_ID_NOT_FOUND, twice: the first time it may be a coordinator's that has just taken over."""
        one.broker.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty"}))
        one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({}))
        assert described(one) == {"g": "classic Empty", "h": "unknown"}
        assert [each.groups for each in one.asked(DescribeGroupsRequest)] == [["g", "h"], ["h"]]

    def test_a_group_that_is_found_the_second_time_is_known(self, one: Pieces) -> None:
        """E30: a coordinator that has just taken over may not know its groups yet."""
        found = classic_groups_are({"g": "Empty", "h": "Empty"})
        one.broker.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty"}), found)
        one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({}))
        assert described(one) == {"g": "classic Empty", "h": "classic Empty"}

    def test_a_group_that_is_not_found_once_and_not_asked_for_again_may_exist(self) -> None:
        """The first answer came when the time for it, half of all, was almost over."""

        def late(request: Any) -> Any:
            time.sleep(0.9)
            return classic_groups_are({})(request)

        with ScriptedCluster({}) as cluster:
            cluster.brokers[0].on(DescribeGroupsRequest, late)
            (found,) = cluster.client(2, **{"socket.timeout.ms": 60_000}).describe_groups(["g"])
        assert not found.no_such_group
        assert found.error is not None
        assert found.error.may_pass

    def test_a_coordinator_that_hangs_leaves_time_to_look_up_what_the_others_can_not_describe(self) -> None:
        """E29, E33: a group of Kafka Streams, in its coordinator's list."""
        with ScriptedCluster({}, brokers=2) as cluster:
            one, hung = cluster.brokers
            for each in cluster.brokers:
                each.on(FindCoordinatorRequest, coordinators_on(cluster, {"g": 0, "h": 1}))
                each.on(ListGroupsRequest, groups_are_listed(Listed("g", "Stable", "streams", "streams")))
            one.on(DescribeGroupsRequest, classic_groups_are({}))
            hung.on(DescribeGroupsRequest, silence)
            found, late = cluster.client(4).describe_groups(["g", "h"])
        assert (found.kind, found.state, found.error) == (GroupKind.STREAMS, "Stable", None)
        assert late.error is not None
        assert late.error.name == "REQUEST_TIMED_OUT"

    @pytest.mark.parametrize("version", range(6))
    def test_before_version_six_a_dead_group_is_an_unknown_one(self, version: int) -> None:
        """E19"""
        with ScriptedCluster({}, versions={DescribeGroupsRequest: (0, version)}) as cluster:
            old = Pieces(cluster, cluster.brokers[0], cluster.client())
            old.broker.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty", "h": "Dead"}))
            assert described(old) == {"g": "classic Empty", "h": "unknown"}


class TestGroupsWithoutCommits:
    """Whether they have read nothing, or commit nowhere, is what their descriptions say."""

    @each_of(*COORDINATOR_STAYS)
    def test_one_that_can_not_be_described_is_in_error(self, one: Pieces, code: Code) -> None:
        """E29: a share group's progress isn't taken for the log starts."""
        one.broker.on(OffsetFetchRequest, commits_are({}))
        one.broker.on(DescribeGroupsRequest, classic_groups_are({"g": code.code}))
        (commits,) = one.client.committed_offsets({"g": [A0]})
        assert commits.error is not None
        assert commits.error.name == code.name

    def test_commits_that_take_long_leave_time_to_describe_the_other_groups(self) -> None:
        with ScriptedCluster({"a": [0]}, brokers=2) as cluster:
            one, hung = cluster.brokers
            for each in cluster.brokers:
                each.on(FindCoordinatorRequest, coordinators_on(cluster, {"g": 0, "h": 1}))
            one.on(OffsetFetchRequest, commits_are({}))
            one.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty"}))
            hung.on(OffsetFetchRequest, silence)
            read, late = cluster.client(4).committed_offsets({"g": [A0], "h": [A0]})
        assert (read.error, [commit.offset for commit in read.offsets]) == (None, [None])
        assert late.has_commits
        assert not late.offsets.ok()


class TestConsumerGroupDescribe:
    @each_of(*COORDINATOR_PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_group_alone(self, one: Pieces, code: Code) -> None:
        both = {"g": "Empty", "h": "Stable"}
        one.broker.on(DescribeGroupsRequest, classic_groups_are({}))
        one.broker.on(
            ConsumerGroupDescribeRequest, consumer_groups_are(both | {"h": code.code}), consumer_groups_are(both)
        )
        assert described(one) == {"g": "consumer Empty", "h": "consumer Stable"}
        assert [each.group_ids for each in one.asked(ConsumerGroupDescribeRequest)] == [["g", "h"], ["h"]]
        assert one.located_groups() == [["g", "h"], ["h"]][: 1 + code.looks_up]

    @each_of(*(each for each in COORDINATOR_STAYS if each[0] != UNSUPPORTED_VERSION))
    def test_a_code_that_stays_is_data_of_its_group_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeGroupsRequest, classic_groups_are({}))
        one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({"g": "Empty", "h": code.code}))
        assert described(one) == {"g": "consumer Empty", "h": code.name}
        assert len(one.asked(ConsumerGroupDescribeRequest)) == 1

    @each_of(
        (UNSUPPORTED_VERSION, "UNSUPPORTED_VERSION", False, "a broker in ZooKeeper mode"), (69, "GROUP_ID_NOT_FOUND")
    )
    def test_a_group_that_can_not_be_one_of_these_is_unknown_and_no_error(self, one: Pieces, code: Code) -> None:
        """E19"""
        one.broker.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty"}))
        one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({"h": code.code}))
        assert described(one) == {"g": "classic Empty", "h": "unknown"}
        assert [each.group_ids for each in one.asked(ConsumerGroupDescribeRequest)] == [["g", "h"], ["h"]]

    @each_of(*COORDINATOR_PASSES, *COORDINATOR_STAYS)
    def test_a_code_is_of_no_consequence_for_a_classic_group(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty", "h": "Stable"}))
        one.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({"h": code.code}))
        assert described(one) == {"g": "classic Empty", "h": "classic Stable"}
        assert len(one.asked(ConsumerGroupDescribeRequest)) == 1


def described(one: Pieces) -> dict[str, str]:
    """Kind and state of groups g and h, or the name of the error."""
    return {each.group: _kind_and_state(each) for each in one.client.describe_groups(["g", "h"])}


def _kind_and_state(group: GroupDescription) -> str:
    if group.error is not None:
        return group.error.name
    return "unknown" if group.no_such_group else f"{group.kind and GroupKind(group.kind)} {group.state}"


class TestListGroups:
    @each_of(*COORDINATOR_PASSES)
    def test_a_code_that_passes_is_asked_again_of_its_broker_alone(self, code: Code) -> None:
        with ScriptedCluster({}, brokers=2) as cluster:
            loading = groups_are_listed(error_code=code.code)
            cluster.brokers[0].on(ListGroupsRequest, groups_are_listed("g"))
            cluster.brokers[1].on(ListGroupsRequest, loading, groups_are_listed("h"))
            assert cluster.client().all_groups() == ["g", "h"]
            assert [len(cluster.requests(ListGroupsRequest, node)) for node in range(2)] == [1, 2]

    @each_of((-1, "UNKNOWN_SERVER_ERROR"), (30, "GROUP_AUTHORIZATION_FAILED"), (31, "CLUSTER_AUTHORIZATION_FAILED"))
    def test_a_code_that_stays_is_an_error_that_names_its_broker(self, code: Code) -> None:
        with ScriptedCluster({}, brokers=2) as cluster:
            cluster.brokers[0].on(ListGroupsRequest, groups_are_listed("g"))
            cluster.brokers[1].on(ListGroupsRequest, groups_are_listed(error_code=code.code))
            with pytest.raises(OffsetsError, match=rf"failed for broker 1: {code.name} \({code.code}\)"):
                cluster.client().all_groups()
            assert [len(cluster.requests(ListGroupsRequest, node)) for node in range(2)] == [1, 1]
