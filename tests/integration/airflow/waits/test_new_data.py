"""New data on a real broker: since a snapshot or the last published window, and what is no data."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from kafka import KafkaAdminClient, TopicPartition as KafkaPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.errors import ConfigurationError, LogTruncatedError, TopicChangedError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.operators.resolve import KafkaOffsetSnapshotOperator
from airflow_kafka_offsets.sensors.pipeline_sensors import KafkaNewDataSensor
from airflow_kafka_offsets.triggers.watchers import KafkaNewDataTrigger
from dev.kafka import Broker
from tests.integration.airflow.conftest import T0_MS, Context, Publish, Resolve, Run, at, fails_with, recreate
from tests.integration.airflow.waits.waits import INTERVAL_S, event_of, triggering, watch
from tests.integration.airflow.windows.conftest import Increment, increment
from tests.integration.client.cases.workload import send, transactional_producer
from tests.integration.conftest import MakeTopic, Produce, Record
from tests.patience import wait_until

Snapshot = Callable[..., dict[str, Any]]
__all__ = ["increment"]  # a fixture, that pytest finds here
Look = Callable[..., Progress]
ONE: list[Record] = [(T0_MS + 20_000, None, b"x")]


@pytest.fixture
def snapshot(context: Context) -> Snapshot:
    """Snapshot where the logs of topics end; the XCom."""

    def take(*topics: str) -> dict[str, Any]:
        operator = KafkaOffsetSnapshotOperator(task_id="snapshot", pipeline=KafkaPipeline("loads", list(topics)))
        return operator.execute(context)

    return take


@pytest.fixture
def look(client: OffsetsClient, context: Context) -> Look:
    """Check once what a sensor with these arguments waits for."""

    def check(topics: str | list[str], isolation_level: str = "read_committed", **arguments: Any) -> Progress:
        pipeline = KafkaPipeline("loads", topics, isolation_level=isolation_level)
        return KafkaNewDataSensor(task_id="s", pipeline=pipeline, **arguments).condition(context).check(client)

    return check


class TestSinceSnapshot:
    def test_one_record_is_enough(self, ten: str, snapshot: Snapshot, produce: Produce, look: Look) -> None:
        since = snapshot(ten)
        found = look(ten, since=since)
        assert not found.done
        assert found.summary.startswith(f"0 new of 1; nothing new: {ten}; since ")
        produce(ten, 0, ONE)
        found = look(ten, since=since)
        assert (found.done, found.summary) == (True, f"1 new of 1 ({ten} 1); since {found.result['since']}")
        assert found.result.pop("since").startswith("the snapshot as of latest at 20")
        assert found.result == {"new": {ten: 1}, "ledger": since["ledger"]}

    def test_so_many_records_are_counted_over_all_topics_and_partitions(
        self, ten: str, topic: MakeTopic, snapshot: Snapshot, produce: Produce, look: Look
    ) -> None:
        other = topic(partitions=2)
        since = snapshot(ten, other)
        for name, partition in ((ten, 0), (other, 0), (other, 1)):
            produce(name, partition, ONE)
        assert not look([ten, other], since=since, min_records=4).done
        found = look([ten, other], since=since, min_records=3)
        assert (found.done, found.result["new"]) == (True, {ten: 1, other: 2})

    def test_fewer_are_enough_once_the_first_of_them_is_so_old(
        self, ten: str, snapshot: Snapshot, produce: Produce, look: Look
    ) -> None:
        since = snapshot(ten)
        assert not look(ten, since=since, min_records=5, max_age=600).done
        produce(ten, 0, [(now_ms() - 60_000, None, b"x"), (now_ms(), None, b"x")])
        young = look(ten, since=since, min_records=5, max_age=600)
        assert not young.done
        assert 60 <= young.result["age_s"] < 500
        assert "2 new of 5" in young.summary
        assert "; the first of them is " in young.summary
        old = look(ten, since=since, min_records=5, max_age=60)
        assert (old.done, old.result["new"]) == (True, {ten: 2})
        assert look(ten, since=since, min_records=2, max_age=600).result["age_s"] is None

    @pytest.mark.parametrize(
        ("ahead_ms", "why"),
        [(10 * 86_400_000, "its timestamp lies in the future"), (-(10**16), "it has no timestamp")],
        ids=["future", "none"],
    )
    def test_whose_age_cannot_be_told_are_old_enough(
        self, topic: MakeTopic, produce: Produce, snapshot: Snapshot, look: Look, ahead_ms: int, why: str
    ) -> None:
        """E5: firing early only makes a smaller load."""
        name = topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)})
        since = snapshot(name)
        produce(name, 0, [(now_ms() + ahead_ms, None, b"x"), *ONE])
        found = look(name, since=since, min_records=5, max_age=timedelta(days=365))
        assert (found.done, found.result["age_s"]) == (True, None)
        assert f"the age of the new records is unknown on {name}-0 ({why}" in found.summary
        assert not look(name, since=since, min_records=5).done, "without a limit, only their number counts"

    def test_markers_do_not_age(self, broker: Broker, topic: MakeTopic, snapshot: Snapshot, look: Look) -> None:
        """E12: what ends an aborted transaction is no record, however long ago it came."""
        name = topic()
        since = snapshot(name)
        with transactional_producer(broker) as producer:
            send(producer, name)
        found = look(name, since=since, min_records=5, max_age=0)
        assert (found.done, found.result["age_s"]) == (False, None)

    def test_of_a_windows_end(self, ten: str, resolve: Resolve, look: Look) -> None:
        assert look(ten, since=resolve(ten, at(0), at(4))).result["new"] == {ten: 6}


class TestSinceTheLastPublishedWindow:
    def test_everything_in_the_logs_is_new_while_nothing_is_published(
        self, ten: str, resolve: Resolve, look: Look
    ) -> None:
        resolve(ten, at(0), at(4))
        found = look(ten)
        assert (found.done, found.result["new"]) == (True, {ten: 10})
        assert found.result["since"] == "the log starts, as nothing is published"

    @pytest.mark.parametrize(("since", "new"), [("latest", 1), (at(8), 3), ("earliest", 11)])
    def test_until_then_what_the_first_increment_starts_from_is_new(
        self, ten: str, increment: Increment, produce: Produce, look: Look, since: str, new: int
    ) -> None:
        """Also while its load fails: the sensor counts what increments load, from the same offset on."""
        increment(ten, "one", since=since)
        produce(ten, 0, ONE)
        found = look(ten)
        assert (found.done, found.result["new"]) == (True, {ten: new})

    def test_what_lies_behind_its_end_is_new_whatever_else_is_resolved(
        self, ten: str, resolve: Resolve, publish: Publish, produce: Produce, look: Look
    ) -> None:
        for start, end in ((0, 2), (2, 6)):
            publish(resolve(ten, at(start), at(end)))
        resolve(ten, at(6), at(9))
        found = look(ten)
        assert (found.done, found.result["new"]) == (True, {ten: 4})
        assert found.result["since"].startswith("the end of window ")

    def test_nothing_is_new_when_all_is_published(
        self, ten: str, resolve: Resolve, publish: Publish, produce: Produce, look: Look
    ) -> None:
        publish(resolve(ten, at(0), at(10)))
        assert not look(ten).done
        produce(ten, 0, ONE)
        assert look(ten).done

    def test_what_is_published_while_it_waits_is_no_new_data(
        self, ten: str, resolve: Resolve, publish: Publish, produce: Produce, context: Context
    ) -> None:
        publish(resolve(ten, at(0), at(4)))
        sensor = KafkaNewDataSensor(task_id="s", pipeline=KafkaPipeline("loads", ten), min_records=7)
        assert not sensor.poke(context)
        publish(resolve(ten, at(4), at(10)))
        produce(ten, 0, ONE)
        assert not sensor.poke(context)

    @pytest.fixture
    def broken(self, ledger: Ledger, ledger_root: Path) -> Path:
        """What stands in the place of the ledger's folder, so that its store fails."""
        folder = ledger_root / "loads"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_bytes(b"no folder")
        return folder

    @pytest.mark.parametrize("flags", [{}, {"never_fail": True}])
    def test_a_store_that_fails_is_waited_out(
        self, ten: str, broken: Path, context: Context, monkeypatch: pytest.MonkeyPatch, flags: dict[str, bool]
    ) -> None:
        """What to wait for is in the ledger. The store is well again at the second pause."""
        pauses, sleep = iter(range(2)), time.sleep

        def pause(seconds: float) -> None:
            if seconds != 7:
                sleep(seconds)
            elif next(pauses) == 1:
                broken.unlink()

        monkeypatch.setattr(time, "sleep", pause)
        sensor = KafkaNewDataSensor(task_id="s", pipeline=KafkaPipeline("loads", ten), poke_interval=7, **flags)
        assert sensor.execute(context)["new"] == {ten: 10}

    @pytest.mark.parametrize("flags", [{}, {"never_fail": True}])
    def test_a_deferrable_sensor_does_not_wait_on_the_worker_while_its_store_fails(
        self, ten: str, broken: Path, context: Context, flags: dict[str, bool]
    ) -> None:
        def sensor() -> KafkaNewDataSensor:
            return KafkaNewDataSensor(
                task_id="s", pipeline=KafkaPipeline("loads", ten), deferrable=True, poke_interval=0.1, **flags
            )

        with pytest.raises(TaskDeferred) as first:
            sensor().execute(context)
        event_of(first.value.trigger)
        with pytest.raises(TaskDeferred) as second:
            sensor().resume_execution(first.value.method_name, first.value.kwargs, context)
        assert second.value.timeout < first.value.timeout
        broken.unlink()
        method, kwargs = second.value.method_name, second.value.kwargs
        assert sensor().resume_execution(method, kwargs, context)["new"] == {ten: 10}

    @pytest.mark.parametrize("since", [{}, "snapshot 1"])
    def test_a_start_that_is_none_is_refused(self, ten: str, look: Look, since: Any) -> None:
        with pytest.raises(ConfigurationError, match="since= takes what"):
            look(ten, since=since)

    def test_topics_by_a_pattern_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="needs its topics by name"):
            KafkaNewDataSensor(task_id="s", pipeline=KafkaPipeline("loads", topic_pattern="t.*"))

    def test_of_a_topic_that_has_begun_anew_everything_is_new(
        self,
        ten: str,
        increment: Increment,
        publish: Publish,
        admin: KafkaAdminClient,
        produce: Produce,
        look: Look,
        run: Run,
    ) -> None:
        """S16: by a restart, which makes it a matter of the next window."""
        publish(increment(ten, "one"))
        recreate(admin, ten)
        produce(ten, 0, ONE * 2)
        with pytest.raises(TopicChangedError):
            look(ten)
        assert run("ledger", "restart", "loads")[0] == 0
        assert look(ten).result["new"] == {ten: 2}


class TestNoData:
    @pytest.mark.parametrize("ending", ["commit_transaction", "abort_transaction"])
    def test_markers_and_aborted_records_alone_are_none(
        self, broker: Broker, ten: str, client: OffsetsClient, produce: Produce, ending: str
    ) -> None:
        """E12: the marker of a committed transaction whose records were there before."""
        with transactional_producer(broker) as producer:
            last = send(producer, ten)[-1]
            getattr(producer, ending)()
        new_from = 10 if ending == "abort_transaction" else last + 1
        condition = NewData((ten,), FixedOffsets.of("before", [SeenOffset(ten, 0, new_from)]))
        wait_until(lambda: "transaction markers" in condition.check(client).summary, "the marker is there")
        assert not condition.check(client).done
        produce(ten, 0, ONE)
        assert condition.check(client).done

    def test_an_open_transaction_has_none_for_those_who_read_committed_records(
        self, broker: Broker, ten: str, snapshot: Snapshot, look: Look
    ) -> None:
        """E13"""
        since = snapshot(ten)
        with transactional_producer(broker) as producer:
            send(producer, ten)
            assert not look(ten, since=since).done
            assert look(ten, since=since, isolation_level="read_uncommitted").done
            producer.commit_transaction()
            wait_until(lambda: look(ten, since=since).done, "the record is visible")

    def test_deleted_records_are_not_new(
        self, ten: str, admin: KafkaAdminClient, snapshot: Snapshot, produce: Produce, look: Look
    ) -> None:
        """E9"""
        since = snapshot(ten)
        produce(ten, 0, ONE * 5)
        admin.delete_records({KafkaPartition(ten, 0): 13})
        assert look(ten, since=since).result["new"] == {ten: 2}
        admin.delete_records({KafkaPartition(ten, 0): 15})
        assert not look(ten, since=since).done


class TestTopicsThatChange:
    def test_a_new_partition_is_new_from_its_log_start(
        self, ten: str, admin: KafkaAdminClient, snapshot: Snapshot, produce: Produce, look: Look
    ) -> None:
        """E23"""
        since = snapshot(ten)
        admin.create_partitions({ten: 2})
        assert not look(ten, since=since).done
        produce(ten, 1, ONE * 2)
        assert look(ten, since=since).result["new"] == {ten: 2}

    def test_a_recreated_topic_fails(
        self, ten: str, admin: KafkaAdminClient, snapshot: Snapshot, produce: Produce, context: Context
    ) -> None:
        """E24: more records than there were before are no news."""
        since = snapshot(ten)
        recreate(admin, ten)
        produce(ten, 0, ONE * 15)
        with pytest.raises(AirflowFailException, match=f"Topic {ten} was re-created") as failed:
            KafkaNewDataSensor(task_id="s", pipeline=KafkaPipeline("loads", ten), since=since).execute(context)
        assert fails_with(TopicChangedError, failed)

    def test_a_log_that_ends_before_the_start_of_new_data_fails(self, ten: str, client: OffsetsClient) -> None:
        """E34"""
        since = FixedOffsets.of("before", [SeenOffset(ten, 0, 12)])
        with pytest.raises(LogTruncatedError, match=f"{ten}-0 now ends at 10"):
            NewData((ten,), since).check(client)


def test_a_watcher_fires_each_time_that_so_many_have_arrived(ten: str, produce: Produce) -> None:
    with triggering() as triggerer:
        number = watch(triggerer, KafkaNewDataTrigger(topics=ten, min_records=2, poll_interval_s=INTERVAL_S))
        for count in (1, 2):
            produce(ten, 0, ONE * 2)
            assert [each["new"] for each in triggerer.fire(number, count)] == [{ten: 2}] * count
