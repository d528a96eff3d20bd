"""The drain barrier on a real broker: a target that stays where it is, and what reaches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, TopicPartition as KafkaPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, LogTruncatedError, TopicChangedError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.operators.snapshot import KafkaOffsetSnapshotOperator
from airflow_kafka_offsets.sensors.offsets_reached import KafkaOffsetsReachedSensor
from dev.kafka import Broker
from tests.integration.airflow.conftest import T0_MS, Commit, Context, Resolve, at, cleared, fails_with, recreate
from tests.integration.client.cases.workload import new_name, send, transactional_producer
from tests.integration.conftest import MakeTopic, Produce

Snapshot = Callable[[str], dict[str, Any]]
Look = Callable[..., Progress]


@pytest.fixture
def snapshot(context: Context) -> Snapshot:
    """Snapshot where a topic's log ends; the XCom."""

    def take(topic: str) -> dict[str, Any]:
        operator = KafkaOffsetSnapshotOperator(task_id="snapshot", pipeline=KafkaPipeline("loads", topic))
        return operator.execute(context)

    return take


@pytest.fixture
def look(client: OffsetsClient, context: Context) -> Look:
    """Check once what a sensor with these arguments waits for."""

    def check(group: str, **arguments: object) -> Progress:
        sensor = KafkaOffsetsReachedSensor(task_id="s", group=group, **arguments)
        found = sensor.condition(context).check(client)
        if found.ends is None:
            return found
        sensor.take_found(context, found.result)
        return sensor.condition(context).check(client)

    return check


def at_offset(topic: str, offset: int) -> FixedOffsets:
    """A target on partition 0, of a topic whose id nobody noted."""
    return FixedOffsets.of("target", [SeenOffset(topic, 0, offset)])


class TestSnapshotTarget:
    def test_is_reached_by_a_commit_at_it_and_not_by_one_before_it(
        self, ten: str, snapshot: Snapshot, commit: Commit, look: Look
    ) -> None:
        name, target = new_name("group"), snapshot(ten)
        commit(name, ten, 9)
        found = look(name, target=target)
        assert (found.done, found.remaining) == (False, 1)
        assert found.summary.startswith(f"{name} is 1 offsets before the snapshot as of ")
        assert found.summary.endswith(f"({ten}-0 1)")
        commit(name, ten, 10)
        assert look(name, target=target).done

    def test_does_not_move_with_new_records(
        self, ten: str, snapshot: Snapshot, commit: Commit, produce: Produce, context: Context
    ) -> None:
        name, target = new_name("group"), snapshot(ten)
        produce(ten, 0, [(None, None, b"x")] * 5)
        commit(name, ten, 10)
        result = KafkaOffsetsReachedSensor(task_id="s", group=name, target=target).execute(context)
        assert result.pop("target").startswith("the snapshot as of ")
        assert result == {"group": name, "partitions": 1, "ledger": target["ledger"]}


class TestWindowTarget:
    def test_is_the_windows_end(self, ten: str, resolve: Resolve, commit: Commit, look: Look) -> None:
        name, window = new_name("group"), resolve(ten, at(2), at(7))
        commit(name, ten, 6)
        assert not look(name, target=window).done
        commit(name, ten, 7)
        found = look(name, target=window)
        assert (found.done, found.result["target"]) == (True, f"the end of window {window['window']}")


class TestLogEndTarget:
    """The default: where the logs ended when the task began."""

    def sensor(self, group: str, **arguments: object) -> KafkaOffsetsReachedSensor:
        return KafkaOffsetsReachedSensor(task_id="s", group=group, **arguments)

    def test_is_kept_across_retries_and_new_records_do_not_move_it(
        self, ten: str, commit: Commit, produce: Produce, context: Context
    ) -> None:
        name = new_name("group")
        commit(name, ten, 4)
        assert not self.sensor(name).poke(context)
        produce(ten, 0, [(None, None, b"x")] * 5)
        commit(name, ten, 10)
        context["ti"].try_number = 2
        result = self.sensor(name).execute(context)
        assert result["target"].startswith("the log end at ")
        assert (result["group"], result["partitions"]) == (name, 1)

    def test_is_dropped_on_success_so_that_a_cleared_task_starts_anew(
        self, ten: str, commit: Commit, produce: Produce, context: Context
    ) -> None:
        name = new_name("group")
        commit(name, ten, 10)
        assert self.sensor(name).poke(context)
        assert context["task_state_store"] == {}
        produce(ten, 0, [(None, None, b"x")])
        assert not self.sensor(name).poke(context)

    def test_is_found_anew_by_a_task_that_is_cleared_before_it_had_passed(
        self, ten: str, commit: Commit, produce: Produce, context: Context
    ) -> None:
        """It timed out, was skipped or killed: nothing of ours ran then."""
        name = new_name("group")
        commit(name, ten, 4)
        assert not self.sensor(name).poke(context)
        produce(ten, 0, [(None, None, b"x")] * 5)
        commit(name, ten, 10)
        cleared(context)
        assert not self.sensor(name).poke(context), "five records are unread"
        commit(name, ten, 15)
        assert self.sensor(name).poke(context)

    def test_is_found_anew_where_another_version_kept_something_else(
        self, ten: str, commit: Commit, context: Context
    ) -> None:
        name = new_name("group")
        commit(name, ten, 4)
        assert not self.sensor(name).poke(context)
        del context["task_state_store"]["kafka_offsets.fixed_offsets"]["fixed_offsets"]["cluster_id"]
        assert not self.sensor(name).poke(context)
        commit(name, ten, 10)
        assert self.sensor(name).poke(context)

    def test_of_a_topic_that_was_recreated_is_found_anew_as_the_error_says(
        self, admin: KafkaAdminClient, ten: str, produce: Produce, commit: Commit, context: Context
    ) -> None:
        """Even where ``max_tries`` doesn't rise, as the Dag has fewer retries by now."""
        name = new_name("group")
        commit(name, ten, 4)
        assert not self.sensor(name).poke(context)
        recreate(admin, ten)
        produce(ten, 0, [(None, None, b"x")] * 20)
        commit(name, ten, 20)
        with pytest.raises(AirflowFailException, match="was re-created") as failed:
            self.sensor(name).poke(context)
        assert fails_with(TopicChangedError, failed)
        assert self.sensor(name).poke(context)

    def test_is_dropped_when_the_triggerer_finds_that_it_cannot_be_reached(
        self, ten: str, commit: Commit, context: Context
    ) -> None:
        name = new_name("group")
        commit(name, ten, 4)
        assert not self.sensor(name).poke(context)
        with pytest.raises(AirflowFailException, match="re-created"):
            self.sensor(name).execute_complete(context, {"status": "failed", "message": "re-created"})
        assert context["task_state_store"] == {}

    def test_is_on_all_topics_that_the_group_has_committed_on(
        self, ten: str, topic: MakeTopic, produce: Produce, commit: Commit, context: Context
    ) -> None:
        name, other = new_name("group"), topic(partitions=2)
        produce(other, 1, [(None, None, b"x")] * 3)
        commit(name, ten, 10)
        commit(name, other, 0)
        assert not self.sensor(name).poke(context), "a partition without a commit stands at its log start"
        kept = FixedOffsets.from_json(context["task_state_store"]["kafka_offsets.fixed_offsets"]["fixed_offsets"])
        assert set(kept.names()) == {ten, other}
        context["task_state_store"].clear()
        assert self.sensor(name, topics=ten).poke(context)

    def test_ends_at_what_is_decided_for_those_who_read_committed_records(
        self, broker: Broker, ten: str, commit: Commit, context: Context
    ) -> None:
        """E13"""
        name = new_name("group")
        commit(name, ten, 10)
        with transactional_producer(broker) as producer:
            send(producer, ten)
            assert self.sensor(name).poke(context)
            assert not self.sensor(name, isolation_level="read_uncommitted").poke(context)


class TestReached:
    def test_by_a_commit_before_nothing_but_markers_and_aborted_records(
        self, broker: Broker, ten: str, commit: Commit, look: Look, snapshot: Snapshot
    ) -> None:
        """E12: no reader ever commits past them."""
        with transactional_producer(broker) as producer:
            send(producer, ten)
            producer.abort_transaction()
        name, target = new_name("group"), snapshot(ten)
        commit(name, ten, 10)
        assert look(name, target=target).done
        assert not look(name, target=target, isolation_level="read_uncommitted").done
        commit(name, ten, 9)
        assert not look(name, target=target).done

    def test_not_on_one_partition_alone(
        self, topic: MakeTopic, produce: Produce, snapshot: Snapshot, commit: Commit, look: Look
    ) -> None:
        name, group = topic(partitions=2), new_name("group")
        for partition in range(2):
            produce(name, partition, [(None, None, b"x")] * 2)
        target = snapshot(name)
        commit(group, name, 2)
        found = look(group, target=target)
        assert (found.done, found.remaining) == (False, 2)

    def test_not_by_records_that_were_deleted_unread(
        self, ten: str, admin: KafkaAdminClient, snapshot: Snapshot, commit: Commit, look: Look
    ) -> None:
        """E9"""
        name, target = new_name("group"), snapshot(ten)
        commit(name, ten, 3)
        admin.delete_records({KafkaPartition(ten, 0): 10})
        found = look(name, target=target)
        assert (found.done, found.remaining) == (False, 7)
        assert found.summary.endswith("; 7 offsets were deleted before it read them")

    def test_not_while_an_open_transaction_hides_the_target(
        self, broker: Broker, ten: str, client: OffsetsClient, commit: Commit
    ) -> None:
        """E13: it lies past what is stable, and isn't truncated."""
        name = new_name("group")
        commit(name, ten, 10)
        with transactional_producer(broker) as producer:
            send(producer, ten)
            assert not OffsetsReached(name, at_offset(ten, 11)).check(client).done


class TestNeverReached:
    def test_a_recreated_topic_fails(
        self, ten: str, admin: KafkaAdminClient, snapshot: Snapshot, commit: Commit, produce: Produce, context: Context
    ) -> None:
        """E24: the offsets mean other records now."""
        name, target = new_name("group"), snapshot(ten)
        recreate(admin, ten)
        produce(ten, 0, [(T0_MS, None, b"other")] * 10)
        commit(name, ten, 10)
        with pytest.raises(AirflowFailException, match=f"Topic {ten} was re-created") as failed:
            KafkaOffsetsReachedSensor(task_id="s", group=name, target=target).execute(context)
        assert fails_with(TopicChangedError, failed)

    def test_a_truncated_target_fails(self, ten: str, client: OffsetsClient, commit: Commit) -> None:
        """E34"""
        name = new_name("group")
        commit(name, ten, 10)
        with pytest.raises(LogTruncatedError, match=f"{ten}-0 now ends at 10, before offset 12 of target"):
            OffsetsReached(name, at_offset(ten, 12)).check(client)

    def test_a_commit_past_the_end_of_the_log_has_reached_nothing(
        self, ten: str, commit: Commit, context: Context, snapshot: Snapshot
    ) -> None:
        """E17: the log was truncated below it, or the commit copied; the records before the target may be unread."""
        name = new_name("group")
        commit(name, ten, 99)
        with pytest.raises(AirflowFailException, match="past the log's end"):
            KafkaOffsetsReachedSensor(task_id="s", group=name, target=snapshot(ten)).execute(context)

    def test_an_unknown_group_fails(self, ten: str, snapshot: Snapshot, look: Look) -> None:
        """E19: with a stored target, with named topics, and with neither."""
        for options in ({"target": snapshot(ten)}, {"topics": ten}):
            with pytest.raises(ConditionFailedError, match="Group mispselt doesn't exist"):
                look("mispselt", **options)

    def test_an_unknown_group_without_topics_has_nothing_to_reach(self, look: Look) -> None:
        """E19"""
        with pytest.raises(ConfigurationError, match=r"Group mispselt doesn't exist .* not started yet"):
            look("mispselt")

    @pytest.mark.parametrize("arguments", [{"target": "snapshot 1"}, {"target": {"snapshot": 1}, "topics": "t"}])
    def test_a_target_that_is_none_fails(self, look: Look, arguments: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            look("g", **arguments)
