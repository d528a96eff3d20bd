"""The ready-made load: windows of Kafka records into a table. Run it with spark-submit.

The table has Kafka's own columns: ``key``, ``value``, ``topic``, ``partition``, ``offset``, ``timestamp``,
``timestampType``. Key and value stay binary by default: the exact bytes in Kafka, whatever their encoding.

For each window, a line on stdout has the outcome as JSON. An error of this package prints one line, one for each
window that has failed, and exits with status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.offsets.proof.driver_notes import exit_line
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.spark.decoding import CORRUPT, decode_json, decode_text
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.sinks.kinds import SINKS
from airflow_kafka_offsets.spark.windows import load_windows

_GLUES = {
    *("--JOB_ID", "--JOB_RUN_ID", "--JOB_NAME", "--TempDir", "--RedshiftTempDir", "--SECURITY_CONFIGURATION"),
    *("--encryption-type", "--continuation-option", "--airflow_task_uuid", "--scriptLocation", "--job-language"),
    *("--conf", "--extra-py-files", "--extra-jars", "--extra-files"),
    *("--job-bookmark-option", "--job-bookmark-from", "--job-bookmark-to"),
}
"""Arguments that AWS Glue adds to a script's own, as listed in its library awsglue.utils, and one that Airflow's Glue
operator adds; some take a value."""


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="load.py", description="Load a pinned window of Kafka records into a table.")
    parser.add_argument("--output", required=True, help="the table: its folder or its name")
    parser.add_argument("--sink", choices=tuple(SINKS), default="parquet", help="what the table is; default: parquet")
    parser.add_argument("--key-as", choices=("binary", "string"), default="binary", help="type of the column key")
    value = parser.add_mutually_exclusive_group()
    value.add_argument("--value-as", choices=("binary", "string"), default="binary", help="type of the column value")
    value.add_argument(
        "--json-schema",
        metavar="DDL",
        help="parse the value as JSON into a struct of this schema ('icao24 STRING, altitude_m DOUBLE'); the text of a "
        f"malformed value is kept in its field {CORRUPT}",
    )
    parser.add_argument("--headers", action="store_true", help="add the column headers")
    parser.add_argument("--min-partitions", type=int, help="split ranges into at least so many tasks; default: by plan")
    parser.add_argument("--max-records-per-partition", type=int, help="offsets that one task reads at most")
    given, others = parser.parse_known_args(argv)
    unknown = _without_glues(others)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return given


def _without_glues(words: Sequence[str]) -> Sequence[str]:
    """The words that the parser doesn't know, except those that AWS Glue adds to every script's arguments."""
    if "--JOB_RUN_ID" not in words:
        return words
    names = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [name for name in names if name not in _GLUES and not name.startswith("--enable-")]


def shape(rows: DataFrame, *, key_as: str, value_as: str, json_schema: str | None) -> DataFrame:
    """Decode key and value to the requested types; refuse an invalid JSON schema."""
    if key_as == "string":
        rows = decode_text(rows, "key")
    if json_schema is not None:
        try:
            return decode_json(rows, json_schema)
        except ConfigurationError as error:
            raise ConfigurationError(f"--json-schema: {error}") from error
    return decode_text(rows, "value") if value_as == "string" else rows


def load(window: PinnedWindow, arguments: argparse.Namespace) -> RunResult:
    """Load a window."""
    given = {
        "minPartitions": arguments.min_partitions,
        "maxRecordsPerPartition": arguments.max_records_per_partition,
        "includeHeaders": "true" if arguments.headers else None,
    }
    options: dict[str, Any] = {name: str(value) for name, value in given.items() if value is not None}
    with window.failures_noted():
        print(window.plan(**options), file=sys.stderr, flush=True)
        rows = window.read(**options)
        shaped = shape(rows, key_as=arguments.key_as, value_as=arguments.value_as, json_schema=arguments.json_schema)
        return window.write(shaped, SINKS[arguments.sink](arguments.output))


def outcome(result: RunResult) -> dict[str, Any]:
    """What was written, in short; the ledger has the counts of each partition."""
    return {
        "attempt": result.attempt,
        "run": result.run,
        "rows": result.rows_written,
        "output": result.output,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """The application."""
    arguments = parse_arguments(argv)
    spark = SparkSession.builder.appName("kafka-offsets-load").getOrCreate()
    try:
        load_windows(spark, lambda window: print(json.dumps(outcome(load(window, arguments))), flush=True))
    except KafkaOffsetsError as error:
        sys.exit(exit_line(error))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
