"""A connection in an environment variable is what Airflow takes it for."""

from __future__ import annotations

import json

import pytest
from airflow.models.connection import Connection

from airflow_kafka_offsets.client.connection.airflow_connection import KafkaConnection, connection_in
from airflow_kafka_offsets.errors import ConfigurationError

EXTRA = '{"bootstrap.servers": "a:1,b:2", "sasl.password": "p@ss/w%rd"}'
URIS = [
    "kafka-offsets://broker:9092",
    "kafka-offsets://user%40x:p%2Fw%25@broker.example:9092/?security.protocol=SASL_SSL&sasl.mechanism=PLAIN",
    "kafka-offsets://broker-1%3A9092%2Cbroker-2%3A9092",
    "kafka://?bootstrap.servers=a%3A1%2Cb%3A2&group.id=",
    "kafka:///?__extra__=%7B%22bootstrap.servers%22%3A+%22a%3A1%22%7D",
    "kafka-offsets://user@broker",
    "kafka-offsets://:secret@broker",
]
TEXTS = [
    {"conn_type": "kafka", "extra": json.loads(EXTRA)},
    {"conn_type": "kafka", "extra": EXTRA},
    {"conn_type": "kafka-offsets", "host": "a:1,b:2", "login": "u", "password": "p"},
    {"conn_type": "kafka_offsets", "host": "broker", "port": 9092, "extra": {"client.id": "x", "debug": None}},
    {"conn_type": "kafka_offsets", "host": "broker", "port": "9092"},
    {"conn_type": "kafka_offsets"},
]


def as_airflow_reads(text: str) -> KafkaConnection:
    read = Connection.from_json(text, conn_id="x") if text.startswith("{") else Connection(conn_id="x", uri=text)
    fields = read.conn_type, read.host, read.port, read.login, read.password
    return KafkaConnection(*(each or None for each in fields), read.extra_dejson)


@pytest.mark.parametrize("text", [*URIS, *map(json.dumps, TEXTS)])
def test_it_is_read_as_airflow_reads_it(text: str) -> None:
    ours, airflows = connection_in("AIRFLOW_CONN_X", text), as_airflow_reads(text)
    assert ours.keys() == airflows.keys()
    assert ours.conn_type == airflows.conn_type


@pytest.mark.parametrize(
    "text",
    ['{"conn_type": "kafka", "password": "secret"', "[1]", "kafka_offsets://a", '{"port": "x"}', "kafka://a:secret"],
)
def test_what_airflow_cannot_read_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^AIRFLOW_CONN_X is neither JSON nor a URI") as refused:
        connection_in("AIRFLOW_CONN_X", text)
    assert "secret" not in str(refused.value)
