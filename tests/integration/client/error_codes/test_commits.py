"""Error codes of a group's commits: of looking up its coordinator, and of reading and writing them there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from airflow_kafka_offsets.errors import CommitRefusedError
from airflow_kafka_offsets.offsets.answers.groups import GroupOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.integration.client.error_codes.codes import COORDINATOR_PASSES, COORDINATOR_STAYS, Code, each_of, outcome
from tests.integration.client.pieces import A0, ALL, B0, B1, OFFSETS, Pieces
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import commits_are, commits_are_written, coordinators_are, silence


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
        hurried = one._replace(client=one.cluster.client(timeout_s=2))
        assert commits_of(hurried, ALL) == [4, 4, "UNSTABLE_OFFSET_COMMIT"]

    @each_of((14, "COORDINATOR_LOAD_IN_PROGRESS"), (16, "NOT_COORDINATOR"), (30, "GROUP_AUTHORIZATION_FAILED"))
    def test_stable_ones_outlive_a_later_error_of_the_group(self, one: Pieces, code: Code) -> None:
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, commits_are({}, groups={"g": code.code}))
        hurried = one._replace(client=one.cluster.client(timeout_s=2))
        assert commits_of(hurried, ALL) == [4, 4, code.name]

    @each_of((14, "COORDINATOR_LOAD_IN_PROGRESS"), (16, "NOT_COORDINATOR"))
    def test_a_later_error_of_the_group_that_passes_costs_nothing(self, one: Pieces, code: Code) -> None:
        moved = commits_are({}, groups={"g": code.code})
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, moved, commits_are(dict.fromkeys(ALL, 9)))
        assert commits_of(one, ALL) == [4, 4, 9]

    def test_stable_ones_outlive_silence(self, one: Pieces) -> None:
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, silence)
        hurried = one._replace(client=one.cluster.client(timeout_s=2))
        assert commits_of(hurried, ALL) == [4, 4, "REQUEST_TIMED_OUT"]

    def test_stable_ones_outlive_a_coordinator_that_nobody_knows_any_more(self, one: Pieces) -> None:
        lost = coordinators_are(one.broker, errors={"g": 15})
        one.broker.on(FindCoordinatorRequest, one.broker.coordinators, lost)
        one.broker.on(OffsetFetchRequest, B1_IS_UNSTABLE, commits_are({}, groups={"g": 16}))
        hurried = one._replace(client=one.cluster.client(timeout_s=2))
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
    (113, "STALE_MEMBER_EPOCH"),
)
"""What a group with active members says to whoever commits from outside."""


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
