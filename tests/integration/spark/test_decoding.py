"""The code of docs/guides/decoding.md, run on real records: JSON, Avro, Avro behind a schema registry's five bytes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.load import shape
from airflow_kafka_offsets.spark.published import read_published
from dev import ROOT
from tests.integration.conftest import Produce
from tests.integration.spark.conftest import MakeFlights, OpenWindow
from tests.integration.spark.publishing import load
from tests.unit.spark.manifests import FIVE_MS, manifest_of

PAGE = (ROOT / "docs" / "guides" / "decoding.md").read_text(encoding="utf-8")
SQUAWKING = """
{"type": "record", "name": "Flight", "fields": [
  {"name": "icao24", "type": "string"},
  {"name": "altitude_m", "type": "int"},
  {"name": "squawk", "type": ["null", "string"], "default": null}
]}
"""


def avro(icao24: str, altitude_m: int) -> bytes:
    """A record of the page's schema by Avro's specification: a length and text, and an int below 64, both zigzag."""
    return text(icao24) + bytes([2 * altitude_m])


def text(content: str) -> bytes:
    return bytes([2 * len(content)]) + content.encode()


def registered(schema_id: int, content: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + content


JSON = [b'{"icao24": "3c0001", "altitude_m": 7}', b"not JSON", None, b"", b" "]
FROM_JSON = [("3c0001", 7, None), (None, None, "not JSON"), None, (None, None, ""), (None, None, " ")]
"""What becomes of it; only a tombstone becomes null."""
AVRO = [avro("3c0001", 7), avro("3c0002", 8), None]
REGISTERED = [
    registered(7, avro("3c0001", 7)),
    registered(70_000, avro("3c0002", 8) + b"\x02" + text("7700")),
    registered(11, avro("3c0003", 9)),
    b"unframed",
    None,
]


@pytest.fixture(scope="module")
def topic(make_flights: MakeFlights, produce: Produce) -> str:
    """A partition for each of the three."""
    name = make_flights({0: 0, 1: 0, 2: 0})
    for partition, values in enumerate((JSON, AVRO, REGISTERED)):
        produce(name, partition, [(FIVE_MS, b"N1", value) for value in values])
    return name


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the page's code defines."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        if "def " in block:
            exec(compile(block, "docs/guides/decoding.md", "exec"), names)
    return names


def test_json_that_cannot_be_parsed_keeps_its_text(
    spark: SparkSession, open_window: OpenWindow, page: dict[str, Any], topic: str, table: str, ledger: Path
) -> None:
    load(open_window(manifest_of([(topic, 0, 0, 5)])), table, page["with_json"])
    rows = read_published(spark, f"file://{ledger}").orderBy("offset").collect()
    assert [row.flight and tuple(row.flight) for row in rows] == FROM_JSON


def test_the_ready_made_load_keeps_the_same_of_json(open_window: OpenWindow, topic: str) -> None:
    records = open_window(manifest_of([(topic, 0, 0, 5)])).read()
    shaped = shape(records, key_as="binary", value_as="binary", json_schema="icao24 STRING, altitude_m INT")
    assert [row.value and tuple(row.value) for row in shaped.orderBy("offset").collect()] == FROM_JSON


def test_avro_is_decoded(
    spark: SparkSession, open_window: OpenWindow, page: dict[str, Any], topic: str, table: str, ledger: Path
) -> None:
    load(open_window(manifest_of([(topic, 1, 0, 3)])), table, page["with_avro"])
    rows = read_published(spark, f"file://{ledger}").orderBy("offset").collect()
    assert [row.flight and tuple(row.flight) for row in rows] == [("3c0001", 7), ("3c0002", 8), None]


def test_avro_of_several_registered_schemas_becomes_one_struct(
    spark: SparkSession, open_window: OpenWindow, page: dict[str, Any], topic: str, table: str, ledger: Path
) -> None:
    schemas = {7: page["FLIGHT"], 70_000: SQUAWKING}
    window = open_window(manifest_of([(topic, 2, 0, 5)]))
    load(window, table, lambda rows: page["with_registered_avro"](rows, schemas, SQUAWKING))
    rows = read_published(spark, f"file://{ledger}").orderBy("offset").collect()
    assert [(row.schema_id, row.flight and tuple(row.flight)) for row in rows] == [
        (7, ("3c0001", 7, None)),
        (70_000, ("3c0002", 8, "7700")),
        (11, None),
        (None, None),
        (None, None),
    ]
    assert [row.value and bytes(row.value) for row in rows] == REGISTERED
