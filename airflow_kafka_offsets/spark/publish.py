"""Publishing: a window's rows become visible once, whole and proved.

Every attempt writes to a folder of its own, ``<output>/window=<window>/attempt=<attempt>/``. What was read is compared
with what was written and with the manifest, and only then is ``committed.json`` created in the ledger, exclusively:
that is the moment of publishing, and there is one per window. So a retry, a rerun, or two attempts side by side never
double a row, and an attempt that dies at any point loses none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    DataLossError,
    LedgerConflictError,
    LedgerCorruptError,
    UnprovenError,
)
from airflow_kafka_offsets.offsets.audit import RunResult, Tally, judge
from airflow_kafka_offsets.offsets.publication import COMMITTED, Publication
from airflow_kafka_offsets.spark.hadoop import HadoopFiles, hadoop_uri
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import ATTEMPT_COLUMN, OUTSIDE_COLUMN, WINDOW_COLUMN, read_publication
from airflow_kafka_offsets.spark.tally import observe, outside_window, scan

Transform = Callable[[DataFrame], DataFrame]

_SPARK_ERRORS = (Py4JJavaError, PySparkException)
_DATA_LOSS = ("KAFKA_DATA_LOSS", "Could not read records in offset")
"""How Spark says that an executor could not read a range: an error class in streaming, plain words in batch."""
_REQUIRED = {"topic": "string", "partition": "int", "offset": "bigint"}
"""What the output's audit counts by."""
_SIDES = {OUTSIDE_COLUMN: "boolean"}
"""What the output is partitioned by with strict time."""


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """How an attempt ended: its window is published, by it or by another attempt.

    :param window: the window's name.
    :param attempt: this attempt.
    :param published_attempt: the attempt whose rows are visible.
    :param rows: how many they are.
    :param output: folder with them; None for an empty window.
    :param outside: those of the rows that are kept apart; None when the window was loaded without strict time.
    """

    window: str
    attempt: str
    published_attempt: str
    rows: int
    output: str | None
    outside: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def publish(
    window: PinnedWindow,
    output: str,
    transform: Transform | None = None,
    *,
    strict_time: bool = False,
    **options: str,
) -> PublishedRun:
    """Read a window, write it as Parquet, prove it, and make it visible.

    A window that is published already is read again all the same: the run proves that it still gives the same rows,
    leaves the published ones, and removes its own. Compacted topics aren't read again: what they held then may be gone
    (S14). A window without offsets is published without rows and without a folder (S6).

    :param window: what to read.
    :param output: folder of the whole table.
    :param transform: what to do with Kafka's rows before they are written. It must keep each row once, with its topic,
        partition and offset: filter and aggregate what is published, or the proof fails. None writes the rows as read.
    :param strict_time: keep rows apart whose timestamp lies outside the window's two instants. The rows then have the
        column ``outside_window`` already when the transform gets them, and it must keep that too.
    :param options: options of Spark's Kafka source, as in :meth:`PinnedWindow.read`.
    :raises ConfigurationError: the output can't be written, a column is missing or taken, or the attempt's name was
        used.
    :raises DataLossError: Kafka no longer has all records of the window.
    :raises UnprovenError: what was read or written isn't the window. Nothing is published; the files stay for
        inspection.
    :raises LedgerConflictError: the window is published elsewhere, or its published rows are gone.
    :raises ExclusiveCreateError: the ledger's store can't arbitrate between two attempts. Nothing is read.
    """
    if strict_time and not window.manifest.timed:
        raise ConfigurationError(
            f"Window {window.manifest.window} isn't between two instants, so that no row lies outside its time: "
            "strict_time has no meaning there."
        )
    files = HadoopFiles(window.spark)
    table = hadoop_uri(output)
    files.require_exclusive(f"{window.folder}/{COMMITTED}")
    earlier = read_publication(files, window.folder)
    if earlier is not None:
        _check_earlier(files, window, table, earlier)
        if any(topic.compacted for topic in window.manifest.topics.values()):
            return _run(window, earlier)
    result = _load(files, window, table, transform, strict_time, options)
    files.write(_result_uri(window, window.attempt), json.dumps(result.to_json()).encode())
    _refuse_unproved(window, result, strict_time)
    return _commit(files, window, result, strict_time)


def _check_earlier(files: HadoopFiles, window: PinnedWindow, table: str, earlier: Publication) -> None:
    name = window.manifest.window
    if earlier.manifest_sha256 != window.manifest.sha256:
        raise LedgerConflictError(f"Window {name} is published from another manifest ({earlier.manifest_sha256}).")
    if earlier.output is None:
        return
    if not earlier.output.startswith(f"{table}/{WINDOW_COLUMN}="):
        raise LedgerConflictError(
            f"Window {name} is published at {earlier.output}, and this run was to write to {table}. A window has one "
            "output: use another pipeline name for another table."
        )
    if not files.exists(earlier.output):
        raise LedgerConflictError(
            f"Window {name} is published at {earlier.output}, but that folder is gone. Restore it; or, to load the "
            f"window again, airflow kafka-offsets ledger forget {window.manifest.pipeline} {name} --force."
        )


def _load(
    files: HadoopFiles,
    window: PinnedWindow,
    table: str,
    transform: Transform | None,
    strict_time: bool,
    options: dict[str, str],
) -> RunResult:
    """Read and write the window, and count both."""
    started = time.monotonic()
    output = _attempt_folder(files, window, table) if window.manifest.span else None
    read = _write(window, output, transform, strict_time, options) if output else Tally()
    return RunResult(
        attempt=window.attempt,
        manifest_sha256=window.manifest.sha256,
        application_id=window.spark.sparkContext.applicationId,
        output=output,
        read=read,
        written=scan(_written(window, output, _REQUIRED)) if output else (),
        seconds=round(time.monotonic() - started, 3),
        allow_gaps=window.allow_gaps,
    )


def _attempt_folder(files: HadoopFiles, window: PinnedWindow, table: str) -> str:
    parent = f"{table}/{WINDOW_COLUMN}={window.manifest.window}"
    files.make_folder(parent)
    folder = f"{parent}/{ATTEMPT_COLUMN}={window.attempt}"
    if files.exists(folder):
        raise ConfigurationError(
            f"{folder} exists: the attempt's name was used before. Every try needs its own; where the cluster restarts "
            "drivers by itself, forbid it (spark.yarn.maxAppAttempts=1)."
        )
    return folder


def _write(
    window: PinnedWindow, output: str, transform: Transform | None, strict_time: bool, options: dict[str, str]
) -> Tally:
    """One action on the rows from Kafka (S25)."""
    rows = window.read(**options)
    if strict_time:
        rows = rows.withColumn(OUTSIDE_COLUMN, F.expr(outside_window(window.manifest)))
    observed = observe(rows, window.manifest)
    rows = transform(observed.rows) if transform else observed.rows
    _check_columns(rows, _REQUIRED | (_SIDES if strict_time else {}))
    try:
        rows.write.parquet(output, mode="error", partitionBy=list(_SIDES) if strict_time else None)
    except _SPARK_ERRORS as error:
        loss = _data_loss(error)
        if loss is None:
            raise
        raise DataLossError(
            f"Kafka no longer has every record of window {window.manifest.window}: retention, DeleteRecords or a "
            f"truncation removed some after it was resolved. Nothing is published. Spark said: {loss}"
        ) from error
    return observed.tally()


def _written(window: PinnedWindow, output: str, columns: dict[str, str]) -> DataFrame:
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    return window.spark.read.schema(schema).parquet(output)


def _data_loss(error: Exception) -> str | None:
    """The line in which Spark says that records are missing from Kafka; None when that isn't the error."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if any(words in line for words in _DATA_LOSS)), None)


def _check_columns(rows: DataFrame, kept: dict[str, str]) -> None:
    kinds = dict(rows.dtypes)
    wrong = [f"{name} {kind}" for name, kind in kept.items() if kinds.get(name) != kind]
    if wrong:
        raise ConfigurationError(
            f"The rows to write must keep the columns {', '.join(wrong)}: the audit counts by them."
        )
    taken = {WINDOW_COLUMN, ATTEMPT_COLUMN, OUTSIDE_COLUMN} - kept.keys()
    found = sorted(taken & {name.lower() for name in kinds})
    if found:
        raise ConfigurationError(
            f"The rows to write have a column {found[0]}: that name is taken by the output's folders."
        )


def _refuse_unproved(window: PinnedWindow, result: RunResult, strict_time: bool) -> None:
    verdict = judge(window.manifest, result)
    problem = None if verdict.proved else str(verdict)
    if verdict.proved and strict_time and result.output is not None:
        problem = _misplaced(_written(window, result.output, _SIDES), result.read)
    if problem:
        raise UnprovenError(
            f"Window {window.manifest.window} is not published: {problem}. The rows of attempt {window.attempt} stay "
            f"at {result.output}, its counts at {_result_uri(window, window.attempt)}."
        )


def _misplaced(written: DataFrame, read: Tally) -> str | None:
    """What is wrong with the two sides of the output, if anything: a transform may have changed the column."""
    found = {each[OUTSIDE_COLUMN]: each["count"] for each in written.groupBy(OUTSIDE_COLUMN).count().collect()}
    if found.get(True, 0) == read.outside_window and found.get(False, 0) == read.count - read.outside_window:
        return None
    return f"{read.outside_window} of {read.count} rows lie outside its time, and {OUTSIDE_COLUMN} says {found}"


def _commit(files: HadoopFiles, window: PinnedWindow, result: RunResult, strict_time: bool) -> PublishedRun:
    """Publish this attempt, unless another one came first."""
    outside = result.read.outside_window if strict_time else None
    manifest = window.manifest
    ours = Publication(
        attempt=result.attempt,
        output=result.output,
        manifest_sha256=result.manifest_sha256,
        rows=result.rows_written,
        outside=outside,
        start_snapshot=manifest.start_snapshot,
        end_snapshot=manifest.end_snapshot,
    )
    if files.create_exclusive(f"{window.folder}/{COMMITTED}", ours.to_bytes()):
        return _run(window, ours)
    standing = read_publication(files, window.folder)
    if standing is None:
        raise LedgerCorruptError(f"{window.folder}/{COMMITTED} vanished while attempt {window.attempt} was publishing.")
    _refuse_different(files, window, result, standing)
    if result.output is not None:
        files.delete(result.output)
    return _run(window, standing)


def _refuse_different(files: HadoopFiles, window: PinnedWindow, result: RunResult, standing: Publication) -> None:
    """Two attempts of one window must have counted the same."""
    uri = _result_uri(window, standing.attempt)
    content = files.read(uri)
    if content is None:
        raise LedgerCorruptError(f"Attempt {standing.attempt} is published, but its counts are missing: {uri}.")
    other = RunResult.from_json(json.loads(content))
    if (other.manifest_sha256, other.read, other.written) != (result.manifest_sha256, result.read, result.written):
        raise UnprovenError(
            f"Attempts {standing.attempt} (published, {other.rows_written} rows) and {result.attempt} "
            f"({result.rows_written} rows) of window {window.manifest.window} differ, though both read the same "
            f"offsets. The rows stay at {standing.output} and {result.output}."
        )


def _run(window: PinnedWindow, standing: Publication) -> PublishedRun:
    return PublishedRun(
        window.manifest.window, window.attempt, standing.attempt, standing.rows, standing.output, standing.outside
    )


def _result_uri(window: PinnedWindow, attempt: str) -> str:
    return f"{window.folder}/results/{attempt}.json"
