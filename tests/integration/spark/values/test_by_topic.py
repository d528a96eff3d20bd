"""A table for each topic, decoded by the topic's own subject; what can't be decoded of any topic goes to one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.spark import read_published
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from tests.integration.spark.conftest import Pin
from tests.integration.spark.publishing import publish
from tests.unit.spark.manifests import manifest_of

WORDS = ("--value-format", "avro", "--key-format", "string", "--flatten")


def record(*fields: str) -> str:
    added = [{"name": name, "type": "string", "default": "none"} for name in fields[1:]]
    whole = {"type": "record", "name": "Row", "fields": [{"name": fields[0], "type": "long"}, *added]}
    return json.dumps(whole)


@pytest.fixture
def topics(topic_name: str, registry_client: SchemaRegistryClient, send: Callable[..., None]) -> list[str]:
    """Orders and payments, three records of each, of which the second can't be decoded; and a topic that nobody has
    written to."""
    names = [f"{topic_name}-{name}" for name in ("orders", "payments", "quiet")]
    for name, field in zip(names[:2], ("order", "payment"), strict=True):
        write = AvroSerializer(registry_client, record(field))
        good = write({field: 7}, SerializationContext(name, MessageField.VALUE))
        send([(b"k", good, []), (b"k", f"bad {field}".encode(), []), (b"k", None, [])], name)
    send([], names[2])
    return names


@pytest.mark.parametrize(
    ("sink", "policy"),
    [
        ("parquet", "delete"),
        pytest.param("parquet", "compact", marks=pytest.mark.nightly("offsets may be without a record; else the same")),
        pytest.param("delta", "delete", marks=pytest.mark.nightly("another sink; the first shows the same")),
        pytest.param("iceberg", "delete", marks=pytest.mark.nightly("another sink; the first shows the same")),
    ],
)
def test_all_tables_together_prove_the_window(
    spark: SparkSession,
    registry_client: SchemaRegistryClient,
    topics: list[str],
    topic_name: str,
    pin: Pin,
    table: str,
    ledger: Path,
    run_load: Callable[..., Any],
    sink: str,
    policy: str,
) -> None:
    orders, payments, quiet = topics
    ranges = [(orders, 0, 0, 3), (payments, 0, 0, 3), (quiet, 0, 0, 0)]
    manifest = manifest_of(ranges, cleanup_policy=policy)
    place = f"lake.{topic_name.replace('-', '_')}" if sink == "iceberg" else table
    dead, words = f"{place}.dead" if sink == "iceberg" else f"{table}_dead", (*WORDS, "--sink", sink)
    each = f"{place}.{{topic}}" if sink == "iceberg" else f"{table}/{{topic}}"
    conf = pin(manifest)
    result = run_load(conf, "--output", each, *words, "--bad-records", "dead-letter", dead)
    window = PinnedWindow.open(spark, conf)
    publish(window, result)

    assert {one.name: one.rows for one in result.outputs} == {orders: 2, payments: 2, quiet: 0, "dead letters": 2}
    assert (result.rows_written, result.records) == (4, 6)
    assert str(judge(window.manifest, result)).startswith("read = written = log")
    assert {used.subjects for used in result.schemas} == {(f"{orders}-value",), (f"{payments}-value",)}
    rows = read_published(spark, ledger.as_uri(), output=orders).orderBy("offset").collect()
    assert [(row.order, row.tombstone) for row in rows] == [(7, False), (None, True)]
    rows = read_published(spark, ledger.as_uri()).orderBy("topic", "offset").collect()
    assert [(row.order, row.payment) for row in rows] == [(7, None), (None, None), (None, 7), (None, None)]
    rows = read_published(spark, ledger.as_uri(), output="dead letters").orderBy("topic").collect()
    assert [(row.topic, bytes(row.value)) for row in rows] == [(orders, b"bad order"), (payments, b"bad payment")]

    registry_client.register_schema(f"{orders}-value", Schema(record("order", "note"), "AVRO"))
    again = run_load(pin(manifest, again=True), "--output", each, *words)
    assert [(used.subjects, used.reader) for used in again.schemas] == [
        (used.subjects, used.reader) for used in result.schemas
    ]
    assert {one.name: one.rows for one in again.outputs} == {orders: 3, payments: 3, quiet: 0}


def test_topics_of_different_types_are_refused_in_one_table(
    topics: list[str], pin: Pin, table: str, run_load: Callable[..., Any]
) -> None:
    conf = pin(manifest_of([(topic, 0, 0, 3) for topic in topics[:2]]))
    with pytest.raises(ConfigurationError, match=r"^value: .* differ, .* Give each topic a table of its own"):
        run_load(conf, "--output", table, *WORDS)
    with pytest.raises(ConfigurationError, match="dead_letters= is one table for all topics"):
        run_load(conf, "--output", f"{table}/{{topic}}", *WORDS, "--bad-records", "dead-letter", f"{table}_{{topic}}")
