"""Kept records: each record of a window stays a row, so that the output proves the read."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import OWN_COLUMNS, Attempt, Sink, audited_columns
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.window.counts import count_run, refuse_uncountable
from airflow_kafka_offsets.spark.window.ledger import PinnedFolder
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.window.proved_write import (
    KEPT_OUTPUTS,
    files_of_output,
    forget_hint,
    load_unless_published,
    overwritten,
    refuse_other_manifest,
    require_kind,
    run_result,
    source_of,
)
from airflow_kafka_offsets.spark.window.tally import scan


def write_records(window: PinnedRead, rows: DataFrame, sink: Sink) -> RunResult:
    """See :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.write`."""
    require_kind(sink)
    _check_columns(rows, audited_columns(window.strict_time))
    refuse_uncountable(window, rows)
    recorded, load = partial(_recorded, window, sink), partial(_load, window, rows, sink)
    return load_unless_published(window, {"": sink}, recorded, load)


def _check_columns(rows: DataFrame, kept: dict[str, str]) -> None:
    kinds = dict(rows.dtypes)
    wrong = [f"{name} {kind}" for name, kind in kept.items() if kinds.get(name) != kind]
    if wrong:
        raise ConfigurationError(
            f"The rows to write must keep the columns {', '.join(wrong)}: the audit counts by them."
        )
    found = sorted((OWN_COLUMNS - kept.keys()) & {name.lower() for name in kinds})
    if found:
        raise ConfigurationError(f"The rows to write have a column {found[0]}: that name is reserved for the output.")


def _recorded(
    window: PinnedRead, sink: Sink, folder: PinnedFolder, published: Publication, attempt: Attempt
) -> RunResult | None:
    """The counts of a publication that stays valid.

    :returns: None when other rows have replaced the published ones: another attempt has written beside or after them,
        and wasn't published. The window must then be loaded and published again.
    :raises LedgerConflictError: the sink doesn't hold the published rows as they were counted.
    """
    recorded, manifest = folder.published_result(published), window.manifest
    if published.manifest_sha256 == manifest.sha256:
        return _recounted(window, published, recorded, sink, attempt)
    refuse_other_manifest(published, window, attempt)
    in_place = published.sink == sink.kind and not sink.keeps_attempts_apart and not recorded.derived
    if published.revision < manifest.revision and in_place:
        found = _held(window, recorded, sink, attempt)
        if not found and recorded.written:
            raise _rows_gone(published, attempt, 0)
        return None if found != recorded.written else recorded
    return recorded


def _recounted(
    window: PinnedRead, published: Publication, recorded: RunResult, sink: Sink, attempt: Attempt
) -> RunResult | None:
    """The counts of a published window, if the sink holds its rows as they were counted; None if a table holds another
    attempt's rows."""
    name = attempt.window
    if recorded.derived:
        raise LedgerConflictError(
            f"Window {name} is published with rows that a job has derived ({published.rows} in {published.output}), "
            f"but this run writes its records. {KEPT_OUTPUTS}"
        )
    if published.sink != sink.kind:
        raise LedgerConflictError(
            f"Window {name} is published as {published.sink} in {published.output}, but this run writes "
            f"{sink.kind}. {KEPT_OUTPUTS}"
        )
    found = _held(window, recorded, sink, attempt)
    if found and overwritten(window, recorded.output, recorded, sink, attempt):
        return None
    if found != recorded.written:
        raise _rows_gone(published, attempt, sum(tally.count for tally in found))
    return recorded


def _rows_gone(published: Publication, attempt: Attempt, held: int) -> LedgerConflictError:
    """The error for published rows that this run's output doesn't hold."""
    return LedgerConflictError(
        f"Window {attempt.window} is published with {published.rows} rows in {published.output}, and the output of "
        f"this run holds {held} of them. {KEPT_OUTPUTS} {forget_hint(attempt)}"
    )


def _held(window: PinnedRead, recorded: RunResult, sink: Sink, attempt: Attempt) -> tuple[PartitionTally, ...]:
    """What the sink holds of the rows that a published attempt wrote."""
    published = replace(attempt, name=recorded.attempt, strict_time=recorded.strict_time)
    return scan(sink.read(window.spark, published), window.manifest).written


def _load(window: PinnedRead, rows: DataFrame, sink: Sink, _: PinnedFolder, attempt: Attempt) -> RunResult:
    """Write, count what was read and written, and ask Kafka whether the rows came from the window's own topics."""
    started = time.monotonic()
    with window.reading():
        place = sink.write(rows, attempt)
    output = sink.read(window.spark, replace(attempt, schema=rows.schema))
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
        strict_time=window.strict_time,
        outside_written=counts.outside if window.strict_time else None,
        files=files_of_output(sink, output, place),
        source=source,
    )
