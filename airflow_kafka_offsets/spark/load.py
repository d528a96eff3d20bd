"""The ready-made load: windows of Kafka records into a table. Run it with spark-submit.

The table has Kafka's own columns: ``key``, ``value``, ``topic``, ``partition``, ``offset``, ``timestamp``,
``timestampType``. Key and value stay binary by default: the exact bytes in Kafka. Decoded, they have the columns beside
them that :mod:`airflow_kafka_offsets.spark.values.columns` describes.

For each window, a line on stdout has the outcome as JSON. An error of this package prints one line, one for each
window that has failed, and exits with status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.offsets.proof.driver_notes import exit_line
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.sinks.kinds import SINKS
from airflow_kafka_offsets.spark.sinks.places import is_by_topic
from airflow_kafka_offsets.spark.sinks.sink import OWN_COLUMNS, Sink
from airflow_kafka_offsets.spark.values.columns import (
    copied,
    dead_letters,
    failing,
    flattened,
    undecodable,
    undecodable_explained,
    without_errors,
)
from airflow_kafka_offsets.spark.values.formats import (
    BAD_RECORDS,
    DEAD_LETTER,
    DEAD_LETTERS,
    FAIL,
    FORMATS,
    KEEP,
    ValueFormat,
)
from airflow_kafka_offsets.spark.values.framing import HEADERS
from airflow_kafka_offsets.spark.window.derived import Derived
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
    parser.add_argument(
        "--output",
        required=True,
        help="the table: its folder or its name, in which {topic} and {pipeline} stand for those; with {topic}, each "
        "topic has a table of its own",
    )
    parser.add_argument("--sink", choices=tuple(SINKS), default="parquet", help="what the table is; default: parquet")
    parser.add_argument("--key-format", choices=FORMATS, default="binary", help="what keys are; default: binary")
    parser.add_argument("--value-format", choices=FORMATS, help="what values are; default: binary")
    parser.add_argument(
        "--json-schema",
        metavar="DDL",
        help="the fields of JSON values, whose format is then json: 'icao24 STRING, altitude_m DOUBLE'",
    )
    parser.add_argument("--value-subject", help="the registry's subject; default: {topic}-value")
    parser.add_argument(
        "--value-version", type=int, help="version of the subject that values are read as; default: the newest"
    )
    parser.add_argument("--value-message", help="full name of the Protobuf message; default: the first of its file")
    parser.add_argument(
        "--flatten", nargs="?", const="", metavar="PREFIX", help="the fields of the value become columns, so prefixed"
    )
    parser.add_argument(
        "--bad-records",
        nargs="+",
        default=["keep"],
        metavar="HOW",
        help="what can't be decoded: keep (default) it in its row, beside the reason; dead-letter OUTPUT: write it "
        "there as it was, in the kind of table of --sink; fail",
    )
    parser.add_argument("--headers", action="store_true", help="add the column headers")
    parser.add_argument("--min-partitions", type=int, help="split ranges into at least so many tasks; default: by plan")
    parser.add_argument("--max-records-per-partition", type=int, help="offsets that one task reads at most")
    given, others = parser.parse_known_args(argv)
    unknown = _without_glues(others)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    how, *output = given.bad_records
    if how not in BAD_RECORDS or len(output) != (how == DEAD_LETTER):
        parser.error(f"--bad-records takes {KEEP}, {FAIL} or {DEAD_LETTER} OUTPUT, not {' '.join(given.bad_records)}")
    return given


def _without_glues(words: Sequence[str]) -> Sequence[str]:
    """The words that the parser doesn't know, except those that AWS Glue adds to every script's arguments."""
    if "--JOB_RUN_ID" not in words:
        return words
    names = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [name for name in names if name not in _GLUES and not name.startswith("--enable-")]


def formats_of(arguments: argparse.Namespace) -> dict[str, ValueFormat]:
    """The formats of key and value.

    :raises ConfigurationError: arguments contradict each other.
    """
    value = ValueFormat(
        arguments.value_format or ("binary" if arguments.json_schema is None else "json"),
        schema=arguments.json_schema,
        subject=arguments.value_subject,
        version=arguments.value_version,
        message=arguments.value_message,
    )
    return {"key": ValueFormat(arguments.key_format), "value": value}


@dataclass(frozen=True, slots=True)
class Shaping:
    """How the load makes its rows from a window's records.

    :param flatten: begins the names of the value's fields as columns; None for one column.
    :param with_headers: the table has the column ``headers``.
    """

    window: PinnedWindow
    formats: Mapping[str, ValueFormat]
    flatten: str | None
    with_headers: bool

    def decoded(self, records: DataFrame) -> DataFrame:
        """Key and value decoded, with the columns that tell of what couldn't be."""
        return self.window.decode(records, **self.formats)

    def shaped(self, rows: DataFrame) -> DataFrame:
        """The columns of the table."""
        rows = rows if self.with_headers else rows.drop(HEADERS)
        return rows if self.flatten is None else flattened(rows, self.flatten, OWN_COLUMNS)


def load(window: PinnedWindow, arguments: argparse.Namespace) -> RunResult:
    """Load a window."""
    with window.failures_noted():
        formats = formats_of(arguments)
        needs_headers = arguments.headers or any(form.registered for form in formats.values())
        given = {
            "minPartitions": arguments.min_partitions,
            "maxRecordsPerPartition": arguments.max_records_per_partition,
            "includeHeaders": "true" if needs_headers else None,
        }
        options: dict[str, Any] = {name: str(value) for name, value in given.items() if value is not None}
        print(window.plan(**options), file=sys.stderr, flush=True)
        shaping = Shaping(window, formats, arguments.flatten, arguments.headers)
        how, *places = arguments.bad_records
        if how != KEEP and all(form.name == "binary" for form in formats.values()):
            raise ConfigurationError(f"--bad-records {how}: key and value stay binary, so that nothing is decoded.")
        sink = SINKS[arguments.sink]
        if how == DEAD_LETTER:
            return _with_dead_letters(shaping, sink(arguments.output), sink(places[0]), options)
        rows = shaping.decoded(window.read(by_topic=is_by_topic(arguments.output), **options))
        if how == KEEP:
            return window.write(shaping.shaped(rows), sink(arguments.output))
        with undecodable_explained(window.manifest.window):
            return window.write(shaping.shaped(failing(rows)), sink(arguments.output))


def _with_dead_letters(shaping: Shaping, sink: Sink, dead: Sink, options: Mapping[str, str]) -> RunResult:
    """Write what can be decoded into one output and the rest, as it was, into another."""

    def good(records: DataFrame) -> DataFrame:
        rows = shaping.decoded(records)
        return shaping.shaped(without_errors(rows.where(~undecodable(rows))))

    def bad(records: DataFrame) -> DataFrame:
        rows = shaping.decoded(copied(records))
        return dead_letters(rows.where(undecodable(rows)), records.columns)

    return shaping.window.write_derived(good, sink, options=options, **{DEAD_LETTERS: Derived(bad, dead)})


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
