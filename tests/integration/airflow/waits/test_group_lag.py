"""Group lag on a real broker: what each option counts, and who may not look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from kafka import KafkaAdminClient, TopicPartition as KafkaPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.errors import ConditionFailedError, OffsetsError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.instants import duration_text, now_ms
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.sensors.group_sensors import KafkaGroupLagSensor
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit, Context, sasl, use_connection
from tests.integration.airflow.waits.conftest import Look, MakeGroup
from tests.integration.client.cases.workload import admin_of, connected_client, new_name, send, transactional_producer
from tests.integration.conftest import USERS, MakeTopic, Produce
from tests.patience import wait_until


class TestLimits:
    @pytest.fixture
    def behind(self, spread: str, group: MakeGroup) -> str:
        """A group that is 4, 2, 1 and 3 behind."""
        return group(spread, {0: 1, 1: 3, 2: 4, 3: 2})

    def test_all_that_are_given_have_to_hold_and_without_any_the_total_is_zero(self, behind: str, look: Look) -> None:
        for limits, passes in (
            ({}, False),
            ({"max_lag": 9}, False),
            ({"max_lag": 10}, True),
        ):
            found = look(behind, **limits)
            assert (limits, found.done) == (limits, passes)
            assert found.result == {"groups": {behind: 10}} | (limits or {"max_lag": 0})
            assert found.remaining == 10

    def test_the_summary_names_the_total_and_the_worst_three_partitions(
        self, spread: str, behind: str, look: Look
    ) -> None:
        assert look(behind).summary == f"{behind} is 10 behind ({spread}-0 4, {spread}-3 3, {spread}-1 2)"

    def test_each_group_is_held_against_them_by_itself(self, spread: str, behind: str, look: Look) -> None:
        other = new_name("other")
        assert not look([behind, other], max_lag=10, unknown_group="wait").done
        assert look([behind, behind], max_lag=10).done


class TestMaxAge:
    @pytest.fixture
    def aged(self, topic: MakeTopic, produce: Produce, group: MakeGroup) -> str:
        """A group whose oldest unread records are ten and fifty minutes old; read ones are two hours old."""
        name, now = topic(partitions=2), int(time.time())
        for partition, minutes in enumerate((10, 50)):
            stamps = [now - 7200, now - minutes * 60, now]
            produce(name, partition, [(stamp * 1000, None, b"x") for stamp in stamps])
        return group(name, {0: 1, 1: 1})

    def test_the_oldest_unread_record_of_any_partition_counts(self, aged: str, look: Look) -> None:
        assert look(aged, max_age=timedelta(hours=1)).done
        found = look(aged, max_age=45 * 60)
        assert not found.done
        assert found.result["age_s"][aged] >= 3000
        assert f"its oldest unread record is {duration_text(found.result['age_s'][aged])} old" in found.summary

    def test_a_limit_on_lag_has_to_hold_beside_it(self, aged: str, look: Look) -> None:
        assert not look(aged, max_age=timedelta(hours=1), max_lag=3).done
        assert look(aged, max_age=timedelta(hours=1), max_lag=4).done

    def test_who_has_read_everything_has_no_unread_record_however_strict_the_limit(
        self, ten: str, group: MakeGroup, look: Look
    ) -> None:
        found = look(group(ten, {0: 10}), max_age=0)
        assert found.done
        assert list(found.result["age_s"].values()) == [0]

    def test_a_marker_has_no_age(self, broker: Broker, ten: str, group: MakeGroup, look: Look) -> None:
        """E12"""
        with transactional_producer(broker) as producer:
            last = send(producer, ten)[-1]
            producer.commit_transaction()
        assert look(group(ten, {0: last + 1}), max_age=0).done


class TestUnknownAge:
    """E5: whoever may write may stamp a record as they like. What its timestamp doesn't tell is no age of 0."""

    @pytest.fixture
    def stamped(self, topic: MakeTopic, produce: Produce, group: MakeGroup) -> Callable[[int], tuple[str, str]]:
        """Makes a topic and a group whose first unread record has a timestamp, with ones of two days ago behind it."""

        def make(first_ms: int) -> tuple[str, str]:
            name = topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)})
            old_ms = int(time.time() - 2 * 86_400) * 1000
            produce(name, 0, [(stamp, None, b"x") for stamp in (first_ms, old_ms, old_ms)])
            return name, group(name, {0: 0})

        return make

    def test_of_a_record_from_the_future_meets_no_limit(
        self, stamped: Callable[[int], tuple[str, str]], look: Look
    ) -> None:
        name, reader = stamped(now_ms() + 10 * 86_400_000)
        found = look(reader, max_age=timedelta(days=365))
        assert (found.done, found.result["age_s"]) == (False, {reader: None})
        assert f"; the age of its unread records is unknown on {name}-0 (" in found.summary
        assert "its timestamp lies in the future: 20" in found.summary

    def test_a_clock_that_is_a_little_ahead_is_no_future(
        self, stamped: Callable[[int], tuple[str, str]], look: Look
    ) -> None:
        _, reader = stamped(now_ms() + 3_500_000)
        found = look(reader, max_age=60)
        assert (found.done, found.result["age_s"]) == (True, {reader: 0})

    def test_of_a_record_without_a_timestamp_meets_no_limit_until_it_is_read(
        self, stamped: Callable[[int], tuple[str, str]], commit: Commit, look: Look
    ) -> None:
        name, reader = stamped(-(10**16))
        found = look(reader, max_age=timedelta(days=365))
        assert (found.done, found.result["age_s"]) == (False, {reader: None})
        assert f"unknown on {name}-0 (it has no timestamp)" in found.summary
        commit(reader, name, 1)
        assert look(reader, max_age=timedelta(days=365)).done


class TestNoCommit:
    """E18"""

    @pytest.fixture
    def half(self, spread: str, group: MakeGroup) -> str:
        """A group that has read three of four partitions and has no commit on the last."""
        return group(spread, {0: 5, 1: 5, 2: 5})

    def test_counts_everything_from_the_log_start(
        self, admin: KafkaAdminClient, spread: str, half: str, look: Look
    ) -> None:
        admin.delete_records({KafkaPartition(spread, 3): 2})
        assert look(half).result["groups"] == {half: 3}
        assert not look(half, max_lag=2).done

    def test_counts_nothing_where_it_is_ignored(self, half: str, look: Look) -> None:
        assert look(half, no_commit="ignore").done

    def test_is_not_ignored_where_there_is_no_commit_at_all(self, spread: str, ten: str, half: str, look: Look) -> None:
        found = look(half, topics=ten, no_commit="ignore")
        assert (found.done, found.remaining) == (False, None)
        assert found.summary == f"{half} has committed nothing yet"

    def test_is_waited_for_even_where_the_partition_is_empty(
        self, topic: MakeTopic, group: MakeGroup, commit: Commit, look: Look
    ) -> None:
        name = topic(partitions=2)
        half = group(name, {1: 0})
        assert look(half).done, "from the log start there is nothing to read"
        found = look(half, no_commit="wait")
        assert not found.done
        assert found.summary == f"{half} has no commit on 1 partition ({name}-0)"
        commit(half, name, 0)
        assert look(half, no_commit="wait").done


class TestUnknownGroup:
    """E19"""

    @pytest.mark.parametrize("named", [False, True], ids=["all topics", "named topics"])
    def test_fails_or_is_waited_for_and_never_passes_even_on_an_empty_topic(
        self, topic: MakeTopic, look: Look, named: bool
    ) -> None:
        options = {"topics": topic()} if named else {}
        with pytest.raises(ConditionFailedError, match="Group mispselt doesn't exist"):
            look("mispselt", **options)
        found = look("mispselt", unknown_group="wait", max_lag=10**9, **options)
        assert (found.done, found.summary) == (False, "mispselt doesn't exist yet")


class TestWithoutReadPermission:
    """E32: Describe is enough for arithmetic. What takes a look into the log never passes without Read."""

    @pytest.fixture
    def alice(self, broker: Broker, ten: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[OffsetsClient]:
        """A client who may describe the topic."""
        use_connection(monkeypatch, "alice", sasl(broker, "alice", USERS["alice"]))
        self.allow(broker, ten, ACLOperation.DESCRIBE)
        keys = {key: value for key, value in sasl(broker, "alice", USERS["alice"]).items() if "servers" not in key}
        keys = {key.replace(".", "_"): value for key, value in keys.items()}
        with connected_client(broker.sasl_bootstrap_servers, **keys) as connected:
            yield connected

    def allow(self, broker: Broker, topic: str, may: ACLOperation) -> None:
        with admin_of(broker) as admin:
            pattern = ResourcePattern(ResourceType.TOPIC, topic)
            admin.create_acls([ACL("User:alice", "*", may, ACLPermissionType.ALLOW, pattern)])

    def sensor(self, group: str, **arguments: object) -> KafkaGroupLagSensor:
        return KafkaGroupLagSensor(task_id="s", groups=group, kafka_conn_id="alice", **arguments)

    def test_a_tail_of_markers_is_waited_for_until_it_may_be_read(
        self, broker: Broker, ten: str, group: MakeGroup, alice: OffsetsClient, context: Context
    ) -> None:
        """E12"""
        with transactional_producer(broker) as producer:
            last = send(producer, ten)[-1]
            producer.commit_transaction()
        sensor = self.sensor(group(ten, {0: last + 1}))
        assert not sensor.poke(context)
        self.allow(broker, ten, ACLOperation.READ)
        wait_until(lambda: sensor.poke(context), "alice may read")

    def test_new_data_is_there_where_a_topic_with_less_of_it_may_be_read(
        self, broker: Broker, ten: str, topic: MakeTopic, produce: Produce, alice: OffsetsClient
    ) -> None:
        less = topic()
        produce(less, 0, [(None, None, b"x")])
        self.allow(broker, less, ACLOperation.DESCRIBE)
        condition = NewData((ten, less), FixedOffsets("nothing"))
        wait_until(lambda: len(alice.topics([less]).ok()), "alice may describe it")
        with pytest.raises(OffsetsError, match=f"offset 0 of {ten}-0: TOPIC_AUTHORIZATION_FAILED"):
            condition.check(alice)
        self.allow(broker, less, ACLOperation.READ)
        wait_until(lambda: not len(alice.first_records([ReadPosition(less, 0, 0)]).errors()), "alice may read it")
        assert condition.check(alice).done

    def test_an_age_that_cannot_be_told_is_an_error(
        self, ten: str, group: MakeGroup, alice: OffsetsClient, context: Context
    ) -> None:
        condition = self.sensor(group(ten, {0: 9}), max_age=timedelta(days=999)).condition(context)
        with pytest.raises(OffsetsError, match=f"{ten}-0: TOPIC_AUTHORIZATION_FAILED"):
            condition.check(alice)

    def test_who_has_caught_up_by_arithmetic_passes(
        self, ten: str, group: MakeGroup, alice: OffsetsClient, context: Context
    ) -> None:
        assert self.sensor(group(ten, {0: 10}), max_age=0).poke(context)
