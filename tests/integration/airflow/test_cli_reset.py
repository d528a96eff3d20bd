"""``kafka-offsets reset``: a plan first, and the group moved only when told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as KafkaPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import TopicChangedError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.pipelines.resetter import Destination, Resetter
from dev.kafka import Broker
from tests.integration.airflow.conftest import Resolve, Run, at, recreate
from tests.integration.client.cases.workload import group_member
from tests.integration.conftest import MakeTopic, Produce

T0_MS = 1_795_154_400_000
"""2026-11-20T06:00:00Z."""


@pytest.fixture
def flights(topic: MakeTopic, produce: Produce, admin: KafkaAdminClient) -> str:
    """Two partitions: ten records a second apart with the first two deleted, and one record."""
    name = topic(partitions=2)
    produce(name, 0, [(T0_MS + n * 1000, None, b"x") for n in range(10)])
    produce(name, 1, [(T0_MS, None, b"x")])
    admin.delete_records({KafkaPartition(name, 0): 2})
    return name


@pytest.fixture
def group(client: OffsetsClient, flights: str) -> str:
    """A group without members that has read five records of partition 0, and none of partition 1."""
    name = f"group-of-{flights}"
    client.commit_offsets(name, CommittedOffsets([CommittedOffset(flights, 0, 5, 0)])).raise_for_errors()
    return name


@pytest.fixture
def member(broker: Broker, flights: str, group: str) -> Iterator[KafkaConsumer]:
    """A consumer that is an active member of the group."""
    with group_member(broker, group, [flights], client_id="the-loader") as consumer:
        yield consumer


def stands_at(client: OffsetsClient, group: str) -> dict[int, int | None]:
    """Where a group stands, by partition."""
    (found,) = client.committed_offsets({group: None}).raise_for_errors()
    return {each.partition: each.offset for each in found.offsets}


def rows(out: str) -> list[dict[str, Any]]:
    parsed: list[dict[str, Any]] = json.loads(out)
    return parsed


class TestDryRun:
    def test_it_shows_where_each_partition_would_go_and_changes_nothing(
        self, run: Run, client: OffsetsClient, flights: str, group: str
    ) -> None:
        code, out, err = run("reset", group, "--topics", flights, "--to", "earliest", "-o", "json")
        assert code == 0
        assert [(each["committed_offset"], each["new_offset"], each["moves_by"]) for each in rows(out)] == [
            (5, 2, -3),
            (None, 0, None),
        ]
        assert "Nothing was changed: add --execute" in err
        assert stands_at(client, group) == {0: 5}

    @pytest.mark.parametrize(
        ("where", "offsets"),
        [
            (["--to", "latest"], [10, 1]),
            (["--to", "2026-11-20T06:00:07Z"], [7, 1]),
            (["--to-offset", "3", "--partitions", "0"], [3]),
            (["--shift-by=-1", "--partitions", "0"], [4]),
            (["--shift-by=-100", "--partitions", "0"], [2]),
        ],
        ids=["latest", "an instant", "an offset", "back", "back past the log start"],
    )
    def test_every_way_to_say_where(
        self, run: Run, flights: str, group: str, where: list[str], offsets: list[int]
    ) -> None:
        _, out, _ = run("reset", group, "--topics", flights, *where, "-o", "json")
        assert [each["new_offset"] for each in rows(out)] == offsets

    def test_a_partition_that_cannot_go_there_is_in_error(self, run: Run, flights: str, group: str) -> None:
        """E18: a partition without a commit has nothing to shift."""
        code, out, err = run("reset", group, "--topics", flights, "--shift-by", "1", "-o", "json")
        assert code == 1
        assert [each["error"] is None for each in rows(out)] == [True, False]
        assert "some partitions are in error" in err

    @pytest.mark.parametrize("where", [[], ["--to", "latest", "--delete-offsets"]], ids=["nowhere", "two places"])
    def test_where_is_said_just_once(self, run: Run, group: str, where: list[str]) -> None:
        code, _, err = run("reset", group, *where)
        assert code == 2
        assert "exactly one target" in err

    @pytest.mark.parametrize("where", ["latest-tiered", "max-timestamp", "tomorrow"])
    def test_what_is_no_place_for_a_group_is_refused(self, run: Run, group: str, where: str) -> None:
        code, out, err = run("reset", group, "--to", where)
        assert (code, out) == (2, "")
        assert where in err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("misspelt", "--to", "latest"), "no such group"),
            (("misspelt", "--delete-offsets"), "no such group"),
            (("{group}", "--to", "latest", "--partitions", "7"), "nothing to reset on partition 7"),
            (("{group}", "--shift-by", "1", "--partitions", "1"), "nothing to reset on partition 1"),
        ],
        ids=["unknown group", "unknown group whose commits would go", "no such partition", "no commit there"],
    )
    def test_nothing_to_reset_says_why(self, run: Run, group: str, arguments: tuple[str, ...], words: str) -> None:
        code, _, err = run("reset", *(each.format(group=group) for each in arguments))
        assert code != 0
        assert words in err

    def test_a_future_instant_gets_a_commands_advice(self, run: Run, group: str) -> None:
        code, _, err = run("reset", group, "--to", "2126-11-20T06:00:00Z")
        assert code == 2
        assert "lies in the future" in err
        assert "Name a past instant, or reset to latest." in err
        assert "task" not in err

    def test_an_unknown_group_is_named_as_such(self, run: Run, flights: str) -> None:
        """E19"""
        _, _, err = run("reset", "misspelt", "--topics", flights, "--to", "latest")
        assert "There is no such group" in err


class TestExecute:
    def test_it_moves_the_group_and_sends_the_epoch_of_the_new_offset(
        self, run: Run, client: OffsetsClient, flights: str, group: str
    ) -> None:
        """E34"""
        code, _, err = run("reset", group, "--topics", flights, "--to", "2026-11-20T06:00:07Z", "--execute")
        assert code == 0
        assert "commits on 2 partitions written" in err
        assert stands_at(client, group) == {0: 7, 1: 1}
        (found,) = client.committed_offsets({group: None})
        assert [each.leader_epoch for each in found.offsets] == [0, 0], "at the log's end, that of the leader"

    def test_the_topics_of_the_group_are_the_default_with_all_partitions(
        self, run: Run, client: OffsetsClient, group: str
    ) -> None:
        run("reset", group, "--to", "earliest", "--execute")
        assert stands_at(client, group) == {0: 2, 1: 0}

    def test_commits_are_deleted(self, run: Run, client: OffsetsClient, group: str) -> None:
        code, _, err = run("reset", group, "--delete-offsets", "--execute")
        assert (code, "partitions deleted." in err) == (0, True)
        assert stands_at(client, group) == {}

    def test_a_snapshot_of_a_ledger_is_gone_back_to(
        self, run: Run, client: OffsetsClient, resolve: Resolve, flights: str, group: str
    ) -> None:
        resolve(flights, at(3), at(7))
        code, _, err = run("reset", group, "--to-snapshot", f"loads:{at(7)}", "--execute")
        assert (code, stands_at(client, group)) == (0, {0: 7, 1: 1}), err
        (found,) = client.committed_offsets({group: None})
        assert [each.leader_epoch for each in found.offsets] == [0, 0], "as the ledger knows them (E34)"

    def test_a_snapshot_that_no_longer_counts_is_no_place_to_go(
        self, run: Run, client: OffsetsClient, resolve: Resolve, flights: str, group: str
    ) -> None:
        resolve(flights, at(3), at(7))
        assert run("ledger", "rewind", "loads", "--to", at(3))[0] == 0
        code, _, err = run("reset", group, "--to-snapshot", f"loads:{at(7)}", "--execute")
        assert (code, "has no snapshot at 2026-11-20T06:00:07.000Z" in err) == (2, True)
        assert stands_at(client, group) == {0: 5}

    @pytest.mark.parametrize("name", ["loads", "loads:", "loads:2"])
    def test_a_snapshot_is_named_by_its_pipeline_and_its_instant(self, run: Run, group: str, name: str) -> None:
        assert run("reset", group, "--to-snapshot", name)[0] == 2

    def test_an_active_group_is_refused_with_its_members_named(
        self, run: Run, client: OffsetsClient, flights: str, group: str, member: KafkaConsumer
    ) -> None:
        _, _, err = run("reset", group, "--to", "earliest")
        assert "1 active members now" in err
        code, _, err = run("reset", group, "--to", "earliest", "--execute")
        assert code == 1
        assert f"the-loader at 127.0.0.1 reading {flights}-0, {flights}-1" in err
        assert stands_at(client, group) == {0: 5}

    def test_an_unknown_group_is_made_only_on_request(self, run: Run, client: OffsetsClient, flights: str) -> None:
        """E19"""
        name = f"new-{flights}"
        arguments = ("reset", name, "--topics", flights, "--to", "latest", "--execute")
        code, _, err = run(*arguments)
        assert code == 1
        assert "no such group" in err
        code, _, _ = run(*arguments, "--new-group")
        assert (code, stands_at(client, name)) == (0, {0: 10, 1: 1})

    def test_a_plan_with_an_error_is_not_carried_out_at_all(
        self, run: Run, client: OffsetsClient, flights: str, group: str
    ) -> None:
        code, _, err = run("reset", group, "--topics", flights, "--to-offset", "5", "--execute")
        assert code == 1
        assert "OFFSET_OUT_OF_RANGE" in err
        assert stands_at(client, group) == {0: 5}

    def test_a_snapshot_of_a_topic_that_was_re_created_since_is_refused(
        self, run: Run, resolve: Resolve, admin: KafkaAdminClient, ten: str
    ) -> None:
        """E24"""
        resolve(ten, at(0), at(5))
        recreate(admin, ten)
        code, _, err = run("reset", "any", "--to-snapshot", f"loads:{at(5)}")
        assert code == 1
        assert f"was resolved, topic {ten} was re-created" in err


class TestAnotherLog:
    def test_a_commit_of_a_later_epoch_than_the_log_is_no_place_to_shift_from(
        self, run: Run, client: OffsetsClient, flights: str, group: str
    ) -> None:
        """E24: it was committed on a topic of that name that isn't there any more."""
        client.commit_offsets(group, CommittedOffsets([CommittedOffset(flights, 0, 5, 7)])).raise_for_errors()
        code, out, _ = run("lag", group, "-o", "json")
        row = rows(out)[0]
        assert (code, row["lag"], row["status"]) == (1, None, "error")
        assert "committed under epoch 7, but the log is at 0" in row["error"]
        code, out, _ = run("reset", group, "--shift-by", "1", "--execute", "-o", "json")
        assert code == 1
        assert "under epoch 7" in rows(out)[0]["error"]
        assert stands_at(client, group) == {0: 5}
        assert run("reset", group, "--to", "earliest", "--partitions", "0", "--execute")[0] == 0
        assert stands_at(client, group) == {0: 2}
        assert run("lag", group, "--topics", flights)[0] == 0

    def test_a_topic_that_is_re_created_after_the_plan_gets_no_commit_of_it(
        self, client: OffsetsClient, admin: KafkaAdminClient, flights: str, group: str
    ) -> None:
        """E24"""
        resetter = Resetter(client, group, topics=[flights], numbers=[0])
        plan = resetter.plan(Destination(offset=7))
        recreate(admin, flights)
        with pytest.raises(TopicChangedError, match="re-created since the reset was planned"):
            resetter.execute(plan, new_group=True)
        (found,) = client.committed_offsets({group: None}).raise_for_errors()
        assert not found.has_commits
