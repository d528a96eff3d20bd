"""The pinned window: what a Spark job reads, and writes with its proof.

A sink replaces the window's rows in one step. What was read is compared with what was written and with the manifest,
Kafka is asked whether these were the window's own topics, and what came out of all that is said in one file,
``results/<attempt>.json``. Airflow's side publishes it: nothing here makes rows visible, or races with another attempt.

A client of Spark Connect does what it can: it hands over what it has counted, and Airflow's side asks Kafka.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.compat.spark_versions import confs_of
from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, LedgerConflictError
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult
from airflow_kafka_offsets.spark.session.conf import ALLOW_GAPS, MANIFEST, SHA256, RunConf
from airflow_kafka_offsets.spark.session.files import hadoop_uri
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import OWN_COLUMNS, Attempt, Sink, audited_columns
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.window.counts import count_run, refuse_uncountable
from airflow_kafka_offsets.spark.window.derived import Derived, Transform, write_derived
from airflow_kafka_offsets.spark.window.ledger import PinnedFolder, failures_noted
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
        :raises ConfigurationError: the sink has no kind or can't be written, a column is missing or taken, or the
            attempt's name was used.
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
            require_kind(sink)
            _check_columns(rows, audited_columns(self.strict_time))
            refuse_uncountable(self, rows)
            recorded, load = partial(_recorded, self, sink), partial(_load, self, rows, sink)
            result = load_unless_published(self, {"": sink}, recorded, load)
        self.proved_read = result.read
        return result

    def write_derived(
        self,
        transform: Transform,
        sink: Sink,
        *,
        options: Mapping[str, str] | None = None,
        **further: Derived,
    ) -> RunResult:
        """Let a transform make other rows from the window's records (filter, explode, join, aggregate), write them, and
        prove that it got each record once. Airflow's side then publishes them.

        What the transform makes of the records isn't proved, only which records it got: they are counted on their way
        into it, in the action that writes, and compared with the window. The rows are counted as they are written, and
        again in the output. Several outputs are made from one read of Kafka, which is kept on the executors' disks, and
        are published together. The first one is written last, so that a reader of its table never sees it without the
        others::

            window.write_derived(
                flights_per_hour,
                DeltaSink("lake.flights_per_hour"),
                unreadable=Derived(unreadable, DeltaSink("lake.unreadable_flights")),
            )

        If the window is published, nothing is read and nothing is written, as with :meth:`write`. If it has no offsets,
        the outputs hold no row, whatever the transform makes of nothing.

        :param transform: makes the rows from a frame with the columns of Spark's Kafka source, by DataFrame operations.
            It must run no action on that frame and use it only once: tell branches apart by a column.
        :param sink: where they go. Each row gets the window's name in the column ``window``.
        :param options: of Spark's Kafka source, as for :meth:`read`.
        :param further: more outputs, by name (not ``transform``, ``sink`` or ``options``);
            ``read_published(..., output=name)`` reads them.
        :returns: what was read and written, which is proved.
        :raises ConfigurationError: the transform uses its records twice, ran an action or sorts them; a column is
            taken, two outputs have one place, or the session is one of Spark Connect.
        :raises KafkaOffsetsError: as :meth:`write`, for the same reasons.
        """
        outputs = {"": Derived(transform, sink), **further}
        with failures_noted(self.spark, self.folder, self.attempt):
            result = write_derived(self, outputs, options or {})
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
    :mod:`airflow_kafka_offsets.spark.session.conf`). Elsewhere, as in a notebook or under Spark Connect, name the
    manifest and its hash, which ``KafkaResolveWindowOperator`` returns; brokers then come from confs or from
    ``read()``'s options.

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


def _check_columns(rows: DataFrame, kept: dict[str, str]) -> None:
    kinds = dict(rows.dtypes)
    wrong = [f"{name} {kind}" for name, kind in kept.items() if kinds.get(name) != kind]
    if wrong:
        raise ConfigurationError(
            f"The rows to write must keep the columns {', '.join(wrong)}: the audit counts by them."
        )
    found = sorted((OWN_COLUMNS - kept.keys()) & {name.lower() for name in kinds})
    if found:
        raise ConfigurationError(f"The rows to write have a column {found[0]}: that name is taken by the output's own.")


def _recorded(
    window: PinnedRead, sink: Sink, folder: PinnedFolder, published: Publication, attempt: Attempt
) -> RunResult | None:
    """What was counted of a publication that goes on counting.

    :returns: None where other rows have taken the place of the published ones: another attempt has written beside
        those, or after them, and wasn't published. They are to be loaded again, and published.
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
    """What was counted of a published window, once the sink holds its rows as they were counted; None where a table
    holds another attempt's."""
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
    """The error of published rows that this run's output doesn't hold."""
    return LedgerConflictError(
        f"Window {attempt.window} is published with {published.rows} rows in {published.output}, and the output of "
        f"this run holds {held} of them. {KEPT_OUTPUTS} {forget_hint(attempt)}"
    )


def _held(window: PinnedRead, recorded: RunResult, sink: Sink, attempt: Attempt) -> tuple[PartitionTally, ...]:
    """What the sink holds of the window, where a published attempt has written it."""
    published = replace(attempt, name=recorded.written_by, strict_time=recorded.strict_time)
    return scan(sink.read(window.spark, published), window.manifest).written


def _load(window: PinnedRead, rows: DataFrame, sink: Sink, folder: PinnedFolder, attempt: Attempt) -> RunResult:
    """Write, count what was read and what was written, and ask Kafka whether that was the window's own topics."""
    started = time.monotonic()
    with window.reading():
        written = sink.write(rows, attempt)
    if written.attempt != attempt.name and not folder.source_is_proved(written.attempt):
        raise CommitConflictError(
            f"{written.output} holds window {attempt.window} by attempt {written.attempt}, which began at the same "
            "time as this one and hasn't proved where it read from: it may still be running or may have died. Nothing "
            "is published. Run the task again."
        )
    output = sink.read(window.spark, replace(attempt, name=written.attempt, schema=rows.schema))
    counted = partial(count_run, window, rows, output, sampled=isinstance(sink, FileSink | TableSink))
    if window.may_have_gaps:  # Kafka is asked of the gaps first: what it says of its topics covers that answer too
        counts, source = counted(), source_of(folder, window, written.attempt)
    else:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(source_of, folder, window, written.attempt)
            counts, source = counted(), asked.result()
    return run_result(
        window,
        attempt,
        counts,
        started,
        output=written.output,
        sink=sink.kind,
        apart=sink.keeps_attempts_apart,
        written_by=written.attempt,
        strict_time=window.strict_time,
        outside_written=counts.outside if window.strict_time else None,
        files=files_of_output(sink, output, written),
        source=source,
    )
