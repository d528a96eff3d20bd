"""Transactions at the edges of windows: open, committed, aborted, and left behind by a producer that is gone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, KafkaProducer

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.pipelines.loads import returned
from airflow_kafka_offsets.pipelines.log_changes import lost_of_each
from dev.kafka import Broker
from tests.integration.airflow.conftest import T0_MS, Resolve, at, fails_with
from tests.integration.airflow.windows.conftest import Said, evidence, manifest_of, ranges, stamped
from tests.integration.client.cases.test_transactions import DYING_PRODUCER
from tests.integration.client.cases.workload import new_name, send, transactional_producer
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.kafka_clients import connect
from tests.patience import wait_until

Settle = Callable[[], None]


@pytest.fixture
def three(topic: MakeTopic, produce: Produce) -> str:
    """A topic with three records that belong to no transaction, of T0 and the two seconds after it."""
    name = topic()
    produce(name, 0, stamped(0, 1, 2))
    return name


@pytest.fixture
def settle(client: OffsetsClient, three: str) -> Settle:
    """Wait for the marker, which is written after the producer has heard that its transaction is decided."""

    def decided() -> bool:
        (found,) = client.producers([TopicPartition(three, 0)]).raise_for_errors()
        return not found.open_transactions

    return lambda: wait_until(decided, "no transaction is open")


def holder(client: OffsetsClient, topic: str) -> str:
    """Who holds the log's end back, as the leader says."""
    (found,) = client.producers([TopicPartition(topic, 0)]).raise_for_errors()
    (producer,) = found.open_transactions
    start = producer.transaction_start_offset
    return f"{topic}-0 from offset {start} on, by the open transaction of producer {producer.producer_id}"


class TestOpen:
    def test_the_window_ends_before_it_and_the_next_one_begins_with_it(
        self,
        broker: Broker,
        three: str,
        resolve: Resolve,
        client: OffsetsClient,
        settle: Settle,
        said: Said,
    ) -> None:
        """S9, S10, E13, E14: its records are in one window, once; the remark names the producer."""
        with transactional_producer(broker) as producer:
            send(producer, three, timestamps=(T0_MS + 3000, T0_MS + 4000))
            held = resolve(three, at(0), at(10))
            assert (ranges(held), evidence(held)) == ([(0, 0, 3)], [("matched", "log_end")])
            assert f"The window ends where an open transaction begins: {holder(client, three)}" in said()
            assert returned(lost_of_each(client, {0: manifest_of(held)})[0]) == ()
            producer.commit_transaction()
        settle()
        following = resolve(three, at(10), at(20))
        assert (ranges(following), evidence(following)) == ([(0, 3, 5)], [("log_end", "matched_marker")])

    def test_a_pipeline_of_all_records_takes_its_records_decided_or_not(
        self, broker: Broker, three: str, resolve: Resolve, settle: Settle
    ) -> None:
        """S11, E15: those that are aborted later too; a rerun reads the same offsets with the same level."""
        with transactional_producer(broker) as producer:
            send(producer, three, timestamps=(T0_MS + 3000, T0_MS + 4000))
            window = resolve(three, at(0), at(10), isolation_level="read_uncommitted")
            producer.abort_transaction()
        settle()
        assert ranges(window) == [(0, 0, 5)]
        assert manifest_of(window).isolation_level is IsolationLevel.READ_UNCOMMITTED
        assert resolve(three, at(0), at(10), isolation_level="read_uncommitted") == window
        with pytest.raises(AirflowFailException, match="use another pipeline name") as failed:
            resolve(three, at(10), at(20))
        assert fails_with(ConfigurationError, failed)


class TestHanging:
    def test_windows_end_before_it_and_name_its_producer_until_somebody_ends_it(
        self,
        broker: Broker,
        admin: KafkaAdminClient,
        three: str,
        produce: Produce,
        resolve: Resolve,
        settle: Settle,
        said: Said,
    ) -> None:
        """S10, E13"""
        dead = new_name("dead")
        subprocess.run([sys.executable, "-c", DYING_PRODUCER, broker.bootstrap_servers, dead, three], check=True)
        produce(three, 0, stamped(12))
        producer_id = admin.describe_transactions([dead])[dead].producer_id
        windows = [resolve(three, at(start), at(start + 10)) for start in (0, 10)]
        assert [ranges(each) for each in windows] == [[(0, 0, 3)], [(0, 3, 3)]]
        named = f"by the open transaction of producer {producer_id}"
        assert said().count(named) == 2
        with closing(connect(KafkaProducer, bootstrap_servers=broker.bootstrap_servers, transactional_id=dead)) as heir:
            heir.init_transactions()
        settle()
        time.sleep(0.002)
        freed = resolve(three, at(20), iso_instant(now_ms()))
        assert ranges(freed) == [(0, 3, 7)], "two aborted records, the one behind them, and the marker"
        assert named not in said()


class TestAborted:
    def test_its_records_match_as_any_and_its_marker_hides_what_follows(
        self, broker: Broker, three: str, produce: Produce, resolve: Resolve, settle: Settle, said: Said
    ) -> None:
        """E12, E41, S3: windows tile around the aborted offsets; the record of second 6 is in the window of now."""
        with transactional_producer(broker) as producer:
            send(producer, three, timestamps=(T0_MS + 3000, T0_MS + 4000))
            producer.abort_transaction()
        settle()
        produce(three, 0, stamped(6))
        time.sleep(0.002)
        edges = [at(0), at(3), at(5), at(10), iso_instant(now_ms())]
        windows = [resolve(three, start, end) for start, end in pairwise(edges)]
        assert [ranges(each)[0][1:] for each in windows] == [(0, 3), (3, 5), (5, 5), (5, 7)]
        assert evidence(windows[1]) == [("matched_marker", "matched_marker")]
        assert f"transaction markers were matched on {three}-0 at 5" in said()


class TestCommitted:
    def test_its_marker_carries_the_brokers_time_and_later_records_may_be_older(
        self, broker: Broker, three: str, produce: Produce, resolve: Resolve, settle: Settle, said: Said
    ) -> None:
        """E41, E12: a look-up for any instant after the records answers the marker; no record is skipped or doubled."""
        with transactional_producer(broker) as producer:
            send(producer, three, timestamps=[T0_MS + second * 1000 for second in range(3, 8)])
            producer.commit_transaction()
        settle()
        first = resolve(three, at(0), at(5))
        assert evidence(first) == [("matched", "matched")], "a record of the transaction is one as any"
        second = resolve(three, at(5), at(20))
        assert (ranges(second), evidence(second)) == ([(0, 5, 8)], [("matched", "matched_marker")])
        assert f"transaction markers were matched on {three}-0 at 8" in said()
        produce(three, 0, stamped(12))
        time.sleep(0.002)
        assert ranges(resolve(three, at(20), iso_instant(now_ms()))) == [(0, 8, 10)], "the marker, and second 12"

    def test_its_marker_is_no_older_record_on_a_log_append_time_topic(
        self, broker: Broker, topic: MakeTopic, resolve: Resolve
    ) -> None:
        """E41, E6: markers and records go by one clock there."""
        name = topic(config={"message.timestamp.type": "LogAppendTime"})
        with transactional_producer(broker) as producer:
            send(producer, name)
            producer.commit_transaction()
        assert evidence(resolve(name, at(0), at(5))) == [("matched", "matched")]
