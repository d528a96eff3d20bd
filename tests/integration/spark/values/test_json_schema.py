"""JSON Schema with a real registry: the load makes of a topic what Confluent's own deserializer makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from tests.integration.spark.conftest import Pin
from tests.integration.spark.values.broken import broken, id_of
from tests.integration.spark.values.conftest import plain
from tests.unit.spark.manifests import manifest_of

LEG = {"type": "object", "properties": {"to": {"type": "string"}, "at": {"type": ["integer", "null"]}}}
PROPERTIES = [
    {"id": {"type": "integer"}},
    {"id": {"type": "integer"}, "delay": {"oneOf": [{"type": "null"}, {"type": "number"}]}},
    {
        "id": {"type": "integer"},
        "delay": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "legs": {"type": "array", "items": {"$ref": "#/definitions/Leg"}},
        "late": {"type": "boolean"},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    },
]
ROWS: list[tuple[int, dict[str, Any]]] = [
    (0, {"id": 1}),
    (1, {"id": 2, "delay": None}),
    (1, {"id": 3, "delay": 2.5}),
    (2, {"id": 2**60, "delay": -1.0, "legs": [{"to": "é", "at": 7}, {"to": "JFK"}], "late": True, "tags": {"a": "b"}}),
]


def text(version: int) -> str:
    whole = {"title": "Flight", "type": "object", "properties": PROPERTIES[version], "definitions": {"Leg": LEG}}
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#"} | whole)


def without_nulls(value: Any) -> Any:
    """A struct has null for what the JSON doesn't have."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def test_row_by_row(
    spark: SparkSession,
    registry_client: SchemaRegistryClient,
    topic_name: str,
    send: Callable[[Any], None],
    pin: Pin,
    table: str,
    run_load: Callable[..., Any],
) -> None:
    context = SerializationContext(topic_name, MessageField.VALUE)
    values = [(JSONSerializer(text(version), registry_client)(value, context), None) for version, value in ROWS]
    known, newest = id_of(values[0][0]), id_of(values[3][0])
    what = f"JSON of schema id {known} that can be read as schema id {newest}"
    wrong_type = b"\x00" + known.to_bytes(4, "big") + b'{"id": "one"}'
    values += [(None, None), *broken(known, b"not JSON", what), (wrong_type, f"it isn't {what}")]
    send([(b"k", value, []) for value, _ in values])
    conf = pin(manifest_of([(topic_name, 0, 0, len(values))]))
    run_load(conf, "--output", table, "--value-format", "json-schema")
    rows = spark.read.parquet(f"{table}/*/*").orderBy("offset").collect()
    read = JSONDeserializer(None, schema_registry_client=registry_client)
    for row, (value, reason) in zip(rows, values, strict=True):
        assert row.value_error == reason
        assert plain(row.raw_value) == (value if reason else None)
        if reason is None:
            assert without_nulls(plain(row.value)) == without_nulls(read(value, context))
        else:
            assert row.value is None
            with pytest.raises(Exception):  # noqa: B017  # each of its libraries raises its own
                read(value, context)
