"""Where a window is read from: the cluster and the topics that it was resolved on, or nothing is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import AuthenticationError, KafkaOffsetsError, TopicChangedError, UncheckedSourceError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import Attempt
from dev.kafka import Broker, BrokerSettings
from tests.integration.client.cases.workload import connected_client, new_topic, produce, wait_until_known
from tests.integration.conftest import Produce
from tests.integration.spark.conftest import MakeFlights, OpenWindow, Pin, flight_records
from tests.integration.spark.publishing import driver_of, ledger_of, load
from tests.unit.spark.manifests import manifest_of

RECORDS = 8
Recreate = Callable[[str, int], None]
Resolve = Callable[..., Manifest]


@pytest.fixture
def topic(make_flights: MakeFlights) -> str:
    return make_flights({0: RECORDS})


@pytest.fixture
def recreate(admin: KafkaAdminClient, broker: Broker, produce: Produce) -> Recreate:
    """Delete a topic, and make one of its name with other records."""

    def again(topic: str, records: int) -> None:
        admin.delete_topics([topic])
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        wait_until_known(broker, topic, 1)
        produce(topic, 0, flight_records(records))

    return again


@pytest.fixture
def resolved(broker: Broker) -> Resolve:
    return lambda topic, end=RECORDS: resolve(broker.bootstrap_servers, topic, end)


def resolve(bootstrap_servers: str, topic: str, end_offset: int) -> Manifest:
    """The window of a topic's first records, with the cluster's facts of now, as the ledger would have them."""
    with connected_client(bootstrap_servers) as client:
        facts, partition = client.topic_facts([topic]), TopicPartition(topic, 0)
        extent = client.log_extents([partition]).lookup(*partition)
        assert extent is not None
        made = manifest_of([(topic, 0, 0, end_offset)])
        ranges = tuple(replace(each, end_leader_epoch=extent.leader_epoch) for each in made.ranges)
        return replace(made, cluster_id=client.cluster_id(), topics=facts, ranges=ranges)


def refused(window: PinnedWindow, table: str, kind: type[KafkaOffsetsError], because: str) -> None:
    """The window is neither published nor proved, whoever asks."""
    with pytest.raises(kind, match=because):
        load(window, table)
    assert counted_nothing(window)


def counted_nothing(window: PinnedWindow) -> bool:
    """Whether no driver of the window's attempt has left a result."""
    return not ledger_of(window).attempt(window.manifest.window, driver_of(window).number).results()


class TestOrdinaryLoads:
    def test_the_result_says_what_kafka_said_after_the_read(
        self, topic: str, resolved: Resolve, open_window: OpenWindow, table: str
    ) -> None:
        manifest = resolved(topic)
        result = load(open_window(manifest), table).result
        assert result.rows_written == RECORDS
        assert result.source is not None
        assert result.source.cluster_id == manifest.cluster_id
        assert result.source.topic_ids == {topic: manifest.topics[topic].topic_id}

    def test_kafka_is_not_asked_for_a_window_without_offsets(
        self, topic: str, resolved: Resolve, pin: Pin, spark: SparkSession, table: str
    ) -> None:
        told = replace(pin(resolved(topic, 0)), kafka={})
        assert load(PinnedWindow.open(spark, told), table).rows == 0


class TestRecreatedTopics:
    @pytest.mark.parametrize("records", [RECORDS, 3 * RECORDS, 2], ids=["as many records", "more", "fewer"])
    def test_before_the_read(
        self,
        topic: str,
        resolved: Resolve,
        recreate: Recreate,
        open_window: OpenWindow,
        table: str,
        records: int,
    ) -> None:
        """S16: the offsets are there again, and hold other records."""
        window = open_window(resolved(topic))
        recreate(topic, records)
        refused(window, table, TopicChangedError, rf"topic {topic} was re-created .* Nothing was read")
        assert not Path(table.removeprefix("file://")).exists()

    def test_while_the_window_is_read_or_written(
        self,
        topic: str,
        resolved: Resolve,
        recreate: Recreate,
        open_window: OpenWindow,
        table: str,
    ) -> None:
        """After the first question, before the read: the second question is what counts. The next attempt trusts none
        of its rows."""

        class Late(FileSink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                recreate(topic, 2 * RECORDS)
                return super().replace(rows, attempt)

        window = open_window(resolved(topic))
        with pytest.raises(TopicChangedError, match=rf"{topic} was re-created .* isn't published"):
            window.write(window.read(), Late(table))
        assert counted_nothing(window)

    def test_a_topic_that_is_gone(
        self,
        topic: str,
        resolved: Resolve,
        admin: KafkaAdminClient,
        open_window: OpenWindow,
        table: str,
    ) -> None:
        window = open_window(resolved(topic))
        admin.delete_topics([topic])
        refused(window, table, TopicChangedError, rf"{topic}.* no longer exists")


@pytest.mark.nightly("brokers of its own; airflow/test_resolve.py refuses another cluster")
class TestOtherClusters:
    def test_another_cluster_behind_the_same_address(self, spark: SparkSession, pin: Pin, table: str) -> None:
        """A cluster that was set up anew, or staging under production's name: topic and offsets are there."""
        with Broker(BrokerSettings(name="first")) as first:
            topic = new_topic(first)
            produce(first, topic, timestamps=range(1000, 1000 + RECORDS))
            manifest = resolve(first.bootstrap_servers, topic, RECORDS)
        window = PinnedWindow.open(spark, told_at(first, pin(manifest)))
        other = replace(first.node, cluster_id=Broker().node.cluster_id)
        with Broker(BrokerSettings(name="second"), other) as second:
            assert second.bootstrap_servers == first.bootstrap_servers
            new_topic(second, name=topic)
            produce(second, topic, timestamps=range(1000, 1000 + RECORDS))
            refused(
                window,
                table,
                TopicChangedError,
                f"belongs to cluster {first.node.cluster_id}, but this is {other.cluster_id}",
            )

    def test_the_options_of_the_read_lead_elsewhere(
        self, topic: str, resolved: Resolve, open_window: OpenWindow, table: str
    ) -> None:
        """What is asked is what is read."""
        with Broker(BrokerSettings(name="elsewhere")) as other:
            new_topic(other, name=topic)
            produce(other, topic, timestamps=range(1000, 1000 + RECORDS))
            window = open_window(resolved(topic))
            rows = window.read(**{"kafka.bootstrap.servers": other.bootstrap_servers})
            with pytest.raises(TopicChangedError, match="belongs to cluster"):
                window.write(rows, FileSink(table))


def told_at(broker: Broker, told: RunConf) -> RunConf:
    return replace(told, kafka={"kafka.bootstrap.servers": broker.bootstrap_servers})


class TestWhenKafkaCannotBeAsked:
    def test_nothing_is_published_and_a_retry_may_help(
        self, topic: str, resolved: Resolve, open_window: OpenWindow, broker: Broker, table: str
    ) -> None:
        """The broker stops answering once all is written."""

        class Gone(FileSink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                written = super().replace(rows, attempt)
                broker.proxy.refuse()
                broker.proxy.cut()
                return written

        window = open_window(resolved(topic))
        options = {"bootstrap.servers": broker.proxied_bootstrap_servers, "default.api.timeout.ms": "3000"}
        options |= {"request.timeout.ms": "2000"}
        rows = window.read(**{f"kafka.{name}": value for name, value in options.items()})
        try:
            with pytest.raises(UncheckedSourceError, match="nothing is published") as failed:
                window.write(rows, Gone(table))
        finally:
            broker.proxy.heal()
        assert failed.value.retriable
        assert counted_nothing(window)

    def test_refused_credentials_are_named_and_not_shown(
        self, topic: str, resolved: Resolve, open_window: OpenWindow, broker: Broker, table: str
    ) -> None:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = {
            "bootstrap.servers": broker.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="alice" password="hunter2";',
        }
        window = open_window(resolved(topic))
        rows = window.read(**{f"kafka.{name}": value for name, value in login.items()})
        with pytest.raises(AuthenticationError, match="Check the credentials") as failed:
            window.write(rows, FileSink(table))
        assert "hunter2" not in str(failed.value)
