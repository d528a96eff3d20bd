"""Completeness on a real broker: what shows that a moment has passed, and what idle partitions mean."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, OffsetsError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.sensors.pipeline_sensors import KafkaWindowCompleteSensor
from airflow_kafka_offsets.triggers.watchers import KafkaWindowCompleteTrigger
from dev.kafka import Broker
from tests.integration.airflow.conftest import FOR_EVER, T0, T0_MS, Context, at
from tests.integration.airflow.waits.waits import INTERVAL_S, triggering, watch
from tests.integration.client.cases.workload import send, transactional_producer
from tests.integration.conftest import MakeTopic, Produce
from tests.patience import wait_until

Look = Callable[..., Progress]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def look(client: OffsetsClient, context: Context) -> Look:
    """Check once whether a window of an hour is complete."""

    def check(
        topics: str | list[str], end: datetime | float, isolation_level: str = "read_committed", **arguments: Any
    ) -> Progress:
        pipeline = KafkaPipeline("loads", topics, isolation_level=isolation_level)
        instant = end if isinstance(end, datetime) else T0 + timedelta(seconds=end)
        start = (instant - timedelta(hours=1)).isoformat()
        sensor = KafkaWindowCompleteSensor(
            task_id="s", pipeline=pipeline, start=start, end=instant.isoformat(), **arguments
        )
        return sensor.condition(context).check(client)

    return check


@pytest.fixture
def half(topic: MakeTopic, produce: Produce) -> str:
    """Two partitions: one with a record at T0, an empty one."""
    name = topic(partitions=2, config=FOR_EVER)
    produce(name, 0, [(T0_MS, None, b"x")])
    return name


class TestEvidence:
    def test_is_a_record_at_or_after_the_end_on_every_partition(self, half: str, produce: Produce, look: Look) -> None:
        found = look(half, 0)
        assert not found.done
        assert (
            found.summary
            == f"{T0:%Y-%m-%dT%H:%M:%S}.000Z: 1 of 2 partitions have passed; no record that late on {half}-1"
        )
        produce(half, 1, [(T0_MS - 1, None, b"too old")])
        assert not look(half, 0).done
        produce(half, 1, [(T0_MS, None, b"x")])
        assert look(half, 0).result == {
            "instant": f"{T0:%Y-%m-%dT%H:%M:%S}.000Z",
            "partitions_passed": 2,
            "assumed_idle": [],
        }

    def test_may_come_before_an_older_record(self, ten: str, produce: Produce, look: Look) -> None:
        """E3: out of order."""
        produce(ten, 0, [(T0_MS - 5000, None, b"late")])
        assert look(ten, 9).done

    def test_is_wanted_from_every_topic(self, ten: str, half: str, look: Look) -> None:
        assert look([ten], 0).done
        assert not look([ten, half], 0).done

    def test_comes_later_by_the_allowed_lateness(self, ten: str, look: Look) -> None:
        """E7: the last record is nine seconds after T0."""
        assert look(ten, 5, allowed_lateness=4).done
        assert not look(ten, 5, allowed_lateness=timedelta(seconds=5)).done

    def test_is_wanted_from_partitions_that_are_added(
        self, ten: str, admin: KafkaAdminClient, produce: Produce, look: Look
    ) -> None:
        """E23"""
        assert look(ten, 5).done
        admin.create_partitions({ten: 2})
        wait_until(lambda: not look(ten, 5).done, "the new partition is known")
        produce(ten, 1, [(T0_MS + 5000, None, b"x")])
        assert look(ten, 5).result["partitions_passed"] == 2

    def test_of_an_unknown_topic_is_an_error(self, ten: str, look: Look) -> None:
        """E25"""
        with pytest.raises(OffsetsError, match="no-such-topic: UNKNOWN_TOPIC_OR_PARTITION"):
            look([ten, "no-such-topic"], 0)


class TestIdlePartition:
    """Each policy."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def test_is_waited_for_by_default_however_long_ago_the_end_is(self, half: str, look: Look) -> None:
        assert not look(half, T0 - timedelta(days=300)).done

    def test_is_assumed_complete_after_a_while(self, half: str, produce: Produce, look: Look) -> None:
        """E8"""
        produce(half, 0, [(None, None, b"x")])
        end = self.now() - timedelta(minutes=10)
        assert not look(half, end, idle="assume_after", idle_after=timedelta(minutes=30)).done
        found = look(half, end, idle="assume_after", idle_after=300)
        assert (found.done, found.result["partitions_passed"]) == (True, 1)
        assert found.result["assumed_idle"] == [f"{half}-1"]
        assert found.summary.endswith(f"1 of 2 partitions have passed; assumed idle: {half}-1")

    def test_is_not_assumed_complete_before_the_lateness_is_over_too(self, half: str, look: Look) -> None:
        """E7"""
        end, lateness = self.now() - timedelta(minutes=10), timedelta(minutes=8)
        assert not look(half, end, idle="assume_after", idle_after=300, allowed_lateness=lateness).done
        assert look(half, end, idle="assume_after", idle_after=MINUTE, allowed_lateness=lateness).done

    def test_needs_a_sign_of_life_on_another_partition_of_its_topic(
        self, ten: str, half: str, produce: Produce, look: Look
    ) -> None:
        """A record so much later than the end, on a partition of the same topic and not of another."""
        options = {"idle": "require_heartbeat", "idle_after": MINUTE}
        produce(ten, 0, [(T0_MS + 90_000, None, b"x")])
        assert not look([half, ten], 0, **options).done
        produce(half, 0, [(T0_MS + 59_999, None, b"not late enough")])
        assert not look([half, ten], 0, **options).done
        produce(half, 0, [(T0_MS + 60_000, None, b"x")])
        found = look([half, ten], 0, **options)
        assert (found.done, found.result["assumed_idle"]) == (True, [f"{half}-1"])

    def test_fails_the_task_after_a_while(self, half: str, produce: Produce, look: Look) -> None:
        produce(half, 0, [(None, None, b"x")])
        end = self.now() - timedelta(minutes=10)
        assert not look(half, end, idle="fail", idle_after=timedelta(minutes=30)).done
        with pytest.raises(ConditionFailedError, match=rf"on {half}-1, 10 minutes later \(idle='fail'\)"):
            look(half, end, idle="fail", idle_after=300)


class TestLogAppendTime:
    def test_passes_by_the_brokers_clock_a_minute_after_the_end(self, topic: MakeTopic, look: Look) -> None:
        """E6: an empty log is as good as one with records; where producers stamp records it isn't."""
        brokers_time = topic(config={"message.timestamp.type": "LogAppendTime"})
        producers_time = topic(config={"message.timestamp.type": "CreateTime"})
        now = datetime.now(UTC)
        assert look(brokers_time, now - 2 * MINUTE).done
        assert not look(brokers_time, now).done, "clocks may differ by a minute"
        assert not look(brokers_time, now - 2 * MINUTE, allowed_lateness=2 * MINUTE).done
        assert not look(producers_time, now - 2 * MINUTE).done


class TestTransactions:
    def test_one_that_is_open_across_the_end_is_waited_for_and_named_with_its_producer(
        self, broker: Broker, ten: str, client: OffsetsClient, produce: Produce, look: Look
    ) -> None:
        """E13: a record at the end stands behind it, and what stands before it isn't decided."""
        with transactional_producer(broker) as producer:
            send(producer, ten, timestamps=[T0_MS + 9500])
            produce(ten, 0, [(T0_MS + 20_000, None, b"x")])
            (found,) = client.producers([TopicPartition(ten, 0)]).raise_for_errors()
            (held,) = found.open_transactions
            progress = look(ten, 20)
            assert not progress.done
            assert progress.summary.endswith(
                f"not decided yet: {ten}-0 from offset 10 on, by the open transaction of producer {held.producer_id} "
                f"(epoch {held.producer_epoch})"
            )
            assert look(ten, 9).done, "what stands before it is decided"
            assert look(ten, 20, isolation_level="read_uncommitted").done
            producer.commit_transaction()
            wait_until(lambda: look(ten, 20).done, "the transaction is decided")

    def test_one_that_is_open_is_no_idle_partition(self, broker: Broker, half: str, look: Look) -> None:
        """E8, E13: whatever idle partitions are assumed to be."""
        with transactional_producer(broker) as producer:
            send(producer, half, 1, timestamps=[T0_MS - 1000])
            assert not look(half, 0, idle="assume_after", idle_after=0).done
            assert look(half, 0, idle="assume_after", idle_after=0, isolation_level="read_uncommitted").done
            producer.abort_transaction()
            wait_until(lambda: look(half, 0, idle="assume_after", idle_after=0).done, "nothing is undecided")

    def test_a_marker_that_matches_the_look_up_is_no_evidence(
        self, broker: Broker, ten: str, produce: Produce, look: Look
    ) -> None:
        """E41: it bears the broker's time; the records of its transaction are old."""
        with transactional_producer(broker) as producer:
            send(producer, ten, timestamps=[T0_MS + 9500])
            producer.commit_transaction()
        wait_until(lambda: "no record that late" in look(ten, 20).summary, "the transaction is decided")
        for level in ("read_committed", "read_uncommitted"):
            assert not look(ten, 20, isolation_level=level).done
        produce(ten, 0, [(T0_MS + 19_999, None, b"old record behind the marker")])
        assert not look(ten, 20).done
        produce(ten, 0, [(T0_MS + 20_000, None, b"x")])
        assert look(ten, 20).done

    def test_a_marker_is_no_sign_of_life_for_idle_partitions(self, broker: Broker, half: str, look: Look) -> None:
        """E8, E41: an old record was written in a transaction just now; nobody has written one late enough."""
        options = {"idle": "require_heartbeat", "idle_after": MINUTE}
        assert not look(half, 0, **options).done
        with transactional_producer(broker) as producer:
            send(producer, half, timestamps=[T0_MS])
            producer.commit_transaction()
        wait_until(lambda: "not decided" not in look(half, 0, **options).summary, "the transaction is decided")
        assert not look(half, 0, **options).done

    def test_an_aborted_record_is_evidence_for_those_alone_who_read_it(
        self, broker: Broker, ten: str, look: Look
    ) -> None:
        """E12"""
        with transactional_producer(broker) as producer:
            send(producer, ten, timestamps=[T0_MS + 20_000])
            producer.abort_transaction()
        wait_until(lambda: "no record that late" in look(ten, 20).summary, "the transaction is decided")
        assert look(ten, 20, isolation_level="read_uncommitted").done


class TestWindowEnd:
    def test_that_lies_ahead_is_waited_for_without_asking_anything_more(self, look: Look) -> None:
        """E36"""
        end = datetime.now(UTC) + timedelta(hours=1)
        assert "nothing to look for before" in look("whatever", end).summary
        ended = end - timedelta(hours=2)
        assert "nothing to look for before" in look("whatever", ended, allowed_lateness=timedelta(hours=2)).summary

    def test_that_is_naive_is_refused(self, ten: str, client: OffsetsClient, context: Context) -> None:
        """E35"""
        sensor = KafkaWindowCompleteSensor(task_id="s", pipeline=KafkaPipeline("loads", ten))
        sensor.start, sensor.end = at(0), "2026-11-21T06:00"  # as templates leave them
        with pytest.raises(ConfigurationError, match="no time zone"):
            sensor.condition(context)


def test_a_watcher_fires_for_each_window_in_its_turn(topic: MakeTopic, produce: Produce) -> None:
    name = topic()
    with triggering() as triggerer:
        number = watch(triggerer, KafkaWindowCompleteTrigger(topics=name, window=1, poll_interval_s=INTERVAL_S))

        def have_passed(windows: int) -> bool:
            produce(name, 0, [(None, None, b"x")])  # of now
            return len(triggerer.events(number)) >= windows

        wait_until(lambda: have_passed(2), "two windows are complete")
        first, second = triggerer.events(number)[:2]
    assert first["end"] == second["start"]
    assert (first["partitions_passed"], first["assumed_idle"]) == (1, [])
