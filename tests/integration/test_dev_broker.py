"""The broker that the other integration tests rely on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaTimeoutError

from dev.kafka import Broker, BrokerSettings, ToolError
from tests.integration.conftest import USERS, MakeTopic, Produce
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S

GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


class TestBroker:
    def test_a_produced_record_is_listed_by_kafkas_own_tool(
        self, broker: Broker, topic: MakeTopic, produce: Produce
    ) -> None:
        name = topic(partitions=2)
        assert produce(name, 1, [(1_000, b"key", b"value"), (2_000, None, b"other")]) == [0, 1]
        assert broker.run_tool(GET_OFFSETS, "--topic", name).split() == [f"{name}:0:0", f"{name}:1:2"]

    def test_a_topic_keeps_its_config(self, topic: MakeTopic, broker: Broker) -> None:
        name = topic(config={"retention.ms": "60000"})
        described = broker.run_tool("org.apache.kafka.tools.TopicCommand", "--describe", "--topic", name)
        assert "retention.ms=60000" in described

    def test_a_failing_tool_says_why(self, broker: Broker) -> None:
        with pytest.raises(ToolError, match="Could not match"):
            broker.run_tool(GET_OFFSETS, "--topic", "no-such-topic")

    def test_without_users_there_is_no_sasl_listener(self) -> None:
        with pytest.raises(LookupError, match="some users"):
            _ = Broker().sasl_bootstrap_servers


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    with Broker(BrokerSettings(name="restarted")) as running:
        yield running


class TestRestart:
    @pytest.mark.nightly("a broker that starts twice; client/cases/test_failover.py relies on the same")
    def test_keeps_the_address_and_the_records(self, own_broker: Broker) -> None:
        address = own_broker.bootstrap_servers
        with closing(connect(KafkaAdminClient, bootstrap_servers=address)) as admin:
            admin.create_topics({"kept": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        with closing(connect(KafkaProducer, bootstrap_servers=address)) as producer:
            producer.send("kept", b"value").get(timeout=PATIENCE_S)
        own_broker.restart()
        assert own_broker.bootstrap_servers == address
        assert own_broker.run_tool(GET_OFFSETS, "--topic", "kept").split() == ["kept:0:1"]

    def test_closing_removes_the_data_and_leaves_the_log(self, own_broker: Broker) -> None:
        own_broker.close()
        assert not own_broker.data_folder.exists()
        assert own_broker.log_file.exists()


class TestStart:
    def test_a_broker_that_ends_at_once_shows_the_end_of_its_log(self) -> None:
        settings = BrokerSettings(name="broken", properties={"log.segment.bytes": "many"})
        with pytest.raises(RuntimeError, match=r"log\.segment\.bytes"):
            Broker(settings).start()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
class TestSaslListener:
    def test_lets_a_user_with_the_right_password_in(self, broker: Broker, mechanism: str) -> None:
        with closing(_log_in(broker, mechanism, USERS["alice"])) as admin:
            assert len(admin.describe_cluster()["brokers"]) == 1

    def test_refuses_a_wrong_password(self, broker: Broker, mechanism: str) -> None:
        # kafka-python keeps trying and tells the reason only in its log.
        with pytest.raises(KafkaTimeoutError, match="Unable to bootstrap"):
            _log_in(broker, mechanism, "wrong")


def _log_in(broker: Broker, mechanism: str, password: str) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=broker.sasl_bootstrap_servers,
        bootstrap_timeout_ms=2_000,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password=password,
    )
