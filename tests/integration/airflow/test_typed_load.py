"""A typed load from Airflow: by the registry's connection, whose login reaches the driver and no log."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import duckdb
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from airflow_kafka_offsets import KafkaPipeline, KafkaSparkSubmitOperator, KafkaVerifyWindowOperator, TableLoad
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from dev.airflow_home import environment
from dev.kafka import Broker
from dev.schema_registry import SchemaRegistry
from tests.integration.airflow.conftest import FOR_EVER, T0_MS, Context, at, fails_with
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.registry_gate import RegistryGate

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
PASSWORD = token_hex(12)
LOGIN = b64encode(f"loader:{PASSWORD}".encode()).decode()


@pytest.fixture
def gate(registry: SchemaRegistry) -> Iterator[RegistryGate]:
    with RegistryGate(registry.url, f"Basic {LOGIN}") as running:
        yield running


@pytest.fixture
def window(
    topic: MakeTopic,
    produce: Produce,
    registry_client: SchemaRegistryClient,
    context: Context,
    broker: Broker,
    gate: RegistryGate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """Four orders and a record that is none, pinned."""
    for name, value in environment(tmp_path, broker.bootstrap_servers).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    connect_registry(monkeypatch, gate.url, PASSWORD)
    name = topic(config=FOR_EVER)
    write = AvroSerializer(registry_client, json.dumps(ORDER))
    context_of = SerializationContext(name, MessageField.VALUE)
    values = [*(write({"id": number, "item": "tea"}, context_of) for number in range(4)), b"not Avro"]
    produce(name, 0, [(T0_MS + number * 1000, b"k", value) for number, value in enumerate(values)])
    orders = KafkaPipeline("orders", name, schema_registry_conn_id="registry")
    resolve = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders, start=at(0), end=at(60))
    return resolve.execute(context)


def connect_registry(monkeypatch: pytest.MonkeyPatch, url: str, password: str) -> None:
    fields = {"conn_type": "http", "host": url, "login": "loader", "password": password}
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps(fields))


def table_of(folder: Path, **arguments: Any) -> TableLoad:
    return TableLoad((folder / "orders").as_uri(), value_format="avro", **arguments)


def test_values_become_columns_and_the_login_is_in_no_log(
    window: dict[str, Any], context: Context, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load = KafkaSparkSubmitOperator(task_id="load", window=window, application=table_of(tmp_path, flatten=True))
    with caplog.at_level(logging.DEBUG):
        report = load.execute(context)
    assert report["rows"] == 5
    query = 'SELECT id, item, value_error IS NULL, raw_value FROM read_parquet(?) ORDER BY "offset"'
    rows = duckdb.execute(query, [f"{tmp_path}/orders/**/*.parquet"]).fetchall()
    assert rows == [*((number, "tea", True, None) for number in range(4)), (None, None, False, b"not Avro")]
    verdict = KafkaVerifyWindowOperator(task_id="verify", window=window).execute(context)
    assert verdict["verdict"] == "read = written = log"
    assert load._output is not None
    said = "\n".join((caplog.text, *load._output()))
    assert "spark-submit" in caplog.text
    assert PASSWORD not in said
    assert LOGIN not in said


def test_without_a_registry_nothing_is_started(
    topic: MakeTopic, resolve: Callable[..., dict[str, Any]], context: Context, tmp_path: Path
) -> None:
    window = resolve(topic(config=FOR_EVER), at(0), at(60))
    load = KafkaSparkSubmitOperator(task_id="load", window=window, application=table_of(tmp_path))
    with pytest.raises(AirflowFailException, match=r"avro needs the pipeline's schema registry") as failed:
        load.execute(context)
    assert fails_with(ConfigurationError, failed)
