"""Where leader epochs end (OffsetForLeaderEpoch): on a real broker, and what brokers say instead.

What an unclean election leaves of an old epoch: ``cases/test_failover.py``.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets, GroupOffsets, GroupsOffsets
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd, LogEpoch, LogExtent, LogExtents
from airflow_kafka_offsets.offsets.lag import GroupLag
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.integration.client.leader_epochs_answers import epochs_end_at
from tests.integration.client.pieces import A0, ALL, B0, B1, Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import classic_groups_are, commits_are, offsets_are, silence
from tests.integration.conftest import MakeTopic, Produce

EPOCHS = [LogEpoch(*A0, 5), LogEpoch(*B0, 0), LogEpoch(*B1, 7)]


def ends_of(client: OffsetsClient) -> list[int | str | None]:
    """Ends, or the names of the errors that came instead."""
    return [each.error.name if each.error else each.end_offset for each in client.epoch_ends(EPOCHS).values()]


def asked(pieces: Pieces) -> list[list[tuple[TopicPartition, int, int]]]:
    """What each request named: partition, the current leader epoch, and the epoch that it is about."""
    return [
        [
            (TopicPartition(topic.topic, each.partition), each.current_leader_epoch, each.leader_epoch)
            for topic in request.topics
            for each in topic.partitions
        ]
        for request in pieces.asked(OffsetForLeaderEpochRequest)
    ]


class TestRealBroker:
    def test_the_newest_epoch_ends_with_the_log(
        self, client: OffsetsClient, topic: MakeTopic, produce: Produce
    ) -> None:
        name = topic(partitions=2)
        produce(name, 0, [(None, None, b"value")] * 3)
        partitions = client.partitions_of([name])
        ends = list(client.epoch_ends(LogEpoch(*piece, 0) for piece in partitions).values())
        assert ends == [EpochEnd(name, 0, 0, 3), EpochEnd(name, 1, 0, 0)]
        assert [each.end_offset for each in ends] == [each.high_watermark for each in client.log_extents(partitions)]

    def test_one_that_is_still_to_come_is_none_and_no_error(self, client: OffsetsClient, topic: MakeTopic) -> None:
        name = topic()
        assert list(client.epoch_ends([LogEpoch(name, 0, 99)]).values()) == [EpochEnd(name, 0)]

    def test_a_partition_that_does_not_exist_is_an_error_of_its_own(
        self, client: OffsetsClient, topic: MakeTopic
    ) -> None:
        name = topic()
        good, bad = client.epoch_ends([LogEpoch(name, 0, 0), LogEpoch(name, 1, 0)]).values()
        assert good == EpochEnd(name, 0, 0, 0)
        assert bad.error is not None
        assert (bad.end_offset, bad.error.name) == (None, "UNKNOWN_TOPIC_OR_PARTITION")


class TestRequest:
    @pytest.mark.parametrize("version", [2, 3, OffsetForLeaderEpochRequest.max_version])
    def test_each_partition_is_asked_for_its_epoch_with_the_leaders_own_beside_it(self, version: int) -> None:
        """E28"""
        with ScriptedCluster({"a": [0], "b": [0, 0]}, versions={OffsetForLeaderEpochRequest: (2, version)}) as cluster:
            pieces = Pieces(cluster, cluster.brokers[0], cluster.client())
            pieces.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(4))
            assert pieces.client.epoch_ends(EPOCHS) == {each: EpochEnd(*each, 4) for each in EPOCHS}
            assert asked(pieces) == [[(TopicPartition.of(each), 7, each.leader_epoch) for each in EPOCHS]]

    @pytest.mark.parametrize("versions", [{}, {OffsetForLeaderEpochRequest: (0, 1)}], ids=["before 0.11", "before 2.1"])
    def test_a_broker_that_does_not_check_who_leads_is_too_old(self, versions: dict[type, tuple[int, int]]) -> None:
        with ScriptedCluster({"a": [0], "b": [0, 0]}, versions=versions) as cluster:
            if versions:
                cluster.brokers[0].on(OffsetForLeaderEpochRequest, epochs_end_at(4))
            assert ends_of(cluster.client()) == ["UNSUPPORTED_VERSION"] * len(ALL)
            assert cluster.requests(OffsetForLeaderEpochRequest) == []


class TestSeveralOfOnePartition:
    def test_go_in_several_requests(self, one: Pieces) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(4), epochs_end_at(4))
        wanted = [LogEpoch(*A0, 3), LogEpoch(*A0, 5), LogEpoch(*B0, 0), LogEpoch(*A0, 3)]
        assert one.client.epoch_ends(wanted) == {each: EpochEnd(*each, 4) for each in wanted}
        assert sorted(asked(one)) == [[(A0, 7, 3), (B0, 7, 0)], [(A0, 7, 5)]]


class TestErrors:
    @pytest.mark.parametrize("code", [3, 6, 56, 74, 75])
    def test_one_that_passes_is_asked_again_of_a_leader_looked_up_anew(self, one: Pieces, code: int) -> None:
        """E28"""
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(4, errors={B1: code}), epochs_end_at(5))
        assert ends_of(one.client) == [4, 4, 5]
        assert asked(one)[1:] == [[(B1, 7, 7)]]
        assert one.described_topics() == [["a", "b"], ["b"]]

    @pytest.mark.parametrize(
        ("code", "name"), [(29, "TOPIC_AUTHORIZATION_FAILED"), (31, "CLUSTER_AUTHORIZATION_FAILED")]
    )
    def test_one_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: int, name: str) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(4, errors={B0: code}))
        assert ends_of(one.client) == [4, name, 4]
        assert len(asked(one)) == 1


class TestCommits:
    """Whether a log was cut below a commit of an earlier epoch than its own."""

    @pytest.mark.parametrize(
        ("end", "errors", "why"),
        [
            (4, {A0: 31}, "say it only to users with the ACL ClusterAction"),
            (-1, {}, "its leader doesn't know the epoch"),
        ],
    )
    def test_what_nobody_can_tell_is_said_and_the_commit_stays(
        self, one: Pieces, end: int, errors: dict[TopicPartition, int], why: str
    ) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(end, errors=errors))
        (marked,) = one.client.mark_truncated(committed(3), extents())
        assert [(each.offset, each.truncated_at, each.error) for each in marked.offsets] == [(3, None, None)]
        assert marked.remark().startswith("whether a log was truncated below the commit is unknown on a-0 (")
        assert why in marked.remark()
        assert GroupLag(marked, extents()).remark == marked.remark()

    def test_what_the_leader_tells_is_no_remark(self, one: Pieces) -> None:
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(4))
        (marked,) = one.client.mark_truncated(committed(3), extents())
        assert marked.remark() == ""

    @pytest.mark.parametrize("topics", [None, ["a", "b"]], ids=["all that it read", "named"])
    def test_a_leader_that_hangs_leaves_time_to_ask_the_others(self, topics: list[str] | None) -> None:
        """E29: where their logs end is all that the hung leader is asked for before."""

        def commits(request: Any) -> Any:
            response = commits_are({A0: 4, B0: 4})(request)
            for each in (own for group in response.groups for topic in group.topics for own in topic.partitions):
                each.committed_leader_epoch = 6
            return response

        with ScriptedCluster({"a": [0], "b": [1]}, brokers=2) as cluster:
            for each in cluster.brokers:
                each.on(FindCoordinatorRequest, cluster.brokers[0].coordinators)
                each.on(OffsetFetchRequest, commits)
                each.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty"}))
                each.on(ListOffsetsRequest, offsets_are(5))
                each.on(OffsetForLeaderEpochRequest, epochs_end_at(4))
            cluster.brokers[1].on(ListOffsetsRequest, silence)
            (lag,) = cluster.client(timeout_s=4).group_lags(["g"], topics=topics)
        asked, hung = lag.partitions
        assert (asked.lag, asked.error) == (1, None)
        assert hung.error is not None
        assert hung.error.name == "REQUEST_TIMED_OUT"


class TestOwnEpochs:
    """Which epoch is committed with an offset."""

    def test_a_leader_that_answers_its_current_epoch_for_older_records_is_not_believed(self, one: Pieces) -> None:
        """E34: Redpanda does. The log's records are of epoch 3, up to 30, and its leader's own epoch is 7."""

        def ends(request: Any) -> Any:
            (topic,) = request.topics
            return epochs_end_at(30 if topic.partitions[0].leader_epoch >= 3 else 0, epoch=3)(request)

        one.broker.on(OffsetForLeaderEpochRequest, ends)
        assert own_epochs(one.client, 0, 10, 29, 30) == [3, 3, 3, 7]

    def test_one_of_a_log_with_a_single_epoch_takes_no_request(self, one: Pieces) -> None:
        assert own_epochs(one.client, 4, epoch=0) == [0]
        assert one.asked(OffsetForLeaderEpochRequest) == []

    def test_one_that_nobody_can_tell_is_left_out(self, one: Pieces) -> None:
        assert own_epochs(one.client, 4, epoch=None) == [None]
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(-1))
        assert own_epochs(one.client, 4) == [None]
        one.broker.on(OffsetForLeaderEpochRequest, epochs_end_at(4, errors={A0: 31}))
        assert own_epochs(one.client, 4) == [None], "a broker of Kafka 2.1, without the ACL ClusterAction"

    def test_brokers_too_old_to_tell_leave_it_out(self) -> None:
        with ScriptedCluster({"a": [0]}) as cluster:
            assert own_epochs(cluster.client(), 4) == [None]

    def test_a_leader_that_can_not_be_asked_now_is_an_error_of_its_partition(self) -> None:
        """Without the epoch, a later truncation would go unnoticed: better no commit now."""
        offsets = CommittedOffsets([CommittedOffset(*A0, 4, 7), CommittedOffset(*B0, 4, 7)])
        with ScriptedCluster({"a": [0], "b": [0, 0]}) as cluster:
            cluster.brokers[0].on(OffsetForLeaderEpochRequest, epochs_end_at(4, errors={A0: 6}))
            bad, good = cluster.client(timeout_s=3).own_epochs(offsets)
        assert (bad.offset, bad.error and bad.error.name) == (None, "NOT_LEADER_OR_FOLLOWER")
        assert (good.offset, good.leader_epoch, good.error) == (4, 7, None)

    def test_real_brokers_tell_it(self, client: OffsetsClient, topic: MakeTopic, produce: Produce) -> None:
        name = topic()
        produce(name, 0, [(None, None, b"value")] * 3)
        found = client.own_epochs(CommittedOffsets([CommittedOffset(name, 0, 2, 1)]))
        assert [each.leader_epoch for each in found.raise_for_errors()] == [0], "the records are older than epoch 1"


def own_epochs(client: OffsetsClient, *offsets: int, epoch: int | None = 7) -> list[int | None]:
    found = [client.own_epochs(CommittedOffsets([CommittedOffset(*A0, offset, epoch)])) for offset in offsets]
    return [each.leader_epoch for several in found for each in several.raise_for_errors()]


def committed(offset: int) -> GroupsOffsets:
    """One commit, of an epoch before the log's."""
    return GroupsOffsets([GroupOffsets("g", CommittedOffsets([CommittedOffset(*A0, offset, leader_epoch=5)]))])


def extents() -> LogExtents:
    return LogExtents([LogExtent(*A0, 0, 9, 9, leader_epoch=7)])
