"""Decodes values with a Spark of any version, as a program of its own.

    python decode_values.py avro.jar '[["avro", ["schema…"], ["value…"]], …]'

Rows come out as JSON, a list for each. Schemas have the ids 1, 2, …, and are read as the last one; values are in
hexadecimal.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.values.decoding import decode_column
from airflow_kafka_offsets.spark.values.formats import ValueFormat
from airflow_kafka_offsets.spark.values.registry import RegisteredSchema
from airflow_kafka_offsets.spark.values.subjects import SubjectSchemas

HEADERS = "cast(NULL AS array<struct<key: string, value: binary>>) AS headers"


def decoded(spark: SparkSession, name: Any, schemas: list[str], values: list[str]) -> list[Any]:
    """The value, the error and the schema id of each row."""
    form = ValueFormat(name)
    registered = [
        RegisteredSchema(number, None, number, str(form.registered), text)
        for number, text in enumerate(schemas, start=1)
    ]
    known = SubjectSchemas(registered[-1], registered, {each.id: {} for each in registered})
    rows = spark.createDataFrame([(value,) for value in values], "value string")
    found = decode_column(rows.selectExpr("unhex(value) AS value", HEADERS), "value", form, known)
    columns = found.selectExpr("to_json(value) AS value", "value_error", "value_schema_id")
    return [[json.loads(value or "null"), error, number] for value, error, number in columns.collect()]


def main(jar: str, told: str) -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jar)
    spark = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
    print(json.dumps([decoded(spark, *each) for each in json.loads(told)]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
