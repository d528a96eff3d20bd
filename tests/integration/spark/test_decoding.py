"""The code of docs/guides/decoding.md, run on real records: text, JSON, plain Avro. And what the page says of values
that don't fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession, functions as F

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark import FileSink, ValueFormat, read_published
from airflow_kafka_offsets.spark.session.session import held
from airflow_kafka_offsets.spark.values.decoding import decode_column
from dev import ROOT
from tests.integration.conftest import Produce
from tests.integration.spark.conftest import MakeFlights, OpenWindow
from tests.integration.spark.publishing import load, load_rows
from tests.unit.spark.manifests import FIVE_MS, manifest_of

PAGE = (ROOT / "docs" / "guides" / "decoding.md").read_text(encoding="utf-8")


def avro(icao24: str, altitude_m: int) -> bytes:
    """A record of the page's schema by Avro's specification: a length and text, and an int below 64, both zigzag."""
    return text(icao24) + bytes([2 * altitude_m])


def text(content: str) -> bytes:
    return bytes([2 * len(content)]) + content.encode()


NOT_UTF8 = b'{"icao24": "\xff", "altitude_m": 7}'
JSON = [
    b'{"icao24": "3c0001", "altitude_m": 7}',
    b"not JSON",
    None,
    b"",
    b" ",
    b'{"icao24": "3c0002", "altitude_m": "high"}',
    NOT_UTF8,
    b"\xef\xbb\xbf{}",
]
KEYS = [b"N1", b"\xff\xfeN\x00", b"\xed\xa0\x80", "\u00e9".encode(), b"", None, b"a\x00b", b"N8"]
TEXTS = ["N1", None, None, "\u00e9", "", None, "a\x00b", "N8"]
"""The keys beside the JSON. Two aren't UTF-8: one is UTF-16, one has half of a surrogate pair."""
CHANGED = [
    ('{"x": 1.239}', "x DECIMAL(5,2)", "1.24"),
    ('{"x": 1e400}', "x DOUBLE", "Infinity"),
    ('{"x": 16777217}', "x FLOAT", "1.6777216E7"),
    ('{"x": 5.10}', "x STRING", "5.1"),
    ('{"x": 1795154400}', "x TIMESTAMP", "2026-11-20 06:00:00"),
    ('{"x": "2026-11-20T06:00:00.123456789Z"}', "x TIMESTAMP", "2026-11-20 06:00:00.123456"),
    ('{"x": "\\ud800"}', "x STRING", "?"),
    ('{"x": null}', "x INT NOT NULL", None),
    ('{"x": 1, "x": 2}', "x INT", "2"),
    ('{"x": 1} {"x": 2}', "x INT", "1"),
]
"""Values that Spark takes for JSON of a schema, and changes, as docs/guides/decoding.md says."""
AVRO = [avro("3c0001", 7), avro("3c0002", 8), None, b"\xff\xff", b""]
ALL_OPTIONAL = """
{"type": "record", "name": "Flight", "fields": [
  {"name": "icao24", "type": ["null", "string"], "default": null},
  {"name": "squawk", "type": ["null", "string"], "default": null}
]}
"""


@pytest.fixture(scope="module")
def topic(make_flights: MakeFlights, produce: Produce) -> str:
    """A partition for each of the two."""
    name = make_flights({0: 0, 1: 0})
    produce(name, 0, [(FIVE_MS, key, value) for key, value in zip(KEYS, JSON, strict=True)])
    produce(name, 1, [(FIVE_MS, b"N1", value) for value in AVRO])
    return name


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the page's code defines."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        if "def " in block:
            exec(compile(block, "docs/guides/decoding.md", "exec"), names)
    return names


@pytest.fixture
def published(
    spark: SparkSession, open_window: OpenWindow, topic: str, table: str, ledger: Path
) -> Callable[..., list[Row]]:
    """Load a partition with a function of the page; what readers get of it."""

    def load_and_read(partition: int, values: list[Any], decode: Callable[[DataFrame], DataFrame]) -> list[Row]:
        load(open_window(manifest_of([(topic, partition, 0, len(values))])), table, decode, includeHeaders="true")
        return read_published(spark, f"file://{ledger}").orderBy("offset").collect()

    return load_and_read


class TestTextAndJson:
    def test_the_ready_made_load_keeps_the_bytes_and_the_reason(self, open_window: OpenWindow, topic: str) -> None:
        """A value is then null if any of it doesn't fit."""
        window = open_window(manifest_of([(topic, 0, 0, len(JSON))]))
        json = ValueFormat("json", "icao24 STRING, altitude_m INT")
        rows = window.decode(window.read(), key="string", value=json).orderBy("offset").collect()
        fits = [(tuple(row.value) if row.value else None, row.value_error) for row in rows]
        not_json, not_text = "it isn't JSON of the schema", "it isn't UTF-8"
        errors = [None, not_json, None, not_json, not_json, not_json, not_text, not_json]
        assert fits == [(("3c0001", 7) if number == 0 else None, error) for number, error in enumerate(errors)]
        assert [row.raw_value and bytes(row.raw_value) for row in rows] == [
            value if error else None for value, error in zip(JSON, errors, strict=True)
        ]
        assert [row.key for row in rows] == TEXTS

    @pytest.mark.parametrize("sink", ["parquet", "json"])
    def test_values_as_text_can_be_turned_into_the_same_bytes(
        self, spark: SparkSession, open_window: OpenWindow, topic: str, table: str, ledger: Path, sink: str
    ) -> None:
        window = open_window(manifest_of([(topic, 0, 0, len(JSON))]))
        rows = window.decode(window.read(), key="string", value="string")
        load_rows(window, rows, FileSink(table, sink))  # type: ignore[arg-type]  # both are
        found = spark.read.schema(rows.schema).format(sink).load(f"{table}/*/*").orderBy("offset").collect()
        assert _restored(found, "value") == JSON
        assert _restored(found, "key") == KEYS

    def test_what_spark_changes_is_on_the_page(self, spark: SparkSession) -> None:
        """In UTC, as the page says."""
        with held(spark, "spark.sql.session.timeZone", lambda _: "UTC"):
            for text, schema, expected in CHANGED:
                rows = decode_column(_values(spark, text.encode()), "value", ValueFormat("json", schema), None)
                (row,) = rows.selectExpr("string(value.x) AS x", "value_error").collect()
                assert tuple(row) == (expected, None), text

    def test_a_time_without_a_date_is_one_of_the_day_of_the_load(self, spark: SparkSession) -> None:
        with held(spark, "spark.sql.session.timeZone", lambda _: "UTC"):
            rows = decode_column(_values(spark, b'{"x": "06:30"}'), "value", ValueFormat("json", "x TIMESTAMP"), None)
            before = datetime.now(UTC)
            (row,) = rows.selectExpr("string(value.x) AS x", "value_error").collect()
        assert tuple(row) in [(f"{day:%Y-%m-%d} 06:30:00", None) for day in (before, datetime.now(UTC))]

    @pytest.mark.parametrize(
        ("schema", "said"),
        [
            ("no schema at, all", "^The schema 'no schema at, all' can't be parsed"),
            ("a INT, _corrupt_record STRING", "_corrupt_record twice, as we add one"),
            ("a INT, b STRUCT<c: INT, _Corrupt_Record: INT>, A INT", "the field a twice"),
            ("a ARRAY<STRUCT<c: INT, C: INT>>", "the field c twice"),
            ("a MAP<STRING, STRUCT<c: INT, C: INT>>", "the field c twice"),
        ],
    )
    def test_a_schema_that_no_table_can_have_is_refused(self, spark: SparkSession, schema: str, said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            decode_column(_values(spark, b"{}"), "value", ValueFormat("json", schema), None)

    @pytest.mark.parametrize("schema", ["x TINYINT", "a INT, x ARRAY<STRUCT<c: MAP<STRING, TINYINT>>>"])
    def test_a_type_as_which_spark_reads_other_numbers_is_refused(self, spark: SparkSession, schema: str) -> None:
        """Its parser takes 128 to 255 for negative numbers."""
        (read,) = (
            _values(spark, b'{"x": 200}').select(F.from_json(F.col("value").cast("string"), "x TINYINT").x).first()
        )
        assert read == -56
        with pytest.raises(ConfigurationError, match=r"TINYINT, .* Name it SMALLINT"):
            decode_column(_values(spark, b"{}"), "value", ValueFormat("json", schema), None)


class TestAvro:
    def test_what_does_not_match_becomes_null(self, published: Callable[..., list[Row]], page: dict[str, Any]) -> None:
        rows = published(1, AVRO, page["with_avro"])
        assert [row.flight and tuple(row.flight) for row in rows] == [("3c0001", 7), ("3c0002", 8), None, None, None]
        assert [row.value and bytes(row.value) for row in rows] == [
            value if value else None if value is None else bytearray() for value in AVRO
        ]

    def test_a_record_of_nulls_is_not_null(self, spark: SparkSession, page: dict[str, Any]) -> None:
        names = page | {"FLIGHT": ALL_OPTIONAL}
        exec(re.search(r"def with_avro.*?\n(?=```)", PAGE, flags=re.DOTALL).group(), names)  # type: ignore[union-attr]
        rows = names["with_avro"](_values(spark, b"\x00\x00", b"\x00\x04")).collect()
        assert [row.flight and tuple(row.flight) for row in rows] == [(None, None), None]


def _restored(rows: list[Row], column: str) -> list[bytes | None]:
    """A column's bytes, from its text or from what wasn't text."""
    found = [(row[column], row[f"raw_{column}"]) for row in rows]
    return [raw and bytes(raw) if text is None else text.encode() for text, raw in found]


def _values(spark: SparkSession, *values: bytes) -> DataFrame:
    return spark.createDataFrame([(bytearray(value),) for value in values], "value BINARY")
