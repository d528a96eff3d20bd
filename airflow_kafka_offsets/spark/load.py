"""The ready-made load: windows of Kafka records into a table. Run it with spark-submit.

The table has Kafka's own columns: ``key``, ``value``, ``topic``, ``partition``, ``offset``, ``timestamp``,
``timestampType``. Key and value stay binary by default: the exact bytes in Kafka. Decoded, they have the columns beside
them that :mod:`airflow_kafka_offsets.spark.values.columns` describes.

For each window, a line on stdout has the outcome as JSON. An error of this package prints one line, one for each
window that has failed, and exits with status 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.offsets.proof.driver_notes import exit_line
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import topics_read
from airflow_kafka_offsets.spark.pinned import Decoder, PinnedWindow, decoders, topics_together
from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink
from airflow_kafka_offsets.spark.sinks.file_sink import FILE_FORMATS, FileSink
from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink
from airflow_kafka_offsets.spark.sinks.sink import AUDITED, OWN_COLUMNS, Sink
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.spark.values.columns import (
    copied,
    dead_letters,
    failing,
    flattened,
    undecodable,
    undecodable_explained,
    without_errors,
)
from airflow_kafka_offsets.spark.values.formats import DEAD_LETTERS, argument_named
from airflow_kafka_offsets.spark.values.framing import HEADERS
from airflow_kafka_offsets.spark.window.kept_records import Part, parts_of, write_records
from airflow_kafka_offsets.spark.window.proved_write import placed
from airflow_kafka_offsets.spark.windows import load_windows

SINKS: Mapping[str, Callable[[str], Sink]] = {
    **{kind: partial(FileSink, file_format=kind) for kind in FILE_FORMATS},
    **{sink.kind: sink for sink in (DeltaSink, IcebergSink)},
}
"""By ``--sink``; each is made from its output: a folder, or a table's path or name."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """How the load makes a table's rows from records.

    :param table: the load's arguments.
    :param decode: decodes key and value.
    """

    table: TableLoad
    decode: Decoder

    def rows(self, records: DataFrame) -> DataFrame:
        """The rows of the table."""
        rows = self.decode(records)
        if self.table.bad_records == "fail":
            rows = failing(rows)
        elif self.table.bad_records == "dead-letter":
            rows = without_errors(rows.where(~undecodable(rows)))
        rows = rows if self.table.headers else rows.drop(HEADERS)
        if self.table.flatten is False:
            return rows
        with argument_named("flatten"):
            return flattened(rows, "" if self.table.flatten is True else self.table.flatten, OWN_COLUMNS)

    def dead_letters(self, records: DataFrame) -> DataFrame:
        """The rows of the table of dead letters."""
        rows = self.decode(copied(records))
        return dead_letters(rows.where(undecodable(rows)), records.columns)


def load(window: PinnedWindow, table: TableLoad) -> RunResult:
    """Load a window."""
    with window.failures_noted():
        needs_headers = table.headers or table.registered is not None
        given = {
            "minPartitions": table.min_partitions,
            "maxRecordsPerPartition": table.max_records_per_partition,
            "includeHeaders": "true" if needs_headers else None,
        }
        options: dict[str, Any] = {name: str(value) for name, value in given.items() if value is not None}
        print(f"{window.manifest.window}: {window.plan(**options)}", file=sys.stderr, flush=True)
        parts = _parts(window, table)
        rows = window.read(by_topic="" not in parts, **options)
        with undecodable_explained(window.manifest.window):
            return write_records(window, rows, parts)


def _parts(window: PinnedWindow, table: TableLoad) -> dict[str, Part]:
    """The tables: one, or one for each topic, decoded by schemas of its own; and that of the dead letters."""
    sink = SINKS[table.sink]
    with argument_named("output"):
        tables = parts_of(window, sink(table.output))
    together = {"": topics_together(window)}
    topics = together if "" in tables else {topic: [topic] for topic in topics_read(window.manifest)}
    shapings = {name: Shaping(table, decode) for name, decode in decoders(window, table.formats, topics).items()}
    parts = {
        name: replace(part, make=shapings[name].rows if name in shapings else _without_records)
        for name, part in tables.items()
    }
    if table.dead_letters is not None:
        with argument_named("dead_letters"):
            dead = placed(window, sink(table.dead_letters))[""]
        parts[DEAD_LETTERS] = Part(dead, partial(_dead_letters, shapings))
    return parts


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

    def load_and_tell(window: PinnedWindow) -> None:
        print(json.dumps(outcome(window.manifest.window, load(window, table))), flush=True)

    try:
        table = TableLoad.of_words(argv)
        spark = SparkSession.builder.appName("kafka-offsets-load").getOrCreate()
        try:
            load_windows(spark, load_and_tell)
        finally:
            spark.stop()
    except KafkaOffsetsError as error:
        sys.exit(exit_line(error))


if __name__ == "__main__":
    main()
