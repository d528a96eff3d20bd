"""Every error code that an answer can carry, said by a scripted broker: what it is called, and what is done about it.

A code either passes (its partition or group is asked for again, and the place to ask is looked up anew if the code says
that it may be the wrong one), or it stays (it is data at once, after one request). In both cases the neighbours of what
is in error are none the worse for it. The tables say it of each code of each request, as a specification: they are
written out, and not derived from kafka-python's flags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from kafka.protocol.admin import (
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from airflow_kafka_offsets.client.messages import ConsumerGroupDescribeRequest
from airflow_kafka_offsets.errors import CommitRefusedError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.committed import GroupOffsets
from airflow_kafka_offsets.offsets.groups import GroupDescription, GroupKind
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.integration.client.pieces import A0, ALL, B0, B1, OFFSETS, Pieces
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import (
    classic_groups_are,
    commits_are,
    commits_are_deleted,
    commits_are_written,
    configs_are,
    consumer_groups_are,
    coordinators_are,
    groups_are_listed,
    metadata_is,
    offsets_are,
    producers_are,
    records_are_deleted,
    silence,
)


class Code(NamedTuple):
    """An error code, and what is done about it.

    :param name: Kafka's own.
    :param looks_up: whether leader or coordinator are looked up anew before the next request; only codes that pass.
    :param why: the case of the catalogue, or what the broker means by it.
    """

    code: int
    name: str
    looks_up: bool = False
    why: str = ""


def each_of(*codes: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Run a test for each code."""
    table = [Code(*each) for each in codes]
    ids = [" ".join(filter(None, (each.why and f"{each.why}:", each.name))) for each in table]
    return pytest.mark.parametrize("code", table, ids=ids)


def outcome(error: ResponseError | None, value: Any = None) -> Any:
    """A value, or the name of the error that came instead."""
    return value if error is None else error.name


LEADER_PASSES = (
    (3, "UNKNOWN_TOPIC_OR_PARTITION", True, "not heard of it yet"),
    (5, "LEADER_NOT_AVAILABLE", True, "E26"),
    (6, "NOT_LEADER_OR_FOLLOWER", True, "E28"),
    (7, "REQUEST_TIMED_OUT", True),
    (9, "REPLICA_NOT_AVAILABLE", True),
    (13, "NETWORK_EXCEPTION", True),
    (56, "KAFKA_STORAGE_ERROR", True, "a broken disk, and another leader soon"),
    (89, "THROTTLING_QUOTA_EXCEEDED", False),
)
"""What a leader says that may pass, whatever it was asked."""
LEADER_STAYS = (
    (-1, "UNKNOWN_SERVER_ERROR"),
    (8, "BROKER_NOT_AVAILABLE"),
    (17, "INVALID_TOPIC_EXCEPTION"),
    (29, "TOPIC_AUTHORIZATION_FAILED"),
    (35, "UNSUPPORTED_VERSION"),
    (42, "INVALID_REQUEST"),
    (9999, "ERROR_9999", False, "newer than this client"),
)
"""What a leader says that stays, whatever it was asked."""


class TestListOffsets:
    @each_of(
        *LEADER_PASSES,
        (72, "LISTENER_NOT_FOUND", True),
        (74, "FENCED_LEADER_EPOCH", True, "E28"),
        (75, "UNKNOWN_LEADER_EPOCH", True, "E28"),
        (78, "OFFSET_NOT_AVAILABLE", False, "E27"),
        (100, "UNKNOWN_TOPIC_ID", True),
    )
    def test_a_code_that_passes_is_asked_again_for_its_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}), offsets_are(6))
        assert [outcome(*each) for each in self.listed(one)] == [5, 5, 6]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0, B0, B1], [B1]]
        assert one.described_topics() == [["a", "b"], ["b"]][: 1 + code.looks_up]

    @each_of(
        *LEADER_STAYS,
        (1, "OFFSET_OUT_OF_RANGE"),
        (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", False, "a timestamp, of an old log"),
    )
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}))
        assert [outcome(*each) for each in self.listed(one)] == [5, 5, code.name]
        assert len(one.asked(ListOffsetsRequest)) == 1

    @each_of((6, "NOT_LEADER_OR_FOLLOWER"), (78, "OFFSET_NOT_AVAILABLE"))
    def test_the_last_word_stands_at_the_deadline(self, one: Pieces, code: Code) -> None:
        """E27, E28"""
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}))
        hurried = one._replace(client=one.cluster.client(timeout_s=0.4))
        assert [outcome(*each) for each in self.listed(hurried)] == [5, 5, code.name]
        assert len(one.asked(ListOffsetsRequest)) > 1

    def listed(self, one: Pieces) -> list[tuple[ResponseError | None, int | None]]:
        return [(each.error, each.offset) for each in one.client.list_offsets(ALL, OffsetSpec.LATEST)]


class TestSegmentOffsets:
    """ListOffsets version 0."""

    @each_of(*LEADER_PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}), offsets_are(6))
        assert [outcome(*each) for each in self.segments(one)] == [(5,), (5,), (6,)]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0, B0, B1], [B1]]
        assert one.described_topics() == [["a", "b"], ["b"]][: 1 + code.looks_up]

    @each_of(*LEADER_STAYS)
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(ListOffsetsRequest, offsets_are(5, errors={B1: code.code}))
        assert [outcome(*each) for each in self.segments(one)] == [(5,), (5,), code.name]
        assert len(one.asked(ListOffsetsRequest)) == 1

    def segments(self, one: Pieces) -> list[tuple[ResponseError | None, tuple[int, ...]]]:
        return [(each.error, each.offsets) for each in one.client.segment_offsets(ALL)]


class TestDescribeProducers:
    @each_of(*LEADER_PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeProducersRequest, producers_are(7, errors={B1: code.code}), producers_are(8))
        assert [outcome(*each) for each in self.producers(one)] == [[7], [7], [8]]
        assert one.asked_partitions(DescribeProducersRequest) == [[A0, B0, B1], [B1]]
        assert one.described_topics() == [["a", "b"], ["b"]][: 1 + code.looks_up]

    @each_of(*LEADER_STAYS)
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeProducersRequest, producers_are(7, errors={B1: code.code}))
        assert [outcome(*each) for each in self.producers(one)] == [[7], [7], code.name]
        assert len(one.asked(DescribeProducersRequest)) == 1

    def producers(self, one: Pieces) -> list[tuple[ResponseError | None, list[int]]]:
        return [(each.error, [one.producer_id for one in each.producers]) for each in one.client.producers(ALL)]


class TestDeleteRecords:
    @each_of(*LEADER_PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(DeleteRecordsRequest, records_are_deleted(3, errors={B1: code.code}), records_are_deleted(4))
        assert [outcome(*each) for each in self.deleted(one)] == [3, 3, 4]
        assert one.asked_partitions(DeleteRecordsRequest) == [[A0, B0, B1], [B1]]
        assert one.described_topics() == [["a", "b"], ["b"]][: 1 + code.looks_up]

    @each_of(
        *LEADER_STAYS,
        (1, "OFFSET_OUT_OF_RANGE", False, "past the high watermark"),
        (44, "POLICY_VIOLATION", False, "a compacted topic"),
    )
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(DeleteRecordsRequest, records_are_deleted(3, errors={B1: code.code}))
        assert [outcome(*each) for each in self.deleted(one)] == [3, 3, code.name]
        assert len(one.asked(DeleteRecordsRequest)) == 1

    def deleted(self, one: Pieces) -> list[tuple[ResponseError | None, int | None]]:
        extents = one.client.delete_records(dict.fromkeys(ALL, 3))
        return [(each.error, each.log_start_offset) for each in extents]


class TestMetadata:
    """Codes of topics and partitions, on the way to their leaders."""

    PASSES = (
        (5, "LEADER_NOT_AVAILABLE", True, "E26"),
        (7, "REQUEST_TIMED_OUT", True),
        (9, "REPLICA_NOT_AVAILABLE", True),
        (72, "LISTENER_NOT_FOUND", True, "the leader doesn't listen here yet"),
    )
    STAYS = (
        (-1, "UNKNOWN_SERVER_ERROR"),
        (17, "INVALID_TOPIC_EXCEPTION"),
        (29, "TOPIC_AUTHORIZATION_FAILED"),
        (42, "INVALID_REQUEST"),
    )

    @each_of(*PASSES)
    def test_a_topic_whose_code_passes_is_described_again_alone(self, one: Pieces, code: Code) -> None:
        answers = [metadata_is(one.cluster, topics={"b": code.code}), one.cluster.metadata]
        assert self.listed(one, *answers) == [5, 5, 5]
        assert one.described_topics() == [["a", "b"], ["b"]]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0], [B0, B1]]

    @each_of(*PASSES)
    def test_a_partition_without_a_leader_is_waited_for(self, one: Pieces, code: Code) -> None:
        """E26"""
        answers = [metadata_is(one.cluster, partitions={B1: code.code}), one.cluster.metadata]
        assert self.listed(one, *answers) == [5, 5, 5]
        assert one.described_topics() == [["a", "b"], ["b"]]
        assert one.asked_partitions(ListOffsetsRequest) == [[A0, B0], [B1]]

    @each_of(*STAYS, (3, "UNKNOWN_TOPIC_OR_PARTITION", False, "the one who knows all topics doesn't know it"))
    def test_a_topic_whose_code_stays_is_in_error_at_once(self, one: Pieces, code: Code) -> None:
        assert self.listed(one, metadata_is(one.cluster, topics={"b": code.code})) == [5, code.name, code.name]
        assert one.described_topics() == [["a", "b"]]

    @each_of(*STAYS)
    def test_a_partition_whose_code_stays_is_in_error_at_once(self, one: Pieces, code: Code) -> None:
        assert self.listed(one, metadata_is(one.cluster, partitions={B1: code.code})) == [5, 5, code.name]
        assert one.described_topics() == [["a", "b"]]

    @each_of(*PASSES, *STAYS, (3, "UNKNOWN_TOPIC_OR_PARTITION"))
    def test_a_description_of_topics_has_the_code_as_data(self, one: Pieces, code: Code) -> None:
        one.broker.on(MetadataRequest, metadata_is(one.cluster, topics={"b": code.code}))
        described = one.client.topics(["a", "b"])
        assert [outcome(each.error, len(each.partitions)) for each in described] == [1, code.name]
        with pytest.raises(OffsetsError, match=rf"topic b: {code.name} \({code.code}\)"):
            one.client.partitions_of(["a", "b"])

    def listed(self, one: Pieces, *metadata: Answer) -> list[Any]:
        one.broker.on(MetadataRequest, *metadata)
        one.broker.on(ListOffsetsRequest, offsets_are(5))
        return [outcome(each.error, each.offset) for each in one.client.list_offsets(ALL, OffsetSpec.LATEST)]


class TestDescribeConfigs:
    @each_of(
        (-1, "UNKNOWN_SERVER_ERROR"),
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (29, "TOPIC_AUTHORIZATION_FAILED"),
        (31, "CLUSTER_AUTHORIZATION_FAILED"),
        (42, "INVALID_REQUEST"),
    )
    def test_settings_that_are_in_error_are_unknown_and_no_error(self, one: Pieces, code: Code) -> None:
        one.broker.on(DescribeConfigsRequest, configs_are({"retention.ms": "5"}, errors={"b": code.code}))
        facts = one.client.topic_facts(["a", "b"])
        assert {topic: each.retention_ms for topic, each in facts.items()} == {"a": 5, "b": None}
        assert len(one.asked(DescribeConfigsRequest)) == 1


UNSUPPORTED_VERSION = 35
COORDINATOR_PASSES = (
    (7, "REQUEST_TIMED_OUT", True),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", False, "E30"),
    (15, "COORDINATOR_NOT_AVAILABLE", True, "E30"),
    (16, "NOT_COORDINATOR", True, "E30"),
)
"""What a coordinator says of a group that may pass, whatever it was asked."""
COORDINATOR_STAYS = (
    (-1, "UNKNOWN_SERVER_ERROR"),
    (24, "INVALID_GROUP_ID"),
    (30, "GROUP_AUTHORIZATION_FAILED"),
    (UNSUPPORTED_VERSION, "UNSUPPORTED_VERSION"),
    (42, "INVALID_REQUEST"),
)
"""What a coordinator says of a group that stays, whatever it was asked."""


class TestFindCoordinator:
    PASSES = (
        (7, "REQUEST_TIMED_OUT"),
        (14, "COORDINATOR_LOAD_IN_PROGRESS"),
        (15, "COORDINATOR_NOT_AVAILABLE", False, "E30"),
    )
    STAYS = (*COORDINATOR_STAYS, (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"))

    @each_of(*PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_group_alone(self, one: Pieces, code: Code) -> None:
        errors = coordinators_are(one.broker, errors={"h": code.code})
        assert self.fetched(one, errors, coordinators_are(one.broker)) == {"g": 4, "h": 4}
        assert one.located_groups() == [["g", "h"], ["h"]]
        assert [[group.group_id for group in each.groups] for each in one.asked(OffsetFetchRequest)] == [["g"], ["h"]]

    @each_of(*STAYS)
    def test_a_code_that_stays_is_data_of_its_group_at_once(self, one: Pieces, code: Code) -> None:
        assert self.fetched(one, coordinators_are(one.broker, errors={"h": code.code})) == {"g": 4, "h": code.name}
        assert one.located_groups() == [["g", "h"]]

    @each_of(*STAYS)
    def test_a_code_is_its_groups_own_where_brokers_take_one_group_a_request(self, code: Code) -> None:
        with ScriptedCluster({"a": [0]}, versions={FindCoordinatorRequest: (0, 3)}) as cluster:
            broker = cluster.brokers[0]
            old = Pieces(cluster, broker, cluster.client())
            assert self.fetched(old, coordinators_are(broker, errors={"h": code.code})) == {"g": 4, "h": code.name}

    def fetched(self, one: Pieces, *coordinators: Answer) -> dict[str, Any]:
        one.broker.on(FindCoordinatorRequest, *coordinators)
        one.broker.on(OffsetFetchRequest, commits_are({A0: 4}))
        return committed_on_a0(one.client.committed_offsets({"g": [A0], "h": [A0]}))


def committed_on_a0(groups: Iterable[GroupOffsets]) -> dict[str, Any]:
    """The offset of each group, or the name of its error."""
    return {each.group: outcome(each.error, _offset_on_a0(each)) for each in groups}


def _offset_on_a0(group: GroupOffsets) -> int | None:
    commit = group.offsets.lookup(*A0)
    return None if commit is None else commit.offset


class TestOffsetFetchOfGroups:
    @each_of(*COORDINATOR_PASSES)
    def test_a_code_that_passes_is_asked_again_for_its_group_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetFetchRequest, commits_are({A0: 4}, groups={"h": code.code}), commits_are({A0: 5}))
        assert self.fetched(one) == {"g": 4, "h": 5}
        asked = [[group.group_id for group in each.groups] for each in one.asked(OffsetFetchRequest)]
        assert asked == [["g", "h"], ["h"]]
        assert one.located_groups() == [["g", "h"], ["h"]][: 1 + code.looks_up]

    @each_of(
        *COORDINATOR_STAYS,
        (25, "UNKNOWN_MEMBER_ID"),
        (69, "GROUP_ID_NOT_FOUND"),
        (113, "STALE_MEMBER_EPOCH"),
    )
    def test_a_code_that_stays_is_data_of_its_group_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetFetchRequest, commits_are({A0: 4}, groups={"h": code.code}))
        assert self.fetched(one) == {"g": 4, "h": code.name}
        assert len(one.asked(OffsetFetchRequest)) == 1

    @each_of(*COORDINATOR_PASSES)
    def test_a_code_that_passes_is_its_groups_own_where_brokers_take_one_group_a_request(self, code: Code) -> None:
        with ScriptedCluster({"a": [0]}, versions={OffsetFetchRequest: (0, 7)}) as cluster:
            old = Pieces(cluster, cluster.brokers[0], cluster.client())
            moved = commits_are({A0: 4}, groups={"h": code.code})
            old.broker.on(OffsetFetchRequest, moved, moved, commits_are({A0: 5}))
            assert self.fetched(old) == {"g": 4, "h": 5}
            assert sorted(each.group_id for each in old.asked(OffsetFetchRequest)) == ["g", "h", "h"]
            assert old.located_groups() == [["g", "h"], ["h"]][: 1 + code.looks_up]

    def fetched(self, one: Pieces) -> dict[str, Any]:
        return committed_on_a0(one.client.committed_offsets({"g": [A0], "h": [A0]}))


class TestOffsetFetchOfPartitions:
    @each_of(*COORDINATOR_PASSES, (88, "UNSTABLE_OFFSET_COMMIT", False, "E31"))
    def test_a_code_that_passes_is_asked_again_for_its_partition_alone(self, one: Pieces, code: Code) -> None:
        one.broker.on(
            OffsetFetchRequest,
            commits_are({A0: 4, B0: 4}, errors={B1: code.code}),
            commits_are(dict.fromkeys(ALL, 9)),
        )
        assert commits_of(one, ALL) == [4, 4, 9]
        first, second = (each.groups[0] for each in one.asked(OffsetFetchRequest))
        assert [(topic.name, topic.partition_indexes) for topic in first.topics] == [("a", [0]), ("b", [0, 1])]
        assert [(topic.name, topic.partition_indexes) for topic in second.topics] == [("b", [1])]
        assert one.located_groups() == [["g"], ["g"]][: 1 + code.looks_up]

    @each_of(
        *COORDINATOR_STAYS,
        (3, "UNKNOWN_TOPIC_OR_PARTITION", False, "E25"),
        (25, "UNKNOWN_MEMBER_ID"),
        (29, "TOPIC_AUTHORIZATION_FAILED", False, "E32"),
        (113, "STALE_MEMBER_EPOCH"),
    )
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetFetchRequest, commits_are({A0: 4, B0: 4}, errors={B1: code.code}))
        assert commits_of(one, ALL) == [4, 4, code.name]
        assert len(one.asked(OffsetFetchRequest)) == 1

    def test_a_topic_that_was_recreated_is_unknown_by_its_id_at_once(self, one: Pieces) -> None:
        """Version 10."""
        ids = {"a": "11111111-2222-3333-4444-555555555555", "b": "99999999-8888-7777-6666-555555555555"}
        a0, b0 = TopicPartition(ids["a"], 0), TopicPartition(ids["b"], 0)
        one.broker.on(OffsetFetchRequest, commits_are({a0: 4}, errors={b0: 100}))
        (group,) = one.client.committed_offsets({"g": [A0, B0]}, topic_ids=ids)
        assert [outcome(each.error, each.offset) for each in group.offsets] == [4, "UNKNOWN_TOPIC_ID"]
        assert [each.API_VERSION for each in one.asked(OffsetFetchRequest)] == [10]


def commits_of(one: Pieces, partitions: Iterable[TopicPartition] | None) -> list[Any]:
    """What group g has committed, or the name of its error."""
    (group,) = one.client.committed_offsets({"g": partitions})
    assert group.error is None
    return [outcome(each.error, each.offset) for each in group.offsets]


B1_IS_UNSTABLE = commits_are({A0: 4, B0: 4}, errors={B1: 88})


class TestUnstableOffsets:
    """E31: commits of a transaction that is still open are waited for, and what is stable is kept meanwhile."""

    def test_only_they_are_asked_again_of_all_that_a_group_committed(self, one: Pieces) -> None:
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, B1_IS_UNSTABLE, commits_are(dict.fromkeys(ALL, 9)))
        assert commits_of(one, None) == [4, 4, 9]
        asked = [each.groups[0].topics for each in one.asked(OffsetFetchRequest)]
        assert asked[0] is None
        for each in asked[1:]:
            assert [(topic.name, topic.partition_indexes) for topic in each] == [("b", [1])]

    def test_those_that_settle_later_are_kept_too(self, one: Pieces) -> None:
        one.broker.on(
            OffsetFetchRequest,
            commits_are({A0: 4}, errors={B0: 88, B1: 88}),
            commits_are({B0: 5}, errors={B1: 88}),
            commits_are({B1: 6}),
        )
        assert commits_of(one, ALL) == [4, 5, 6]

    def test_those_that_stay_unstable_are_in_error_at_the_deadline(self, one: Pieces) -> None:
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE)
        hurried = one._replace(client=one.cluster.client(timeout_s=0.4))
        assert commits_of(hurried, ALL) == [4, 4, "UNSTABLE_OFFSET_COMMIT"]

    @each_of((14, "COORDINATOR_LOAD_IN_PROGRESS"), (16, "NOT_COORDINATOR"), (30, "GROUP_AUTHORIZATION_FAILED"))
    def test_stable_ones_outlive_a_later_error_of_the_group(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, commits_are({}, groups={"g": code.code}))
        hurried = one._replace(client=one.cluster.client(timeout_s=0.5))
        assert commits_of(hurried, ALL) == [4, 4, code.name]

    @each_of((14, "COORDINATOR_LOAD_IN_PROGRESS"), (16, "NOT_COORDINATOR"))
    def test_a_later_error_of_the_group_that_passes_costs_nothing(self, one: Pieces, code: Code) -> None:
        moved = commits_are({}, groups={"g": code.code})
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, moved, commits_are(dict.fromkeys(ALL, 9)))
        assert commits_of(one, ALL) == [4, 4, 9]

    def test_stable_ones_outlive_silence(self, one: Pieces) -> None:
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, silence)
        hurried = one._replace(client=one.cluster.client(timeout_s=0.6))
        assert commits_of(hurried, ALL) == [4, 4, "REQUEST_TIMED_OUT"]

    def test_stable_ones_outlive_a_coordinator_that_nobody_knows_any_more(self, one: Pieces) -> None:
        lost = coordinators_are(one.broker, errors={"g": 15})
        one.broker.on(FindCoordinatorRequest, one.broker.coordinators, lost)
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, commits_are({}, groups={"g": 16}))
        hurried = one._replace(client=one.cluster.client(timeout_s=0.6))
        assert commits_of(hurried, ALL) == [4, 4, "COORDINATOR_NOT_AVAILABLE"]

    def test_one_group_does_not_hold_up_another(self, one: Pieces) -> None:
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, commits_are(dict.fromkeys(ALL, 9)))
        groups = one.client.committed_offsets({"g": ALL, "h": [A0]})
        assert [[outcome(each.error, each.offset) for each in group.offsets] for group in groups] == [[4, 4, 9], [4]]
        assert [len(each.groups) for each in one.asked(OffsetFetchRequest)] == [2, 1]


HAS_MEMBERS = (
    (22, "ILLEGAL_GENERATION"),
    (25, "UNKNOWN_MEMBER_ID"),
    (27, "REBALANCE_IN_PROGRESS"),
    (68, "NON_EMPTY_GROUP"),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC"),
    (113, "STALE_MEMBER_EPOCH"),
)
"""What a group with active members says to whoever changes its commits from outside."""


class TestOffsetCommit:
    @each_of(*COORDINATOR_PASSES)
    def test_a_code_that_passes_has_the_commit_written_again(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetCommitRequest, commits_are_written(errors={B1: code.code}), commits_are_written())
        assert self.written(one) == [4, 5, 6]
        assert one.asked_partitions(OffsetCommitRequest) == [[A0, B0, B1]] * 2
        assert one.located_groups() == [["g"], ["g"]][: 1 + code.looks_up]

    @each_of(
        *COORDINATOR_STAYS,
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (12, "OFFSET_METADATA_TOO_LARGE"),
        (28, "INVALID_COMMIT_OFFSET_SIZE"),
        (29, "TOPIC_AUTHORIZATION_FAILED"),
        (69, "GROUP_ID_NOT_FOUND"),
    )
    def test_a_code_that_stays_is_data_of_its_partition_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetCommitRequest, commits_are_written(errors={B1: code.code}))
        assert self.written(one) == [4, 5, code.name]
        assert len(one.asked(OffsetCommitRequest)) == 1

    @each_of(*HAS_MEMBERS)
    def test_a_group_with_members_refuses_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetCommitRequest, commits_are_written(errors=dict.fromkeys(ALL, code.code)))
        with pytest.raises(CommitRefusedError, match=rf"Group g has active members.*{code.name} \({code.code}\)"):
            one.client.commit_offsets("g", OFFSETS)
        assert len(one.asked(OffsetCommitRequest)) == 1

    def test_a_topic_that_was_recreated_is_unknown_by_its_id_at_once(self, one: Pieces) -> None:
        """Version 10."""
        ids = {"a": "11111111-2222-3333-4444-555555555555", "b": "99999999-8888-7777-6666-555555555555"}
        b0, b1 = (TopicPartition(ids["b"], number) for number in range(2))
        one.broker.on(OffsetCommitRequest, commits_are_written(errors={b0: 100, b1: 100}))
        written = one.client.commit_offsets("g", OFFSETS, topic_ids=ids)
        assert [outcome(each.error, each.offset) for each in written] == [4, "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_ID"]
        assert [each.API_VERSION for each in one.asked(OffsetCommitRequest)] == [10]

    def written(self, one: Pieces) -> list[Any]:
        return [outcome(each.error, each.offset) for each in one.client.commit_offsets("g", OFFSETS)]


class TestOffsetDelete:
    @each_of(*COORDINATOR_PASSES)
    def test_a_code_of_the_group_that_passes_is_asked_again(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetDeleteRequest, commits_are_deleted(error_code=code.code), commits_are_deleted())
        assert self.deleted(one) == [None, None, None]
        assert one.asked_partitions(OffsetDeleteRequest) == [[A0, B0, B1]] * 2
        assert one.located_groups() == [["g"], ["g"]][: 1 + code.looks_up]

    @each_of(*COORDINATOR_STAYS, (69, "GROUP_ID_NOT_FOUND", False, "E19"))
    def test_a_code_of_the_group_that_stays_is_every_partitions(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetDeleteRequest, commits_are_deleted(error_code=code.code))
        assert self.deleted(one) == [code.name] * 3
        assert len(one.asked(OffsetDeleteRequest)) == 1

    @each_of((3, "UNKNOWN_TOPIC_OR_PARTITION"), (29, "TOPIC_AUTHORIZATION_FAILED"))
    def test_a_code_of_a_partition_is_its_own(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetDeleteRequest, commits_are_deleted(errors={B1: code.code}))
        assert self.deleted(one) == [None, None, code.name]
        assert len(one.asked(OffsetDeleteRequest)) == 1

    @each_of(*HAS_MEMBERS)
    def test_a_group_with_members_refuses_at_once(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetDeleteRequest, commits_are_deleted(error_code=code.code))
        with pytest.raises(CommitRefusedError, match=rf"Group g has active members.*{code.name} \({code.code}\)"):
            one.client.delete_offsets("g", ALL)
        assert len(one.asked(OffsetDeleteRequest)) == 1

    def test_a_group_whose_members_read_one_of_the_topics_refuses(self, one: Pieces) -> None:
        one.broker.on(OffsetDeleteRequest, commits_are_deleted(errors={B1: 86}))
        with pytest.raises(CommitRefusedError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
            one.client.delete_offsets("g", ALL)

    def deleted(self, one: Pieces) -> list[Any]:
        return [outcome(each.error, each.offset) for each in one.client.delete_offsets("g", ALL)]


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

    @pytest.mark.parametrize("version", range(6))
    def test_before_version_six_a_dead_group_is_an_unknown_one(self, version: int) -> None:
        """E19"""
        with ScriptedCluster({}, versions={DescribeGroupsRequest: (0, version)}) as cluster:
            old = Pieces(cluster, cluster.brokers[0], cluster.client())
            old.broker.on(DescribeGroupsRequest, classic_groups_are({"g": "Empty", "h": "Dead"}))
            assert described(old) == {"g": "classic Empty", "h": "unknown"}


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
    return "unknown" if group.is_unknown else f"{group.kind and GroupKind(group.kind)} {group.state}"


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
