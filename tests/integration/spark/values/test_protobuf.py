"""Protobuf with a real registry: the load makes of a topic what Confluent's own deserializer makes of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, timestamp_pb2
from pyspark.sql import SparkSession

from tests.integration.spark.conftest import Pin
from tests.integration.spark.values.broken import broken, id_of
from tests.integration.spark.values.conftest import plain
from tests.unit.spark.manifests import manifest_of

F = descriptor_pb2.FieldDescriptorProto


def field(name: str, number: int, kind: int, of: str = "", *, many: bool = False) -> Any:
    label = F.LABEL_REPEATED if many else F.LABEL_OPTIONAL
    return F(name=name, number=number, type=kind, type_name=of or None, label=label)  # type: ignore[arg-type]


def classes(version: int) -> dict[str, Any]:
    """The messages of a version: each newer one has more fields."""
    fields = [
        [field("id", 1, F.TYPE_INT64), field("carrier", 2, F.TYPE_STRING)],
        [field("delay", 3, F.TYPE_SINT32), field("status", 4, F.TYPE_ENUM, ".shop.Status")],
        [
            field("legs", 5, F.TYPE_MESSAGE, ".shop.Flight.Leg", many=True),
            field("at", 6, F.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            field("big", 7, F.TYPE_UINT64),
            field("tags", 8, F.TYPE_STRING, many=True),
            field("raw", 9, F.TYPE_BYTES),
        ],
    ]
    file = descriptor_pb2.FileDescriptorProto(name=f"flight{version}.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    flight = file.message_type.add(name="Flight", field=[each for part in fields[: version + 1] for each in part])
    flight.nested_type.add(name="Leg", field=[field("to", 1, F.TYPE_STRING), field("miles", 2, F.TYPE_DOUBLE)])
    file.message_type.add(name="Other", field=[field("x", 1, F.TYPE_INT32)])
    status = file.enum_type.add(name="Status")
    for number, name in enumerate(("OK", "LATE")):
        status.value.add(name=name, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb))
    pool.Add(file)
    names = ("shop.Flight", "shop.Flight.Leg", "shop.Other")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


VERSIONS = [classes(version) for version in range(3)]
AT = datetime(2026, 11, 20, 6, 0, 0, 123456, tzinfo=UTC)
ROWS: list[tuple[int, str, dict[str, Any]]] = [
    (0, "shop.Flight", {"id": 1, "carrier": "AA"}),
    (1, "shop.Flight", {"id": 2, "delay": -5, "status": "LATE"}),
    (0, "shop.Flight", {}),
    (
        2,
        "shop.Flight",
        {
            "id": -(2**60),
            "carrier": "é",
            "legs": [{"to": "JFK", "miles": 1.5}, {}],
            "at": AT,
            "big": 2**64 - 1,
            "tags": ["a", ""],
            "raw": b"\x00\xff",
        },
    ),
]
CONF = {"auto.register.schemas": True, "use.deprecated.format": False}


@pytest.fixture(autouse=True)
def executors(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors run the Python that has the packages; spark-submit's own finds it on the PATH."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)


@pytest.fixture
def write(registry_client: SchemaRegistryClient, topic_name: str) -> Callable[[int, str, dict[str, Any]], bytes]:
    def serialize(version: int, name: str, value: dict[str, Any]) -> bytes:
        kind = VERSIONS[version][name]
        content = ProtobufSerializer(kind, registry_client, CONF)(
            kind(**value), SerializationContext(topic_name, MessageField.VALUE)
        )
        assert content is not None
        return content

    return serialize


def as_row(message: Any) -> dict[str, Any]:
    """A message as its row: what has no presence has its default."""
    fields = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return fields | {
        "id": message.id,
        "big": message.big,
        "raw": message.raw,
        "at": message.at.ToDatetime(UTC) if message.HasField("at") else None,
    }


def test_row_by_row(
    spark: SparkSession,
    registry_client: SchemaRegistryClient,
    topic_name: str,
    send: Callable[[Any], None],
    write: Callable[[int, str, dict[str, Any]], bytes],
    pin: Pin,
    table: str,
    run_load: Callable[..., Any],
) -> None:
    values: list[tuple[bytes | None, str | None]] = [(write(*row), None) for row in ROWS]
    known = id_of(values[0][0])
    other = "it is the message {}, not shop.Flight"
    values += [
        (None, None),
        *broken(known, b"\x00\x08", f"Protobuf of schema id {known}"),
        (write(2, "shop.Other", {"x": 1}), other.format("shop.Other")),
        (write(2, "shop.Flight.Leg", {"to": "JFK"}), other.format("shop.Flight.Leg")),
        (b"\x00" + known.to_bytes(4, "big"), "the position of its message is cut short or malformed"),
    ]
    send([(b"k", value, []) for value, _ in values])
    conf = pin(manifest_of([(topic_name, 0, 0, len(values))]))
    run_load(conf, "--output", table, "--value-format", "protobuf", "--key-format", "string")
    rows = spark.read.parquet(f"{table}/*/*").orderBy("offset").collect()
    read = ProtobufDeserializer(VERSIONS[2]["shop.Flight"], CONF, registry_client)
    context = SerializationContext(topic_name, MessageField.VALUE)
    for row, (value, reason) in zip(rows, values, strict=True):
        assert (row.value_error, row.key) == (reason, "k")
        assert plain(row.raw_value) == (value if reason else None)
        if value is None or reason is not None:
            assert row.value is None
            continue
        expected = as_row(read(value, context))
        found = plain(row.value)
        found["big"], found["at"] = int(found["big"]), found["at"] and found["at"].astimezone(UTC)
        assert found == expected


@pytest.mark.nightly("another message of the same file; the test above decodes the first")
def test_a_message_that_is_not_the_first_of_its_file_is_named(
    spark: SparkSession,
    topic_name: str,
    send: Callable[[Any], None],
    write: Callable[[int, str, dict[str, Any]], bytes],
    pin: Pin,
    table: str,
    run_load: Callable[..., Any],
) -> None:
    send([(None, write(2, "shop.Flight.Leg", {"to": "JFK", "miles": 2.0}), [])])
    words = ("--value-format", "protobuf", "message=shop.Flight.Leg", "--flatten")
    run_load(pin(manifest_of([(topic_name, 0, 0, 1)])), "--output", table, *words)
    (row,) = spark.read.parquet(f"{table}/*/*").collect()
    assert (row.to, row.miles, row.value_error) == ("JFK", 2.0, None)
