"""Retries and partial failures: what a healthy broker doesn't say, said by a scripted one."""

from __future__ import annotations

import time

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import commits_are, offsets_are, silence

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def listed(client: OffsetsClient, *partitions: TopicPartition) -> list[ListedOffset]:
    return list(client.list_offsets(partitions, OffsetSpec.LATEST))


class TestErrorsThatPass:
    def test_a_moved_leader_is_found_again(self) -> None:
        """E28: the new leader is asked, and the old one only once."""
        with ScriptedCluster({"a": [0]}, brokers=2) as cluster:

            def moved(request: object) -> object:
                cluster.leaders["a"] = [1]
                return offsets_are(0, errors={A0: 6})(request)

            cluster.brokers[0].on(ListOffsetsRequest, moved)
            cluster.brokers[1].on(ListOffsetsRequest, offsets_are(9))
            assert [each.offset for each in listed(cluster.client(), A0)] == [9]
            assert len(cluster.requests(ListOffsetsRequest, node=0)) == 1


class TestErrorsThatStay:
    def test_a_leaderless_partition_is_an_error_and_never_a_number(self) -> None:
        """E26"""
        with ScriptedCluster({"a": [0, -1]}) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
            good, bad = listed(cluster.client(timeout_s=2), A0, A1)
            assert good.offset == 5
            assert bad.offset is None
            assert bad.error is not None
            assert bad.error.name == "LEADER_NOT_AVAILABLE"

    def test_a_deleted_topic_among_the_commits_is_an_error_of_its_partitions(self) -> None:
        """E25: however long the coordinator keeps the commits of a deleted topic."""
        with ScriptedCluster({"a": [0]}) as cluster:
            cluster.brokers[0].on(OffsetFetchRequest, commits_are({A0: 4, TopicPartition("gone", 0): 1}))
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
            (lag,) = cluster.client().group_lags(["g"])
            assert [each.lag for each in lag.partitions] == [1, None]
            assert [each.error.name for each in lag.partitions if each.error] == ["UNKNOWN_TOPIC_OR_PARTITION"]
            assert lag.total is None

    def test_a_partition_left_out_of_the_answer_is_an_error(self) -> None:
        with ScriptedCluster({"a": [0, 0]}) as cluster:

            def forgetful(request: object) -> object:
                response = offsets_are(5)(request)
                response.topics[0].partitions.pop()
                return response

            cluster.brokers[0].on(ListOffsetsRequest, forgetful)
            _, bad = listed(cluster.client(), A0, A1)
            assert bad.error is not None
            assert "left it out" in bad.error.message


class TestDeadBrokers:
    def test_a_hung_broker_does_not_hold_up_the_retries_of_others(self) -> None:
        with ScriptedCluster({"a": [0, 1]}, brokers=2) as cluster:
            answered: list[float] = []

            def note(request: object) -> object:
                answered.append(time.monotonic())
                return offsets_are(5)(request)

            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5, errors={A0: 78}), note)
            cluster.brokers[1].on(ListOffsetsRequest, silence)
            started = time.monotonic()
            listed(cluster.client(timeout_s=8), A0, A1)
            assert answered[0] - started < 4, "half of the deadline is what one answer may take"

    def test_the_leaderships_of_a_hung_broker_are_asked_of_their_new_leader(self) -> None:
        with ScriptedCluster({"a": [1]}, brokers=2) as cluster:

            def hang(_: object) -> None:
                cluster.leaders["a"] = [0]

            cluster.brokers[1].on(ListOffsetsRequest, hang)
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
            assert [each.offset for each in listed(cluster.client(timeout_s=4), A0)] == [5]

    def test_answers_are_kept_when_the_cluster_goes_away_in_between(self) -> None:
        """E29: a retry that finds nobody doesn't sink what was told before."""
        with ScriptedCluster({"a": [0, 0]}) as cluster:

            def last_words(request: object) -> object:
                cluster.brokers[0].on(MetadataRequest, silence)
                return offsets_are(5, errors={A1: 6})(request)

            cluster.brokers[0].on(ListOffsetsRequest, last_words, silence)
            good, bad = listed(cluster.client(timeout_s=2), A0, A1)
            assert good.offset == 5
            assert bad.error is not None
            assert bad.error.name == "NOT_LEADER_OR_FOLLOWER"

    def test_a_hung_bootstrap_server_is_passed_by(self) -> None:
        with ScriptedCluster({"a": [1]}, brokers=2) as cluster:
            cluster.brokers[0].on(MetadataRequest, silence)
            cluster.brokers[1].on(ListOffsetsRequest, offsets_are(5))
            both = ",".join(f"127.0.0.1:{each.port}" for each in cluster.brokers)
            client = cluster.client(**{"bootstrap.servers": both})
            assert [each.offset for each in listed(client, A0)] == [5]


class TestVersions:
    def test_a_spec_that_the_broker_is_too_old_for_is_an_error_of_its_partitions(self) -> None:
        with ScriptedCluster({"a": [0]}, versions={ListOffsetsRequest: (0, 6)}) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
            client = cluster.client()
            (newest,) = client.list_offsets([A0], OffsetSpec.MAX_TIMESTAMP)
            assert newest.error is not None
            assert newest.error.name == "UNSUPPORTED_VERSION"
            assert [each.offset for each in listed(client, A0)] == [5]

    @pytest.mark.parametrize("version", range(ListOffsetsRequest.max_version + 1))
    def test_every_version_of_list_offsets_is_spoken(self, version: int) -> None:
        with ScriptedCluster({"a": [0]}, versions={ListOffsetsRequest: (0, version)}) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
            (answer,) = listed(cluster.client(), A0)
            assert (answer.offset, answer.leader_epoch) == (5, 7 if version >= 4 else None)
            (request,) = cluster.requests(ListOffsetsRequest)
            assert version == request.API_VERSION
            if version >= 4:
                assert request.topics[0].partitions[0].current_leader_epoch == 7, "E28: the epoch is sent along"

    @pytest.mark.parametrize("version", range(2, 11))
    def test_every_version_of_offset_fetch_up_to_nine_is_spoken(self, version: int) -> None:
        versions = {OffsetFetchRequest: (0, version), FindCoordinatorRequest: (0, 6 if version >= 8 else 3)}
        with ScriptedCluster({"a": [0]}, versions=versions) as cluster:
            cluster.brokers[0].on(OffsetFetchRequest, commits_are({A0: 4}))
            groups = cluster.client().committed_offsets({"g": None, "h": [A0]}).raise_for_errors()
            assert [[one.offset for one in each.offsets] for each in groups] == [[4], [4]]
            requests = cluster.requests(OffsetFetchRequest)
            assert [each.API_VERSION for each in requests] == ([min(version, 9)] if version >= 8 else [version] * 2)

    def test_all_commits_of_a_group_need_version_two(self) -> None:
        with ScriptedCluster({"a": [0]}, versions={OffsetFetchRequest: (0, 1)}) as cluster:
            (group,) = cluster.client().committed_offsets({"g": None})
            assert group.error is not None
            assert group.error.name == "UNSUPPORTED_VERSION"

    @pytest.mark.parametrize("version", [1, 2, 7, 8])
    def test_a_group_of_which_all_is_wanted_is_no_other_groups_fault(self, version: int) -> None:
        """On a coordinator that is too old for "all", it alone is refused."""
        with ScriptedCluster({"a": [0]}, versions={OffsetFetchRequest: (0, version)}) as cluster:
            cluster.brokers[0].on(OffsetFetchRequest, commits_are({A0: 4}))
            found = cluster.client().committed_offsets({"all": None, "one": [A0], "two": [A0]})
            names = [each.error and each.error.name for each in found]
            assert names == ["UNSUPPORTED_VERSION" if version < 2 else None, None, None]
            assert [[one.offset for one in each.offsets] for each in found.ok()] == [[4]] * len(found.ok())

    def test_a_group_that_can_not_be_asked_by_topic_ids_takes_them_from_no_other_group(self) -> None:
        """E24: by name, commits on another topic of the same name would be given out."""
        ids = {"a": "11111111-2222-3333-4444-555555555555"}
        with ScriptedCluster({"a": [0]}) as cluster:
            cluster.brokers[0].on(OffsetFetchRequest, commits_are({}, errors={TopicPartition(ids["a"], 0): 100}))
            found = cluster.client().committed_offsets({"all": None, "one": [A0]}, topic_ids=ids)
            assert {
                each.API_VERSION: [one.group_id for one in each.groups] for each in cluster.requests(OffsetFetchRequest)
            } == {9: ["all"], 10: ["one"]}
            one = found.lookup("one")
            assert one is not None
            assert [each.error and each.error.name for each in one.offsets] == ["UNKNOWN_TOPIC_ID"]


class TestRounds:
    def test_a_second_look_asks_metadata_alongside_and_no_coordinator(self) -> None:
        with ScriptedCluster({"a": [0]}) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
            cluster.brokers[0].on(OffsetFetchRequest, commits_are({A0: 4}))
            client = cluster.client()
            client.group_lags(["g"])
            cluster.asked.clear()
            assert [each.total for each in client.group_lags(["g"])] == [1]
            assert len(cluster.requests(FindCoordinatorRequest)) == 0
            assert len(cluster.requests(MetadataRequest)) == 1
            assert len(cluster.asked) == 5

    def test_partitions_are_never_sent_twice(self) -> None:
        """E40"""
        with ScriptedCluster({"a": [0]}) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5))
            listed(cluster.client(), A0, A0)
            (request,) = cluster.requests(ListOffsetsRequest)
            assert len(request.topics[0].partitions) == 1


class TestOtherBrokers:
    def test_an_answer_older_than_asked_is_named(self) -> None:
        """E37"""
        with ScriptedCluster({"a": [0]}) as cluster:
            cluster.brokers[0].on(ListOffsetsRequest, offsets_are(5, timestamp=1_700_000_000_000))
            (answer,) = cluster.client().list_offsets([A0], OffsetSpec.at(1_700_000_000_001))
            assert answer.outcome is ListOutcome.OLDER_THAN_ASKED
