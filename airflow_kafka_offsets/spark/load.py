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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.offsets.proof.driver_notes import exit_line
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.sinks.kinds import SINKS
from airflow_kafka_offsets.spark.sinks.sink import AUDITED, OWN_COLUMNS
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
    argument_named,
)
from airflow_kafka_offsets.spark.values.framing import HEADERS
from airflow_kafka_offsets.spark.window.kept_records import Part, parts_of, write_records
from airflow_kafka_offsets.spark.window.proved_write import placed
from airflow_kafka_offsets.spark.window.typed import Decoder, decoders
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
    parser.add_argument(
        "--value-subject",
        nargs="+",
        help="the registry's subjects, that of the column's type first; default: {topic}-value",
    )
    parser.add_argument(
        "--value-version", type=_count, help="version of the subject that values are read as; default: the newest"
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
    parser.add_argument(
        "--min-partitions", type=_count, help="split ranges into at least so many tasks; default: by plan"
    )
    parser.add_argument("--max-records-per-partition", type=_count, help="offsets that one task reads at most")
    given, others = parser.parse_known_args(argv)
    unknown = _without_glues(others)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    how, *output = given.bad_records
    if how not in BAD_RECORDS or len(output) != (how == DEAD_LETTER):
        parser.error(f"--bad-records takes {KEEP}, {FAIL} or {DEAD_LETTER} OUTPUT, not {' '.join(given.bad_records)}")
    return given


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} isn't a number above 0")
    return int(text)


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
    with argument_named("--key-format"):
        key = ValueFormat(arguments.key_format)
    with argument_named("--value-format"):
        value = ValueFormat(
            arguments.value_format or ("binary" if arguments.json_schema is None else "json"),
            schema=arguments.json_schema,
            subject=arguments.value_subject,
            version=arguments.value_version,
            message=arguments.value_message,
        )
    return {"key": key, "value": value}


@dataclass(frozen=True, slots=True)
class Shaping:
    """How the load makes a table's rows from records.

    :param decoders: decode key and value, by the arguments that say how.
    :param flatten: begins the names of the value's fields as columns; None for one column.
    :param with_headers: the table has the column ``headers``.
    :param bad_records: what becomes of those that can't be decoded.
    """

    decoders: Mapping[str, Decoder]
    flatten: str | None
    with_headers: bool
    bad_records: str = KEEP

    def rows(self, records: DataFrame) -> DataFrame:
        """The rows of the table."""
        rows = self._decoded(records)
        if self.bad_records == FAIL:
            rows = failing(rows)
        elif self.bad_records == DEAD_LETTER:
            rows = without_errors(rows.where(~undecodable(rows)))
        rows = rows if self.with_headers else rows.drop(HEADERS)
        if self.flatten is None:
            return rows
        with argument_named("--flatten"):
            return flattened(rows, self.flatten, OWN_COLUMNS)

    def dead_letters(self, records: DataFrame) -> DataFrame:
        """The rows of the table of dead letters."""
        rows = self._decoded(copied(records))
        return dead_letters(rows.where(undecodable(rows)), records.columns)

    def _decoded(self, records: DataFrame) -> DataFrame:
        for argument, decode in self.decoders.items():
            with argument_named(argument):
                records = decode(records)
        return records


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
        print(f"{window.manifest.window}: {window.plan(**options)}", file=sys.stderr, flush=True)
        parts = _parts(window, arguments, formats)
        rows = window.read(by_topic="" not in parts, **options)
        with undecodable_explained(window.manifest.window):
            return write_records(window, rows, parts)


def _parts(window: PinnedWindow, arguments: argparse.Namespace, formats: Mapping[str, ValueFormat]) -> dict[str, Part]:
    """The tables: one, or one for each topic, decoded by schemas of its own; and that of the dead letters."""
    how, *places = arguments.bad_records
    if how != KEEP and all(form.name == "binary" for form in formats.values()):
        raise ConfigurationError(f"--bad-records: {how} says nothing, as key and value stay binary.")
    sink = SINKS[arguments.sink]
    with argument_named("--output"):
        tables = parts_of(window, sink(arguments.output))
    with argument_named("--bad-records"):
        dead = placed(window, sink(places[0])) if places else {}
        if dead.keys() - {""}:
            raise ConfigurationError("The dead letters of all topics go to one table, without {topic} in its name.")
    shapings = {
        topic: Shaping(found, arguments.flatten, arguments.headers, how)
        for topic, found in _decoders(window, formats, by_topic="" not in tables).items()
    }
    parts = {
        name: replace(part, make=shapings[name].rows if name in shapings else _without_records)
        for name, part in tables.items()
    }
    return parts | ({DEAD_LETTERS: Part(dead[""], partial(_dead_letters, shapings))} if dead else {})


def _decoders(
    window: PinnedWindow, formats: Mapping[str, ValueFormat], *, by_topic: bool
) -> dict[str, dict[str, Decoder]]:
    """What decodes the records of each topic that is read, or of all (an empty name), by the argument that says how."""
    found: dict[str, dict[str, Decoder]] = defaultdict(dict)
    for column, form in formats.items():
        argument = "--json-schema" if form.schema is not None else f"--{column}-format"
        with argument_named(argument):
            for topic, decode in decoders(window, {column: form}, by_topic=by_topic).items():
                found[topic][argument] = decode
    return found


def _without_records(rows: DataFrame) -> DataFrame:
    """No rows, with columns that fit any table: without records, a topic may have no schema yet."""
    return rows.select(*AUDITED)


def _dead_letters(shapings: Mapping[str, Shaping], rows: DataFrame) -> DataFrame:
    if not shapings:
        return rows
    own = (
        shaping.dead_letters(rows.where(F.col("topic") == topic) if topic else rows)
        for topic, shaping in shapings.items()
    )
    return reduce(DataFrame.unionAll, own)


def outcome(window: str, result: RunResult) -> dict[str, Any]:
    """What was written, in short; the ledger has the counts of each partition."""
    return {
        "window": window,
        "attempt": result.attempt,
        "run": result.run,
        "rows": result.rows_written,
        "outputs": [each.output for each in result.outputs],
    }


def main(argv: Sequence[str] | None = None) -> None:
    """The application."""
    arguments = parse_arguments(argv)

    def load_and_tell(window: PinnedWindow) -> None:
        print(json.dumps(outcome(window.manifest.window, load(window, arguments))), flush=True)

    spark = SparkSession.builder.appName("kafka-offsets-load").getOrCreate()
    try:
        load_windows(spark, load_and_tell)
    except KafkaOffsetsError as error:
        sys.exit(exit_line(error))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
