"""The pinned window: what a Spark job reads, and writes with its proof.

A sink replaces the window's rows in one step. What was read is compared with what was written and with the manifest,
Kafka is asked whether these were the window's own topics, and what came out of all that is said in one file,
``results/<attempt>.json``. Airflow's side publishes it: nothing here makes rows visible, or races with another attempt.

A client of Spark Connect does what it can: it hands over what it has counted, and Airflow's side asks Kafka.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.compat.spark_versions import confs_of
from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    CountedTwiceError,
    DataLossError,
    LedgerConflictError,
    UnprovenError,
    WindowError,
)
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.publication import Publication, counts_over
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult
from airflow_kafka_offsets.offsets.windows.kafka_source import Source, topics_read, with_epoch
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.attempt_notes import AttemptNotes
from airflow_kafka_offsets.spark.conf import ALLOW_GAPS, MANIFEST, SHA256, RunConf
from airflow_kafka_offsets.spark.counts import count_run, refuse_uncountable
from airflow_kafka_offsets.spark.files import hadoop_uri
from airflow_kafka_offsets.spark.java import JAVA_ERRORS, is_connect
from airflow_kafka_offsets.spark.kafka.reader import connector_required, newer_source
from airflow_kafka_offsets.spark.ledger import PinnedFolder, failures_noted
from airflow_kafka_offsets.spark.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.sink import ATTEMPT_COLUMN, OUTSIDE_COLUMN, WINDOW_COLUMN, Attempt, Sink, Written
from airflow_kafka_offsets.spark.sinks.file_sink import FILE_FORMATS, FileSink
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.tally import audited_columns, scan

_DATA_LOSS = ("KAFKA_DATA_LOSS", "Could not read records in offset")
"""How Spark says that an executor could not read a range: an error class in streaming, plain words in batch."""


class PinnedWindow(PinnedRead):
    """A window that a Spark session may read, and write."""

    def write(self, rows: DataFrame, sink: Sink) -> RunResult:
        """Write the window's rows and prove them; Airflow's side publishes them then.

        Of a window that is published already nothing is read from Kafka and nothing is written: its output is counted
        again, and what was counted when it was published is returned; where another revision of it counts over this
        one, what was counted of that. A window without offsets is written without rows (S6); where the sink has old
        ones, they go.

        :param rows: what :meth:`read` returned, or what was made of it. Each row must still be there once, with its
            topic, partition and offset, and ``outside_window`` with strict time: filter and aggregate what is
            published, or the proof fails.
        :param sink: where the rows go.
        :returns: what was read and written, which is proved.
        :raises ConfigurationError: the sink has no kind or can't be written, a column is missing or taken, the
            attempt's name was used, or Kafka has to be asked for the proof and the session is one of Spark Connect.
        :raises DataLossError: Kafka no longer has all records of the window.
        :raises TopicChangedError: before the read or after it this was another cluster, or a topic was re-created.
        :raises LogTruncatedError: a log was cut below the window's end.
        :raises UncheckedSourceError: Kafka can't be asked for these two.
        :raises ExtremeTimestampError: a record has a timestamp that Spark can't read.
        :raises UnprovenError: what was read or written isn't the window, so that it can't be published; the rows stay
            for inspection. It is a :class:`CountedTwiceError` where another try may prove it.
        :raises LedgerConflictError: the window is published elsewhere, its published rows are gone, or the sink or the
            window's folder is another ledger's.
        :raises CommitConflictError: another attempt has written the window meanwhile, and not proved where it read
            from.
        """
        with failures_noted(self.spark, self.folder, self.attempt):
            result = _write(self, rows, sink)
        self.proved_read = result.read
        return result


def pinned_window(
    spark: SparkSession,
    manifest_uri: str | None = None,
    sha256: str | None = None,
    *,
    allow_gaps: bool | None = None,
) -> PinnedWindow:
    """The window that a Spark job is to read.

    Without more arguments it is the one that this job was submitted for, from its confs (see
    :mod:`airflow_kafka_offsets.spark.conf`). Elsewhere, as in a notebook or under Spark Connect, name the manifest and
    its hash, which ``KafkaResolveWindowOperator`` returns; brokers then come from confs or from ``read()``'s options.

    :param spark: the session, also one of Spark Connect.
    :param manifest_uri: URI of the window's ``manifest.json``.
    :param sha256: hex digest that its bytes must have.
    :param allow_gaps: offsets without a record are expected, as transactions leave them; None goes by the conf.
    :raises ConfigurationError: when a conf is missing or malformed.
    :raises LedgerCorruptError: when the manifest isn't the one that was pinned.
    """
    given = {MANIFEST: manifest_uri, SHA256: sha256}
    confs = confs_of(spark) | {name: value for name, value in given.items() if value is not None}
    if allow_gaps is not None:
        confs[ALLOW_GAPS] = str(allow_gaps).lower()
    conf = RunConf.read(confs, os.environ)
    with failures_noted(spark, hadoop_uri(conf.manifest_uri).rpartition("/")[0], conf.attempt):
        return PinnedWindow.open(spark, conf)


def _write(window: PinnedRead, rows: DataFrame, sink: Sink) -> RunResult:
    if not hasattr(sink, "kind"):
        raise ConfigurationError(f"{type(sink).__name__} has no kind: give the class one, such as kind = 'postgres'.")
    _check_columns(rows, audited_columns(window.strict_time))
    refuse_uncountable(window, rows)
    folder = PinnedFolder.of(window.spark, window.folder, window.manifest)
    folder.require_own_ledger()
    notes = AttemptNotes(folder.files, folder.uri)
    # First: whoever publishes another attempt looks at the notes, and whoever writes looks at what is published.
    attempt = notes.begin(window)
    published = folder.publication()
    if published is not None and counts_over(published, window.manifest):
        notes.writes(attempt.name, False)
        recorded = _recorded(folder, window, published, sink, attempt)
        if recorded is not None:
            return recorded
        notes.writes(attempt.name, True)
    if not is_connect(window.spark):
        with notes.unwritten(attempt.name):
            window.source_check().before()
    result = _load(folder, window, rows, sink, attempt)
    folder.write_result(result)
    _refuse_unproved(folder, window, result)
    return result


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
        raise ConfigurationError(f"The rows to write have a column {found[0]}: that name is taken by the output's own.")


def _recorded(
    folder: PinnedFolder, window: PinnedRead, published: Publication, sink: Sink, attempt: Attempt
) -> RunResult | None:
    """What was counted of a publication that goes on counting.

    :returns: None where other rows have taken the place of the published ones: another attempt has written beside
        those, or after them, and wasn't published. They are to be loaded again, and published.
    :raises LedgerConflictError: the sink doesn't hold the published rows as they were counted.
    """
    recorded, manifest = folder.published_result(published), window.manifest
    if published.manifest_sha256 == manifest.sha256:
        return _recounted(window, published, recorded, sink, attempt)
    if published.revision == manifest.revision:
        raise LedgerConflictError(
            f"Window {attempt.window} is published from another manifest ({published.manifest_sha256})."
        )
    if published.revision < manifest.revision and published.sink == sink.kind and not sink.keeps_attempts_apart:
        found = _held(window, recorded, sink, attempt)
        if not found and recorded.written:
            raise _rows_gone(published, attempt, 0)
        return None if found != recorded.written else recorded
    return recorded


def _recounted(
    window: PinnedRead, published: Publication, recorded: RunResult, sink: Sink, attempt: Attempt
) -> RunResult | None:
    """What was counted of a published window, once the sink holds its rows as they were counted; None where a table
    holds another attempt's."""
    name = attempt.window
    if published.sink != sink.kind:
        raise LedgerConflictError(
            f"Window {name} is published as {published.sink} in {published.output}, but this run writes "
            f"{sink.kind}. A window has one output: use another pipeline name for another one."
        )
    found = _held(window, recorded, sink, attempt)
    if found and _overwritten(window, recorded, sink, attempt):
        return None
    if found != recorded.written:
        raise _rows_gone(published, attempt, sum(tally.count for tally in found))
    return recorded


def _rows_gone(published: Publication, attempt: Attempt, held: int) -> LedgerConflictError:
    """The error of published rows that this run's output doesn't hold."""
    return LedgerConflictError(
        f"Window {attempt.window} is published with {published.rows} rows in {published.output}, and the output of "
        f"this run holds {held} of them. A window has one output: use another pipeline name for another one. If the "
        "rows were lost, restore them; or, to load the window again, "
        f"kafka-offsets ledger forget {attempt.pipeline} {attempt.window} --force."
    )


def _overwritten(window: PinnedRead, recorded: RunResult, sink: Sink, attempt: Attempt) -> bool:
    """Whether the table of published rows says that another attempt has replaced them since."""
    if not isinstance(sink, TableSink) or sink.table != recorded.output:
        return False
    newest = sink.newest(window.spark, attempt.ledger_id, attempt.window)
    return newest is not None and newest.attempt != recorded.written_by


def _held(window: PinnedRead, recorded: RunResult, sink: Sink, attempt: Attempt) -> tuple[PartitionTally, ...]:
    """What the sink holds of the window, where a published attempt has written it."""
    published = replace(attempt, name=recorded.written_by, strict_time=recorded.strict_time)
    return scan(sink.read(window.spark, published), window.manifest).written


def _load(folder: PinnedFolder, window: PinnedRead, rows: DataFrame, sink: Sink, attempt: Attempt) -> RunResult:
    """Write, count what was read and what was written, and ask Kafka whether that was the window's own topics."""
    started = time.monotonic()
    try:
        with newer_source(rows.sparkSession), connector_required(rows.sparkSession):
            written = sink.write(rows, attempt)
    except JAVA_ERRORS as error:
        explained = window.record_error(error) or _data_loss(window.manifest, error)
        if explained is None:
            raise
        raise explained from error
    _refuse_unproved_writer(folder, written, attempt)
    output = sink.read(window.spark, replace(attempt, name=written.attempt, schema=rows.schema))
    counts = count_run(window, rows, output, sampled=isinstance(sink, FileSink | TableSink))
    return RunResult(
        attempt=attempt.name,
        manifest_sha256=attempt.manifest_sha256,
        application_id=None if is_connect(window.spark) else str(window.spark.sparkContext.applicationId),
        output=written.output,
        sink=sink.kind,
        apart=sink.keeps_attempts_apart,
        read=counts.read,
        written=counts.written,
        task_starts=counts.task_starts,
        unread=counts.unread,
        seconds=round(time.monotonic() - started, 3),
        started_ms=attempt.started_ms,
        allow_gaps=window.allow_gaps,
        written_by=written.attempt,
        strict_time=window.strict_time,
        outside_written=counts.outside if window.strict_time else None,
        files=_files(output, written) if sink.kind in FILE_FORMATS else (),
        source=_source(folder, window, written.attempt),
    )


def _data_loss(manifest: Manifest, error: Exception) -> DataLossError | None:
    """What to raise where Spark says that records are missing from Kafka; None when that isn't its error."""
    lines = (line.strip() for line in str(error).splitlines())
    said = next((line for line in lines if any(words in line for words in _DATA_LOSS)), None)
    if said is None:
        return None
    return DataLossError(
        f"Kafka no longer has every record of window {manifest.window}: retention, DeleteRecords or a "
        f"truncation removed some after it was resolved. Nothing is published. Spark said: {said}"
    )


def _refuse_unproved_writer(folder: PinnedFolder, written: Written, attempt: Attempt) -> None:
    """Take over no rows of which nobody knows where they came from: this attempt asks Kafka about its own read."""
    writer = written.attempt
    if writer != attempt.name and not folder.source_is_proved(writer):
        raise CommitConflictError(
            f"{written.output} holds window {attempt.window} by attempt {writer}, which began at the same "
            "time as this one and hasn't proved where it read from: it may still be running or may have "
            "died. Nothing is published. Run the task again."
        )


def _files(output: DataFrame, written: Written) -> tuple[str, ...]:
    """The files that hold the rows, by their paths within the output."""
    if written.output is None:
        return ()
    place = f"{WINDOW_COLUMN}={written.output.rpartition(f'/{WINDOW_COLUMN}=')[2]}/"
    return tuple(sorted(file.rpartition(place)[2] for file in output.inputFiles()))


def _source(folder: PinnedFolder, window: PinnedRead, writer: str) -> Source | None:
    """Where the rows came from. Asked after they were written: an answer from before the read says nothing of it."""
    if not window.manifest.span or is_connect(window.spark):
        return None
    try:
        return window.source_check().after()
    except WindowError:
        AttemptNotes(folder.files, folder.uri).distrust(writer)
        raise


def _refuse_unproved(folder: PinnedFolder, window: PinnedRead, result: RunResult) -> None:
    manifest = window.manifest
    if is_connect(window.spark):
        # Such a client can't ask Kafka where the rows came from: whoever publishes what it has counted does.
        topic_ids = {topic: manifest.topics[topic].topic_id for topic in topics_read(manifest)}
        source = Source(manifest.cluster_id, topic_ids, len(with_epoch(manifest)), now_ms())
        verdict = judge(manifest, replace(result, source=source))
    else:
        verdict = judge(manifest, result)
    if verdict.proved:
        return
    AttemptNotes(folder.files, folder.uri).distrust(result.written_by)
    raise (CountedTwiceError if verdict.may_pass else UnprovenError)(
        f"Window {manifest.window} is not proved, and can't be published: {verdict}. The rows of attempt "
        f"{result.attempt} stay at {result.output}, its counts at {folder.result_uri(result.attempt)}."
    )
