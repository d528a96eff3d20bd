"""``kafka-offsets reset``: a plan first, and the group moved only when told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition as KafkaPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import CommitRefusedError, OffsetsError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.operators.commits import KafkaResetOffsetsOperator
from airflow_kafka_offsets.pipelines.resetter import Resetter
from dev.kafka import Broker
from tests.integration.airflow.conftest import Context, Resolve, Run, at, recreate
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
        code, out, err = run("reset", group, "--topics", flights, "--to", "earliest", "--backwards", "-o", "json")
        assert code == 0
        assert [(each["committed_offset"], each["new_offset"], each["moves_by"]) for each in rows(out)] == [
            (5, 2, -3),
            (None, 0, None),
        ]
        assert "nothing was changed: add --execute" in err
        assert stands_at(client, group) == {0: 5}

    def test_what_would_go_back_stays_unless_it_is_asked_to(self, run: Run, flights: str, group: str) -> None:
        _, out, _ = run("reset", group, "--topics", flights, "--to", "earliest", "-o", "json")
        assert [(each["new_offset"], each["remark"]) for each in rows(out)] == [
            (None, "stays at 5: 2 would be back"),
            (0, None),
        ]

    @pytest.mark.parametrize(("where", "offsets"), [("latest", [10, 1]), ("2026-11-20T06:00:07Z", [7, 1])])
    def test_every_other_way_to_say_where(
        self, run: Run, flights: str, group: str, where: str, offsets: list[int]
    ) -> None:
        _, out, _ = run("reset", group, "--topics", flights, "--to", where, "-o", "json")
        assert [each["new_offset"] for each in rows(out)] == offsets

    @pytest.mark.parametrize("where", [[], ["--to", "latest", "--to-window", "loads:w"]], ids=["nowhere", "two places"])
    def test_where_is_said_just_once(self, run: Run, group: str, where: list[str]) -> None:
        code, _, err = run("reset", group, *where)
        assert code == 2
        assert "exactly one of them" in err

    @pytest.mark.parametrize("ignored", [["--at", "2h ago"], ["--ledger", "/ledgers"]])
    def test_what_is_about_a_window_is_refused_for_another_place(
        self, run: Run, flights: str, group: str, ignored: list[str]
    ) -> None:
        """Nothing is moved to the end of the log by somebody who meant two hours ago."""
        code, out, err = run("reset", group, "--topics", flights, "--to", "latest", *ignored, "--execute")
        assert (code, out) == (2, "")
        assert f"{ignored[0]} means nothing beside --to" in err

    def test_brokers_whose_variable_is_not_set_are_not_those_of_a_connection(self, run: Run, group: str) -> None:
        code, out, err = run("reset", group, "--to", "latest", "--execute", "--bootstrap-servers", "")
        assert (code, out) == (2, "")
        assert "argument --bootstrap-servers: it is empty: is a variable not set?" in err

    @pytest.mark.parametrize("where", ["latest-tiered", "max-timestamp", "tomorrow"])
    def test_what_is_no_place_for_a_group_is_refused(self, run: Run, group: str, where: str) -> None:
        code, out, err = run("reset", group, "--to", where)
        assert (code, out) == (2, "")
        assert where in err

    def test_a_future_instant_gets_a_commands_advice(self, run: Run, group: str) -> None:
        code, _, err = run("reset", group, "--to", "2126-11-20T06:00:00Z")
        assert code == 2
        assert "lies in the future" in err
        assert "Name a past instant, or reset to latest." in err
        assert "task" not in err

    def test_an_unknown_group_is_named_as_such(self, run: Run, flights: str) -> None:
        """E19"""
        assert "no such group" in run("reset", "misspelt", "--to", "latest")[2]
        _, _, err = run("reset", "misspelt", "--topics", flights, "--to", "latest")
        assert "there is no such group" in err


class TestExecute:
    def test_it_moves_the_group_and_sends_the_epoch_of_the_new_offset(
        self, run: Run, client: OffsetsClient, flights: str, group: str
    ) -> None:
        """E34"""
        code, _, err = run("reset", group, "--topics", flights, "--to", "2026-11-20T06:00:07Z", "--execute")
        assert code == 0
        assert "commits on 2 of 2 partitions written" in err
        assert stands_at(client, group) == {0: 7, 1: 1}
        (found,) = client.committed_offsets({group: None})
        assert [each.leader_epoch for each in found.offsets] == [0, 0], "at the log's end, that of the leader"

    def test_the_topics_of_the_group_are_the_default_with_all_partitions(
        self, run: Run, client: OffsetsClient, group: str
    ) -> None:
        run("reset", group, "--to", "earliest", "--backwards", "--execute")
        assert stands_at(client, group) == {0: 2, 1: 0}

    def test_it_goes_to_the_end_of_a_window(
        self, run: Run, client: OffsetsClient, resolve: Resolve, flights: str, group: str
    ) -> None:
        window = resolve(flights, at(3), at(7))["window"]
        code, _, err = run("reset", group, "--to-window", f"loads:{window}", "--execute")
        assert (code, stands_at(client, group)) == (0, {0: 7, 1: 1}), err
        (found,) = client.committed_offsets({group: None})
        assert [each.leader_epoch for each in found.offsets] == [0, 0], "as the ledger knows them (E34)"

    @pytest.mark.parametrize("name", ["loads", "loads:", "loads:misspelt", "misspelt:w"])
    def test_a_window_is_named_by_its_pipeline_and_its_name(
        self, run: Run, resolve: Resolve, flights: str, group: str, name: str
    ) -> None:
        resolve(flights, at(3), at(7))
        assert run("reset", group, "--to-window", name)[0] == 2

    def test_a_window_of_a_topic_that_was_re_created_since_is_refused(
        self, run: Run, resolve: Resolve, admin: KafkaAdminClient, ten: str
    ) -> None:
        """E24"""
        window = resolve(ten, at(0), at(5))["window"]
        recreate(admin, ten)
        code, _, err = run("reset", "any", "--to-window", f"loads:{window}")
        assert code == 1
        assert f"Topic {ten} was re-created" in err

    def test_an_active_group_is_refused_with_its_members_named(
        self, run: Run, client: OffsetsClient, flights: str, group: str, member: KafkaConsumer
    ) -> None:
        _, _, err = run("reset", group, "--to", "latest")
        assert "has 1 active members" in err
        code, _, err = run("reset", group, "--to", "latest", "--execute")
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
        self, client: OffsetsClient, flights: str, group: str
    ) -> None:
        """S15: a window's end past the log's end."""
        resetter = Resetter(client, group, [flights])
        ends = FixedOffsets.of("a window's end", [SeenOffset(flights, 0, 11), SeenOffset(flights, 1, 1)])
        with pytest.raises(OffsetsError, match="OFFSET_OUT_OF_RANGE"):
            resetter.execute(resetter.plan(ends))
        assert stands_at(client, group) == {0: 5}


class TestAnotherLog:
    def test_a_commit_of_a_later_epoch_than_the_log_is_told_and_moved(
        self, run: Run, client: OffsetsClient, flights: str, group: str
    ) -> None:
        """E24: it was committed on a topic of that name that isn't there any more."""
        client.commit_offsets(group, CommittedOffsets([CommittedOffset(flights, 0, 5, 7)])).raise_for_errors()
        code, out, _ = run("lag", group, "-o", "json")
        row = rows(out)[0]
        assert (code, row["lag"], row["status"]) == (1, None, "error")
        assert "committed under epoch 7, but the log is at 0" in row["error"]
        assert run("reset", group, "--to", "earliest", "--backwards", "--execute")[0] == 0
        assert stands_at(client, group) == {0: 2, 1: 0}
        assert run("lag", group, "--topics", flights)[0] == 0

    def test_a_topic_that_is_re_created_after_the_plan_gets_no_commit_of_it(
        self, client: OffsetsClient, admin: KafkaAdminClient, flights: str, group: str
    ) -> None:
        """E24"""
        resetter = Resetter(client, group, [flights])
        plan = resetter.plan(OffsetSpec.LATEST)
        recreate(admin, flights)
        with pytest.raises(OffsetsError, match="UNKNOWN_TOPIC_ID"):
            resetter.execute(plan, new_group=True)
        (found,) = client.committed_offsets({group: None}).raise_for_errors()
        assert not found.has_commits


class TestOperator:
    def move(self, context: Context, group: str, to: Any, **arguments: Any) -> dict[str, Any]:
        return KafkaResetOffsetsOperator(task_id="move", group=group, to=to, **arguments).execute(context)

    def test_it_goes_to_a_windows_end_and_no_further_back(
        self, client: OffsetsClient, resolve: Resolve, context: Context, flights: str, group: str
    ) -> None:
        earlier, window = resolve(flights, at(2), at(3)), resolve(flights, at(3), at(7))
        assert self.move(context, group, window) == {"group": group, "committed": 2, "kept": 0}
        assert self.move(context, group, earlier) == {"group": group, "committed": 1, "kept": 1}
        assert stands_at(client, group) == {0: 7, 1: 1}
        assert self.move(context, group, earlier, backwards=True)["committed"] == 2
        assert stands_at(client, group) == {0: 3, 1: 1}

    def test_it_goes_to_an_instant_and_to_the_ends_of_the_logs(
        self, client: OffsetsClient, context: Context, flights: str, group: str
    ) -> None:
        for to, offsets in ((at(7), {0: 7, 1: 1}), ("latest", {0: 10, 1: 1}), ("earliest", {0: 2, 1: 0})):
            self.move(context, group, to, topics=flights, backwards=True)
            assert stands_at(client, group) == offsets

    def test_an_active_group_fails_the_task(
        self, client: OffsetsClient, context: Context, group: str, member: KafkaConsumer
    ) -> None:
        with pytest.raises((AirflowFailException, CommitRefusedError), match="has 1 active members"):
            self.move(context, group, "latest")
        assert stands_at(client, group) == {0: 5}

    def test_a_misspelt_group_is_not_made(self, context: Context, flights: str) -> None:
        with pytest.raises(AirflowFailException, match="no such group"):
            self.move(context, "misspelt", "latest", topics=flights)
