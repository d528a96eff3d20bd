"""Avro with a real registry: what the load makes of a topic is what Confluent's own deserializer makes of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import read_published
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from dev.schema_registry import SchemaRegistry
from tests.integration.registry_gate import RegistryGate
from tests.integration.spark.conftest import Pin
from tests.integration.spark.publishing import publish
from tests.integration.spark.values.broken import broken, id_of
from tests.integration.spark.values.conftest import plain
from tests.unit.spark.manifests import manifest_of

VERSIONS = [
    [{"name": "id", "type": "long"}, {"name": "carrier", "type": "string"}],
    [
        *({"name": "id", "type": "long"}, {"name": "carrier", "type": "string"}),
        {"name": "delay", "type": ["null", "int"], "default": None},
    ],
    [
        # A wider type, an array of records, a logical type; and carrier is gone.
        *({"name": "id", "type": "double"}, {"name": "delay", "type": ["null", "long"], "default": None}),
        {
            "name": "legs",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Leg", "fields": [{"name": "to", "type": "string"}]},
            },
            "default": [],
        },
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["OK", "LATE"]}, "default": "OK"},
    ],
]
ROWS: list[tuple[int, dict[str, Any]]] = [
    (0, {"id": 1, "carrier": "AA"}),
    (1, {"id": 2, "carrier": "UA", "delay": None}),
    (1, {"id": 3, "carrier": "UA", "delay": -5}),
    (2, {"id": 4.5, "delay": 2**40, "legs": [{"to": "JFK"}, {"to": "é"}], "status": "LATE"}),
    (2, {"id": -0.0, "delay": None, "legs": [], "status": "OK"}),
    (0, {"id": 2**53, "carrier": ""}),
]
"""The version that a record is written with, and its value."""


def text(version: int) -> str:
    return json.dumps({"type": "record", "name": "Flight", "namespace": "org.example", "fields": VERSIONS[version]})


@pytest.fixture
def written(
    topic_name: str, registry_client: SchemaRegistryClient, send: Callable[[Any], None]
) -> list[tuple[bytes | None, str | None]]:
    """A topic's values, with the reason why each isn't decoded: three versions, tombstones, and what is broken."""
    context = SerializationContext(topic_name, MessageField.VALUE)
    serializers = [AvroSerializer(registry_client, text(version)) for version in range(3)]
    good = [serializers[version](value, context) for version, value in ROWS]
    known, newest = id_of(good[0]), id_of(good[3])
    what = f"Avro of schema id {known} that can be read as schema id {newest}"
    values: list[tuple[bytes | None, str | None]] = [(value, None) for value in good]
    values += [(None, None), *broken(known, b"\x02\xff", what), (None, None), (good[0], None)]
    send([(b"N%d" % number, value, []) for number, (value, _) in enumerate(values)])
    return values


@pytest.fixture
def conf(pin: Pin, topic_name: str, written: list[Any], cluster_id: str) -> Any:
    return pin(manifest_of([(topic_name, 0, 0, len(written))]))


class TestTheSameAsConfluentsOwnReader:
    def test_row_by_row(
        self,
        spark: SparkSession,
        conf: Any,
        written: list[tuple[bytes | None, str | None]],
        registry_client: SchemaRegistryClient,
        topic_name: str,
        table: str,
        ledger: Path,
        run_load: Callable[..., Any],
    ) -> None:
        result = run_load(conf, "--output", table, "--value-format", "avro", "--key-format", "string")
        publish(PinnedWindow.open(spark, conf), result)
        rows = read_published(spark, ledger.as_uri()).orderBy("offset").collect()
        read = AvroDeserializer(registry_client, text(2))
        assert len(rows) == len(written)
        for row, (value, reason) in zip(rows, written, strict=True):
            assert row.value_error == reason
            assert plain(row.raw_value) == (value if reason else None)
            if reason is None:
                expected = read(value, SerializationContext(topic_name, MessageField.VALUE))
                assert plain(row.value) == expected
                assert row.value_schema_id == (None if value is None else id_of(value))
            else:
                assert (row.value, row.value_schema_id) == (None, None)
                with pytest.raises(Exception):  # noqa: B017  # each of its libraries raises its own
                    read(value, SerializationContext(topic_name, MessageField.VALUE))
        assert [row.key for row in rows] == [f"N{number}" for number in range(len(written))]


class TestSchemasThatReferToOthers:
    def test_are_read_with_what_they_refer_to(
        self,
        spark: SparkSession,
        registry_client: SchemaRegistryClient,
        topic_name: str,
        send: Callable[[Any], None],
        pin: Pin,
        table: str,
        run_load: Callable[..., Any],
    ) -> None:
        """Twice in the schema, and by a schema that is referred to itself, in another namespace."""
        leaf = {
            "type": "record",
            "name": "Money",
            "namespace": "org.money",
            "fields": [{"name": "cents", "type": "long"}],
        }
        line = {
            "type": "record",
            "name": "Line",
            "namespace": "org.shop",
            "fields": [
                {"name": "price", "type": "org.money.Money"},
                {"name": "tax", "type": ["null", "org.money.Money"]},
            ],
        }
        order = {
            "type": "record",
            "name": "Order",
            "namespace": "org.shop",
            "fields": [
                {"name": "lines", "type": {"type": "array", "items": "Line"}},
                {"name": "sum", "type": "org.money.Money"},
            ],
        }
        money = SchemaReference("org.money.Money", f"{topic_name}-money", 1)
        lines = SchemaReference("org.shop.Line", f"{topic_name}-line", 1)
        registry_client.register_schema(money.subject, Schema(json.dumps(leaf), "AVRO"))
        registry_client.register_schema(lines.subject, Schema(json.dumps(line), "AVRO", [money]))
        whole = Schema(json.dumps(order), "AVRO", [money, lines])
        value = {
            "lines": [{"price": {"cents": 5}, "tax": None}, {"price": {"cents": 7}, "tax": {"cents": 1}}],
            "sum": {"cents": 13},
        }
        write = AvroSerializer(registry_client, whole)
        send([(None, write(value, SerializationContext(topic_name, MessageField.VALUE)), [])])
        run_load(pin(manifest_of([(topic_name, 0, 0, 1)])), "--output", table, "--value-format", "avro", "--flatten")
        (row,) = spark.read.parquet(f"{table}/*/*").collect()
        assert {"lines": plain(row["lines"]), "sum": plain(row["sum"])} == value


class TestSubjectsOfOtherStrategies:
    def test_records_of_several_are_read_as_the_first(
        self,
        spark: SparkSession,
        registry_client: SchemaRegistryClient,
        topic_name: str,
        send: Callable[..., None],
        pin: Pin,
        table: str,
        run_load: Callable[..., Any],
    ) -> None:
        """As when producers have changed to TopicRecordNameStrategy: the topic has ids of two subjects."""
        context = SerializationContext(topic_name, MessageField.VALUE)
        before = AvroSerializer(registry_client, text(0))
        strategy = {"subject.name.strategy": topic_record_subject_name_strategy}
        since = AvroSerializer(registry_client, text(1), conf=strategy)
        send([(None, write(value, context), []) for write, (_, value) in zip((before, since), ROWS[:2], strict=True)])
        words = ("--value-format", "avro", "subject={topic}-org.example.Flight", "subject={topic}-value")
        conf = pin(manifest_of([(topic_name, 0, 0, 2)]))
        result = run_load(conf, *words, "--output", table)
        rows = spark.read.parquet(f"{table}/*/*").orderBy("offset").collect()
        assert [plain(row.value) for row in rows] == [{"delay": None} | value for _, value in ROWS[:2]]
        assert result.schemas[0].subjects == (f"{topic_name}-org.example.Flight", f"{topic_name}-value")


class TestTheReadersVersion:
    def test_loading_again_reads_as_before_until_another_version_is_named(
        self,
        spark: SparkSession,
        registry_client: SchemaRegistryClient,
        topic_name: str,
        send: Callable[[Any], None],
        pin: Pin,
        table: str,
        run_load: Callable[..., Any],
    ) -> None:
        write = AvroSerializer(registry_client, text(0))
        send([(None, write(ROWS[0][1], SerializationContext(topic_name, MessageField.VALUE)), [])])
        manifest = manifest_of([(topic_name, 0, 0, 1)])
        words = ("--output", table, "--value-format", "avro")
        conf = pin(manifest)
        first = run_load(conf, *words)
        publish(PinnedWindow.open(spark, conf), first)
        newer = registry_client.register_schema(f"{topic_name}-value", Schema(text(1), "AVRO"))

        conf = pin(manifest, again=True)
        second = run_load(conf, *words)
        publish(PinnedWindow.open(spark, conf), second)
        assert [used.reader for used in second.schemas] == [used.reader for used in first.schemas]
        assert str(newer) in second.schemas[0].hashes
        assert spark.read.parquet(str(second.output)).schema["value"].dataType.names == ["id", "carrier"]  # type: ignore[union-attr]

        third = run_load(pin(manifest, again=True), *words, "--value-format", "avro", "version=2")
        assert third.schemas[0].reader == newer
        assert spark.read.parquet(str(third.output)).schema["value"].dataType.names == ["id", "carrier", "delay"]  # type: ignore[union-attr]


class TestIdsInHeaders:
    def test_the_value_is_then_all_bytes_whatever_they_begin_with(
        self,
        spark: SparkSession,
        registry: SchemaRegistry,
        registry_client: SchemaRegistryClient,
        topic_name: str,
        send: Callable[[Any], None],
        pin: Pin,
        table: str,
        run_load: Callable[..., Any],
    ) -> None:
        """A value that begins as if it had a frame, one whose header names no schema of the topic, and one without
        a header."""
        fields = [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]
        schema = Schema(json.dumps({"type": "record", "name": "Zero", "fields": fields}), "AVRO")
        number, guid = registry_client.register_schema(f"{topic_name}-value", schema), str(uuid.uuid4())
        header = SchemaId("AVRO", guid=guid).guid_to_bytes()
        begins_with_zero = b"\x00\x0ahello"
        framed = b"\x00" + number.to_bytes(4, "big") + begins_with_zero
        send(
            [
                (None, begins_with_zero, [("other", b"x"), ("__value_schema_id", header)]),
                (None, framed, [("__value_schema_id", b"\x01" + bytes(16))]),
                (None, framed, [("__key_schema_id", header)]),
                (None, framed, []),
            ]
        )
        with RegistryGate(registry.url, guids={number: guid}) as gate:
            conf = pin(manifest_of([(topic_name, 0, 0, 4)]))
            run_load(conf, "--output", table, "--value-format", "avro", "--flatten", url=gate.url)
        rows = spark.read.parquet(f"{table}/*/*").orderBy("offset").collect()
        assert [(row.a, row.b, row.value_error) for row in rows] == [
            (0, "hello", None),
            (None, None, f"no version of its subject has schema GUID {'0' * 32}"),
            (0, "hello", None),
            (0, "hello", None),
        ]
