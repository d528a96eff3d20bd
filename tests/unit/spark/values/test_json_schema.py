"""The type of a column with what a JSON Schema describes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.values.json_schema import type_of
from airflow_kafka_offsets.spark.values.registry import RegisteredSchema
from airflow_kafka_offsets.spark.values.subjects import SubjectSchemas


def schema(number: int, content: Any) -> RegisteredSchema:
    return RegisteredSchema(number, None, 1, "JSON", json.dumps(content))


def kind_of(content: Any, **documents: Any) -> str:
    reader = schema(7, content)
    referenced = {name.replace("_", "."): schema(8, one) for name, one in documents.items()}
    return type_of(SubjectSchemas(reader, [reader], {7: referenced})).simpleString()


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date-time"}, "string"),
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["null", "boolean"]}, "boolean"),
        ({"type": ["string", "integer"]}, "string"),
        ({"enum": ["A", "B"]}, "string"),
        ({}, "string"),
        (True, "string"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "bigint"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"type": "object"}, "string"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string,double>"),
        ({"properties": {"b": {"type": "integer"}}}, "struct<b:bigint>"),
        (
            {"allOf": [{"$ref": "#/definitions/Leg"}, {"properties": {"at": {"type": "integer"}}}]},
            "struct<to:string,at:bigint>",
        ),
        ({"$ref": "#/definitions/Leg"}, "struct<to:string>"),
        ({"$ref": "#/definitions/Tree"}, "struct<name:string,left:string>"),
        ({"$ref": "leg.json"}, "struct<to:string>"),
        ({"$ref": "leg.json#/properties/to"}, "string"),
        ({"$ref": "nowhere.json"}, "string"),
    ],
    ids=str,
)
def test_a_part_has_the_type_that_holds_it(part: Any, kind: str) -> None:
    leg = {"type": "object", "properties": {"to": {"type": "string"}}}
    tree = {"type": "object", "properties": {"name": {"type": "string"}, "left": {"$ref": "#/definitions/Tree"}}}
    whole = {"type": "object", "properties": {"a": part}, "definitions": {"Leg": leg, "Tree": tree}}
    assert kind_of(whole, leg_json=leg) == f"struct<a:{kind}>"


def test_what_makes_no_columns_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="describes no object with properties"):
        kind_of({"type": "string"})
