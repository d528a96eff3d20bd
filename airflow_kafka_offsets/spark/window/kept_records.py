"""Kept records: each record of a window stays a row, so that the output proves the read."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import AUDITED, OWN_COLUMNS, Attempt, Sink, rows_of
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.window.counts import count_run, refuse_uncountable
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.window.proved_write import files_of_output, load, require_kind, run_result, source_of


def write_records(window: PinnedRead, rows: DataFrame, sink: Sink) -> RunResult:
    """See :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.write`."""
    require_kind(sink)
    _check_columns(rows)
    refuse_uncountable(window, rows)
    return load(window, {"": sink}, partial(_write, window, rows, sink))


def _check_columns(rows: DataFrame) -> None:
    kinds = dict(rows.dtypes)
    wrong = [f"{name} {kind}" for name, kind in AUDITED.items() if kinds.get(name) != kind]
    if wrong:
        raise ConfigurationError(
            f"The rows to write must keep the columns {', '.join(wrong)}: the audit counts by them."
        )
    found = sorted(OWN_COLUMNS & {name.lower() for name in kinds})
    if found:
        raise ConfigurationError(f"The rows to write have a column {found[0]}: that name is reserved for the output.")


def _write(window: PinnedRead, rows: DataFrame, sink: Sink, attempt: Attempt) -> RunResult:
    """Write, count what was read and written, and ask Kafka whether the rows came from the window's own topics."""
    started = time.monotonic()
    with window.reading():
        place = sink.replace(rows, attempt)
    output = rows_of(sink, window.spark, attempt, place)
    counted = partial(count_run, window, rows, output, sampled=isinstance(sink, FileSink | TableSink))
    if window.may_have_gaps:  # ask about gaps first: the topic check that follows then covers that answer too
        counts, source = counted(), source_of(window)
    else:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(source_of, window)
            counts, source = counted(), asked.result()
    return run_result(
        window,
        attempt,
        counts,
        started,
        output=place,
        sink=sink.kind,
        apart=sink.keeps_attempts_apart,
        files=files_of_output(sink, output, place),
        source=source,
    )
