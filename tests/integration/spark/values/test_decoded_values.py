"""Values without Kafka around them, also with other Sparks than that of all other tests: evolution, dates before 1582,
and what can't be read."""

from __future__ import annotations

import io
import json
import os
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError
from dev import ROOT, jars
from dev.matrix_environments import Spark, spark_environment
from dev.spark_packages import scala_of
from tests.integration.spark.values.decode_values import decoded

PROGRAM = Path(__file__).parent / "decode_values.py"
SPARKS = [Spark("3.5.1", "3.10"), Spark("4.1.1", "3.10"), Spark("4.2.0", "3.11")]
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}
DAY = {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": -719162}
NAMED = {"name": "cents", "type": "long", "aliases": ["amount"]}
NEWEST = ORDER | {"fields": [NAMED, DAY]}
REFUND = ORDER | {"name": "Refund", "fields": [{"name": "cents", "type": "long"}]}
LACKING = ORDER | {"fields": [DAY]}


def framed(number: int, content: bytes) -> str:
    return (b"\x00" + number.to_bytes(4, "big") + content).hex()


def avro(number: int, schema: Any, **fields: Any) -> str:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(json.dumps(schema))), fields)
    return framed(number, buffer.getvalue())


def evolved_avro() -> tuple[list[str], list[str], list[Any]]:
    """Schemas, values and what they are read as: a renamed and wider field, a new one, a record of another name, a
    field that is lacking, a date of the year 1."""
    values = [
        avro(1, ORDER, amount=5),
        avro(2, REFUND, cents=6),
        avro(3, LACKING, day=date(2026, 1, 1)),
        avro(4, NEWEST, cents=2**40, day=date(1, 1, 1)),
        framed(4, b"\x02"),
    ]
    unread = "it isn't Avro of schema id {} that can be read as schema id 4"
    expected = [
        [{"cents": 5, "day": "0001-01-01"}, None, 1],
        [None, unread.format(2), None],
        [None, unread.format(3), None],
        [{"cents": 2**40, "day": "0001-01-01"}, None, 4],
        [None, "it isn't Avro of schema id 4", None],
    ]
    return list(map(json.dumps, (ORDER, REFUND, LACKING, NEWEST))), values, expected


def evolved_json() -> tuple[list[str], list[str], list[Any]]:
    """The same of JSON, where the newest schema decides."""
    older = {"type": "object", "properties": {"id": {"type": "string"}}}
    newest = {"type": "object", "properties": {"id": {"type": "integer"}, "a.b": {"type": "string"}}}
    values = [
        framed(1, b'{"id": "one"}'),
        framed(2, b'{"id": 9007199254740993, "a.b": "x", "more": 1}'),
        framed(2, b'{"id": 9223372036854775808}'),
        framed(2, b'{"a.b": "\xff"}'),
        framed(2, b'{"id": ' + b"[" * 5000),
        framed(2, b" "),
    ]
    bad = [None, "it isn't JSON of schema id 2", None]
    expected = [
        [None, "it isn't JSON of schema id 1 that can be read as schema id 2", None],
        [{"id": 2**53 + 1, "a.b": "x"}, None, 2],
        *(bad for _ in range(4)),
    ]
    return list(map(json.dumps, (older, newest))), values, expected


EVOLVED = {"avro": evolved_avro(), "json-schema": evolved_json()}


@pytest.mark.parametrize("name", EVOLVED)
def test_values_are_read_by_the_rules_of_their_format(spark: SparkSession, name: str) -> None:
    schemas, values, expected = EVOLVED[name]
    assert decoded(spark, name, schemas, values) == expected


@pytest.mark.nightly("a driver of its own for each; the test above shows the same")
@pytest.mark.parametrize("version", SPARKS, ids=lambda each: each.version)
def test_another_spark_reads_them_alike(version: Spark) -> None:
    """In a program of its own."""
    python = spark_environment(version) / "bin" / "python"
    package = f"org.apache.spark:spark-avro_{scala_of(version.version)}:{version.version}"
    (jar,) = jars.retrieve(f"spark-avro-{version.version}", package).glob("spark-avro_*.jar")
    told = [[name, schemas, values] for name, (schemas, values, _) in EVOLVED.items()]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    command = [str(python), str(PROGRAM), str(jar), json.dumps(told)]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])  # Java may warn before
    assert found == [expected for _, _, expected in EVOLVED.values()]


@pytest.mark.parametrize(
    ("name", "schema", "said"),
    [
        ("avro", ORDER | {"fields": [{"name": each, "type": "int"} for each in ("id", "ID")]}, "the field id twice"),
        ("json-schema", {"properties": {"a": {"properties": {"b": {}, "B": {}}}}}, "the field b twice"),
        ("avro", ORDER | {"fields": [{"name": "next", "type": ["null", "Order"]}]}, "recursive reference"),
    ],
    ids=["avro", "json-schema", "within itself"],
)
def test_a_type_that_no_table_can_have_is_refused(spark: SparkSession, name: str, schema: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        decoded(spark, name, [json.dumps(schema)], [framed(1, b"")])
