"""Connecting: what cannot be reached or may not be asked, said in one line and in time."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.lookups.instant_lookup import Survey
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import AuthenticationError, ClusterUnreachableError, ConfigurationError, InstantError
from airflow_kafka_offsets.offsets.answers.logs import LogEpoch, LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.kafka import Broker
from tests.integration.client.conftest import sasl_settings
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import commits_are
from tests.patience import GRACE_S, PATIENCE_S


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port that answers no connection attempt: its queue is full, so that the kernel drops further ones."""
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.fixture
def web_port() -> Iterator[int]:
    """A port that speaks another protocol."""

    def answer() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1024)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


ANSWERED_S = 6.0
"""A deadline before which an answer of some kind arrives, also on a busy machine."""


def ask(config: dict[str, object], timeout_s: float = 2.0) -> str:
    started = time.monotonic()
    try:
        with OffsetsClient(ClientSettings.from_config(config), timeout_s=timeout_s) as client:
            return client.cluster_id()
    finally:
        assert time.monotonic() - started < timeout_s + GRACE_S


class TestUnreachable:
    @pytest.fixture(autouse=True)
    def _in_one_line(self, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
        caplog.set_level(logging.INFO)
        yield
        assert caplog.messages == []

    def test_nobody_listens(self) -> None:
        with pytest.raises(ClusterUnreachableError, match=r"within 2 s: 127.0.0.1:1: connection refused. Check boots"):
            ask({"bootstrap.servers": "127.0.0.1:1"})

    @pytest.mark.parametrize("name", ["kafka.invalid", "kafka..example"])
    def test_a_name_that_does_not_resolve(self, name: str) -> None:
        with pytest.raises(ClusterUnreachableError, match=rf"{name}:9092: the name can't be resolved"):
            ask({"bootstrap.servers": f"{name}:9092"})

    def test_every_address_is_named(self) -> None:
        with pytest.raises(ClusterUnreachableError, match=r"(?=.*127.0.0.1:1: )(?=.*127.0.0.1:2: )"):
            ask({"bootstrap.servers": "127.0.0.1:1,127.0.0.1:2"})

    def test_a_broker_that_hangs(self, hung_port: int) -> None:
        with pytest.raises(ClusterUnreachableError, match=f"127.0.0.1:{hung_port} did not answer in time"):
            ask({"bootstrap.servers": f"127.0.0.1:{hung_port}"})

    def test_a_tls_handshake_that_hangs(self, hung_port: int) -> None:
        with pytest.raises(ClusterUnreachableError, match=f"127.0.0.1:{hung_port} did not answer in time"):
            ask({"bootstrap.servers": f"127.0.0.1:{hung_port}", "security.protocol": "SSL"})

    def test_a_port_that_speaks_another_protocol(self, web_port: int) -> None:
        with pytest.raises(ClusterUnreachableError, match=r"not in Kafka's protocol .* does security.protocol match"):
            ask({"bootstrap.servers": f"127.0.0.1:{web_port}"}, ANSWERED_S)

    def test_a_plain_connection_to_a_port_that_wants_a_login(self, broker: Broker) -> None:
        with pytest.raises(ClusterUnreachableError, match=r"closed the connection \(does security.protocol match"):
            ask({"bootstrap.servers": broker.sasl_bootstrap_servers}, ANSWERED_S)

    def test_a_tls_connection_to_a_plain_port(self, broker: Broker) -> None:
        with pytest.raises(ClusterUnreachableError, match="SSL"):
            ask({"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL"}, ANSWERED_S)


class TestSeveralAddresses:
    """Of one name: for example one of IPv6, which leads nowhere, and one of IPv4."""

    @pytest.mark.parametrize("holes", [1, 2])
    def test_one_that_does_not_answer_leaves_time_for_the_next(
        self, black_hole: int, holes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with ScriptedCluster({"a": [0]}) as cluster:
            named(monkeypatch, [black_hole] * holes + [cluster.brokers[0].port])
            client = cluster.client(timeout_s=4, **{"bootstrap.servers": "kafka.example:9092"})
            assert client.cluster_id() == "scripted"

    def test_none_that_answers_takes_no_longer_than_a_single_one(
        self, black_hole: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        named(monkeypatch, [black_hole] * 2)
        started = time.monotonic()
        with pytest.raises(ClusterUnreachableError, match=r"kafka.example:9092 did not answer in time"):
            ask({"bootstrap.servers": "kafka.example:9092"})
        assert time.monotonic() - started < 2 + GRACE_S


def named(monkeypatch: pytest.MonkeyPatch, ports: list[int]) -> None:
    """Give these ports of this machine the name ``kafka.example``."""
    look_up = socket.getaddrinfo

    def addresses(host: str, *args: Any, **kwargs: Any) -> list[Any]:
        if host != "kafka.example":
            return look_up(host, *args, **kwargs)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)


class TestLogs:
    def test_kafka_pythons_lines_are_there_for_who_asks_for_debug(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger="kafka")
        with pytest.raises(ClusterUnreachableError):
            ask({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.3)
        assert any(each.name == "kafka.net.manager" for each in caplog.records)

    @pytest.mark.nightly("an answer of a hundred thousand partitions; the others have small ones")
    def test_an_answer_that_takes_long_to_decode_is_nothing_to_warn_of(self, caplog: pytest.LogCaptureFixture) -> None:
        """300,000 commits of one coordinator. Who asks kafka-python for DEBUG isn't told either: nobody else waits."""
        caplog.set_level(logging.DEBUG, logger="kafka.net.selector")
        pieces = [TopicPartition("a", number) for number in range(1_000)]
        with ScriptedCluster({"a": [0] * len(pieces)}) as cluster:
            cluster.brokers[0].on(OffsetFetchRequest, commits_are(dict.fromkeys(pieces, 7)))
            commits = cluster.client(timeout_s=120).committed_offsets({f"g-{number}": None for number in range(300)})
        assert sum(len(each.offsets.ok()) for each in commits) == 300_000
        assert not [each for each in caplog.messages if "blocking the event loop" in each]


class TestLogin:
    @pytest.mark.parametrize("attempt", range(3))
    def test_a_wrong_password_fails_at_once(self, broker: Broker, attempt: int) -> None:
        started = time.monotonic()
        with (
            OffsetsClient(sasl_settings(broker, "alice", "wrong"), timeout_s=30) as client,
            pytest.raises(AuthenticationError, match=r"refused SCRAM-SHA-512 authentication for user alice: .*Check"),
        ):
            client.cluster_id()
        assert time.monotonic() - started < GRACE_S

    def test_a_login_on_a_port_without_one_fails_at_once(self, broker: Broker) -> None:
        with pytest.raises(AuthenticationError, match=r"Check security.protocol"):
            ask(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": "alice",
                    "sasl.password": "alice-secret",
                }
            )


class TestOldBrokers:
    @pytest.mark.parametrize("newest", range(ApiVersionsRequest.max_version))
    def test_are_asked_again_in_a_version_that_they_know(self, newest: int) -> None:
        """To ApiVersions in a newer version than theirs, they answer in version 0, whatever was asked for."""
        with ScriptedCluster({"flights": [0]}, versions={ApiVersionsRequest: (0, newest)}) as cluster:
            assert cluster.client(GRACE_S).cluster_id() == "scripted"


class TestClient:
    def test_a_closed_client_connects_again(self, broker: Broker) -> None:
        client = OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers}))
        first = client.cluster_id()
        client.close()
        client.close()
        assert client.cluster_id() == first
        client.close()

    def test_a_deadline_of_nothing_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="timeout_s must be more than 0 seconds, not 0"):
            OffsetsClient(ClientSettings(("localhost:9092",)), timeout_s=0)

    @pytest.mark.nightly("waits ten seconds for a look-up; the tests of unreachable brokers have names that hang")
    def test_closing_while_a_name_look_up_hangs_is_quiet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It holds the I/O thread up past every deadline, and nothing can stop it."""
        answered = threading.Event()

        def hang(*_: object, **__: object) -> list[object]:
            answered.wait(PATIENCE_S)
            return []

        monkeypatch.setattr(socket, "getaddrinfo", hang)
        client = OffsetsClient(ClientSettings.from_config({"bootstrap.servers": "kafka.invalid:9092"}), timeout_s=0.2)
        with pytest.raises(ClusterUnreachableError, match="is a name look-up hanging"):
            client.cluster_id()
        client.close()
        answered.set()

    def test_a_level_may_be_named_by_its_text_and_by_no_other(self, broker: Broker) -> None:
        """E15: taken for the other level, it would give another end of the log."""
        with OffsetsClient(ClientSettings((broker.bootstrap_servers,))) as client:
            lags = client.group_lags(["any"], topics=[], isolation_level="read_committed")  # type: ignore[arg-type]
            assert len(lags) == 1
            with pytest.raises(ConfigurationError, match="read_committed or read_uncommitted, not 'committed'"):
                client.list_offsets([], OffsetSpec.LATEST, isolation_level="committed")  # type: ignore[arg-type]

    def test_one_name_in_place_of_several_is_refused(self, broker: Broker) -> None:
        with OffsetsClient(ClientSettings((broker.bootstrap_servers,))) as client:
            for ask in (client.group_lags, client.describe_groups, client.topics, client.partitions_of, client.survey):
                with pytest.raises(ConfigurationError, match="a list of names, not the single name 'flights'"):
                    ask("flights")

    def test_what_is_no_spec_is_refused(self, broker: Broker) -> None:
        with OffsetsClient(ClientSettings((broker.bootstrap_servers,))) as client:
            with pytest.raises(
                ConfigurationError, match=r"must be an OffsetSpec such as OffsetSpec.LATEST, not 'latest'"
            ):
                client.list_offsets([], "latest")  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="aware datetime or Unix milliseconds, not '2026"):
                client.look_up(client.survey([]), ["2026-11-20T06:00:00Z"])  # type: ignore[list-item]

    def test_what_stands_for_something_else_on_the_wire_is_refused_before_anything_is_asked(self) -> None:
        with ScriptedCluster({"a": [0]}) as cluster:
            client, a0 = cluster.client(), TopicPartition("a", 0)
            survey = Survey("scripted", {}, LogExtents([LogExtent(*a0, 0, 9, 9)]))
            for instant in (-1, -2, -3, 1_795_240_800, 1_795_240_800_000_000):
                with pytest.raises(InstantError):
                    client.look_up(survey, [1_795_240_800_000, instant])
            for most in (0, -1, 2**31, True):
                with pytest.raises(ConfigurationError, match="max_offsets must be a number from 1"):
                    client.segment_offsets([a0], max_offsets=most)
            with pytest.raises(ConfigurationError, match="OffsetSpec of kind latest, earliest, timestamp"):
                client.segment_offsets([a0], OffsetSpec.MAX_TIMESTAMP)
            with pytest.raises(ConfigurationError, match="Leader epochs must be 0 or more"):
                client.epoch_ends([LogEpoch(*a0, -1)])
            assert cluster.asked == []
