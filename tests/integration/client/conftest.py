"""Clients of the session's broker and of scripted ones, and a port where nobody answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from dev.kafka import Broker
from tests.integration.client.pieces import Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.conftest import USERS


def sasl_settings(broker: Broker, user: str, password: str | None = None) -> ClientSettings:
    """Settings that log in by SCRAM; with the user's own password, unless another is given."""
    return ClientSettings.from_config(
        {
            "bootstrap.servers": broker.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password or USERS[user],
        }
    )


@pytest.fixture(scope="session")
def client(broker: Broker) -> Iterator[OffsetsClient]:
    settings = ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})
    with OffsetsClient(settings, timeout_s=15) as connected:
        yield connected


@pytest.fixture
def one() -> Iterator[Pieces]:
    with ScriptedCluster({"a": [0], "b": [0, 0]}) as cluster:
        yield Pieces(cluster, cluster.brokers[0], cluster.client())


@pytest.fixture
def hung_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
