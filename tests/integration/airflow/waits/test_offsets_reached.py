"""The drain barrier on a real broker: a target that stays where it is, and what reaches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.exceptions import AirflowRescheduleException
from kafka import KafkaAdminClient, TopicPartition as KafkaPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, LogTruncatedError, TopicChangedError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.operators.resolve import KafkaOffsetSnapshotOperator
from airflow_kafka_offsets.sensors.group_sensors import KafkaOffsetsReachedSensor
from dev.kafka import Broker
from tests.integration.airflow.conftest import T0_MS, Commit, Context, Resolve, at, fails_with, recreate
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
        return KafkaOffsetsReachedSensor(task_id="s", group=group, **arguments).condition(context).check(client)

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
    """The default: where the logs ended when the try began."""

    def poke(self, context: Context, group: str, **arguments: object) -> Any:
        """One poke in a process of its own: the result; None if the task goes on waiting."""
        context["ti"].get_first_reschedule_date = lambda _: None
        sensor = KafkaOffsetsReachedSensor(task_id="s", group=group, mode="reschedule", **arguments)
        try:
            return sensor.execute(context)
        except AirflowRescheduleException:
            return None

    @pytest.fixture
    def four(self, ten: str, commit: Commit) -> str:
        """A group that has read the first four of ten records."""
        name = new_name("group")
        commit(name, ten, 4)
        return name

    def test_stays_from_poke_to_poke_and_new_records_do_not_move_it(
        self, ten: str, four: str, commit: Commit, produce: Produce, context: Context
    ) -> None:
        assert self.poke(context, four) is None
        produce(ten, 0, [(None, None, b"x")] * 5)
        commit(four, ten, 10)
        result = self.poke(context, four)
        assert result["target"].startswith("the log end at ")
        assert (result["group"], result["partitions"]) == (four, 1)
        assert context["task_state_store"] == {}, "so that a cleared task starts anew"

    def test_is_found_anew_by_each_try(
        self, ten: str, four: str, commit: Commit, produce: Produce, context: Context
    ) -> None:
        """It then lies later, so that none passes too early. A task that is cleared, too, gets another try."""
        assert self.poke(context, four) is None
        produce(ten, 0, [(None, None, b"x")] * 5)
        commit(four, ten, 10)
        context["ti"].try_number = 2
        assert self.poke(context, four) is None, "five records are unread"
        commit(four, ten, 15)
        assert self.poke(context, four)

    def test_is_found_anew_where_another_version_kept_something_else(
        self, ten: str, four: str, commit: Commit, context: Context
    ) -> None:
        assert self.poke(context, four) is None
        del context["task_state_store"]["kafka_offsets.wait"]["kept_offsets"]["cluster_id"]
        assert self.poke(context, four) is None
        commit(four, ten, 10)
        assert self.poke(context, four)

    def test_of_a_topic_that_was_recreated_is_found_anew_as_the_error_says(
        self, admin: KafkaAdminClient, ten: str, four: str, produce: Produce, commit: Commit, context: Context
    ) -> None:
        assert self.poke(context, four) is None
        recreate(admin, ten)
        produce(ten, 0, [(None, None, b"x")] * 20)
        commit(four, ten, 20)
        with pytest.raises(AirflowFailException, match="was re-created") as failed:
            self.poke(context, four)
        assert fails_with(TopicChangedError, failed)
        assert self.poke(context, four)

    def test_is_on_all_topics_that_the_group_has_committed_on(
        self, ten: str, topic: MakeTopic, produce: Produce, commit: Commit, context: Context
    ) -> None:
        name, other = new_name("group"), topic(partitions=2)
        produce(other, 1, [(None, None, b"x")] * 3)
        commit(name, ten, 10)
        commit(name, other, 0)
        assert self.poke(context, name) is None, "a partition without a commit stands at its log start"
        kept = FixedOffsets.from_json(context["task_state_store"]["kafka_offsets.wait"]["kept_offsets"])
        assert set(kept.names()) == {ten, other}
        context["task_state_store"].clear()
        assert self.poke(context, name, topics=ten)

    def test_ends_at_what_is_decided_for_those_who_read_committed_records(
        self, broker: Broker, ten: str, commit: Commit, context: Context
    ) -> None:
        """E13"""
        name = new_name("group")
        commit(name, ten, 10)
        with transactional_producer(broker) as producer:
            send(producer, ten)
            assert self.poke(context, name)
            assert self.poke(context, name, isolation_level="read_uncommitted") is None


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
