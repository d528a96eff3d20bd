"""Publishing: a window's rows become visible once, whole and proved.

A sink replaces the window's rows in one step. What was read is compared with what was written and with the manifest,
and only then is ``committed.json`` created in the ledger, exclusively: that is the moment of publishing, and there is
one per window. So a retry, a rerun, or two attempts side by side never double a row, and an attempt that dies at any
point loses none.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    CountedTwiceError,
    DataLossError,
    LedgerConflictError,
    LedgerCorruptError,
    UnprovenError,
    WindowError,
)
from airflow_kafka_offsets.offsets.audit import PartitionTally, RunResult, Tally, judge
from airflow_kafka_offsets.offsets.publication import COMMITTED, Publication, counting
from airflow_kafka_offsets.offsets.source import Source
from airflow_kafka_offsets.offsets.window_names import live_revisions, revision_folder
from airflow_kafka_offsets.spark.attempts import AttemptNotes
from airflow_kafka_offsets.spark.counts import count_run, refuse_uncountable
from airflow_kafka_offsets.spark.hadoop import JAVA_ERRORS, HadoopFiles, is_connect
from airflow_kafka_offsets.spark.identity import require_ledger
from airflow_kafka_offsets.spark.newer_source import newer_source
from airflow_kafka_offsets.spark.published import read_publication
from airflow_kafka_offsets.spark.results import read_result, result_uri, source_is_proved, write_result
from airflow_kafka_offsets.spark.sink import ATTEMPT_COLUMN, OUTSIDE_COLUMN, WINDOW_COLUMN, Attempt, Sink, Written
from airflow_kafka_offsets.spark.tally import audited_columns, scan

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.pinned import PinnedWindow

_DATA_LOSS = ("KAFKA_DATA_LOSS", "Could not read records in offset")
"""How Spark says that an executor could not read a range: an error class in streaming, plain words in batch."""


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """How an attempt ended: its window is published, by it or by another attempt.

    :param window: the window's name.
    :param attempt: this attempt.
    :param published_attempt: the attempt whose rows are visible.
    :param rows: how many they are.
    :param output: folder or table with them; None for an empty window that needs none.
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


def publish(window: PinnedWindow, rows: DataFrame, sink: Sink) -> PublishedRun:
    """Write a window's rows, prove them, and make them visible.

    Of a window that is published already the output is counted again, and nothing is read from Kafka. A window without
    offsets is published without rows (S6); where the sink has old ones, they go.

    :param window: what was read.
    :param rows: what :meth:`PinnedWindow.read` returned, or what was made of it. Each row must still be there once,
        with its topic, partition and offset, and ``outside_window`` with strict time: filter and aggregate what is
        published, or the proof fails.
    :param sink: where the rows go.
    :raises ConfigurationError: the sink has no kind or can't be written, a column is missing or taken, the attempt's
        name was used, or the session is one of Spark Connect.
    :raises DataLossError: Kafka no longer has all records of the window.
    :raises TopicChangedError: before the read or after it this was another cluster, or a topic was re-created.
    :raises LogTruncatedError: a log was cut below the window's end.
    :raises UncheckedSourceError: Kafka can't be asked for these two.
    :raises ExtremeTimestampError: a record has a timestamp that Spark can't read.
    :raises UnprovenError: what was read or written isn't the window. Nothing is published; the rows stay for
        inspection. It is a :class:`CountedTwiceError` where another try may prove it.
    :raises LedgerConflictError: the window is published elsewhere, its published rows are gone, or the sink or the
        window's folder is another ledger's.
    :raises CommitConflictError: another attempt has written the window meanwhile, and not proved where it read from.
    :raises ExclusiveCreateError: the ledger's store can't arbitrate between two attempts. Nothing is read.
    """
    if is_connect(window.spark):
        raise ConfigurationError(
            "A session of Spark Connect can read and audit a window, and not publish it: committed.json is created by "
            "the driver, which the client doesn't reach. Submit the job with KafkaSparkSubmitOperator."
        )
    if not hasattr(sink, "kind"):
        raise ConfigurationError(f"{type(sink).__name__} has no kind: give the class one, such as kind = 'postgres'.")
    _check_columns(rows, audited_columns(window.strict_time))
    refuse_uncountable(window, rows)
    files = HadoopFiles(window.spark)
    files.require_exclusive(f"{window.folder}/{COMMITTED}")
    require_ledger(files, window.folder, window.manifest)
    attempt = AttemptNotes(files, window.folder).begin(window)
    standing = read_publication(files, window.folder)
    if standing is None:
        standing = _ahead(files, window, sink, attempt) or _publish(files, window, rows, sink, attempt)
    else:
        window.proved_read = _recount(files, window, standing, sink, attempt)
    if standing.manifest_sha256 == attempt.manifest_sha256:
        sink.published(window.spark, standing, _published_attempt(files, window, attempt, standing))
    return PublishedRun(
        attempt.window, attempt.name, standing.attempt, standing.rows, standing.output, standing.outside
    )


def _publish(files: HadoopFiles, window: PinnedWindow, rows: DataFrame, sink: Sink, attempt: Attempt) -> Publication:
    window.source_check().before()
    result = _load(files, window, rows, sink, attempt)
    write_result(files, window.folder, result)
    _refuse_unproved(files, window, result, sink, attempt)
    ahead = _ahead(files, window, sink, attempt)
    if ahead is None:
        return _commit(files, window, result, sink, attempt)
    sink.outrun(window.spark, attempt)
    if not sink.keeps_attempts_apart:
        raise LedgerConflictError(
            f"Attempt {ahead.attempt} published window {attempt.window} in {ahead.output}, and counts, while attempt "
            f"{attempt.name} replaced its rows by those of revision {attempt.revision}. Bring back the table's version "
            "from before."
        )
    return ahead


def _ahead(files: HadoopFiles, window: PinnedWindow, sink: Sink, attempt: Attempt) -> Publication | None:
    """What is published of another revision of the window, and would count even if this one were published too.

    Where a window has one place that is any of the same snapshots: its rows are there, and this revision's would take
    their place.
    """
    name, ours = window.manifest.window, window.manifest.revision
    folder = window.folder.rpartition("/")[0]
    revisions = [each for each in live_revisions(files.names(folder)).get(name, ()) if each != ours]
    published = {each: read_publication(files, f"{folder}/{revision_folder(name, each)}") for each in revisions}
    if not any(published.values()):
        return None
    snapshots = window.manifest.start_snapshot, window.manifest.end_snapshot
    one_place = not sink.keeps_attempts_apart or sink.moves_to(attempt) is not None
    for each in published.values():
        if one_place and each is not None and (each.start_snapshot, each.end_snapshot) == snapshots:
            return each
    published[ours] = Publication(window.attempt, None, window.manifest.sha256, 0, None, *snapshots)
    ordered = sorted(published)
    found = counting([published[each] for each in ordered])
    assert found is not None, "ours is among them"
    return None if ordered[found] == ours else published[ordered[found]]


def _published_attempt(files: HadoopFiles, window: PinnedWindow, attempt: Attempt, standing: Publication) -> Attempt:
    """The attempt whose rows the output holds."""
    writer = _result(files, window, standing.attempt).written_by or standing.attempt
    return replace(attempt, name=writer, strict_time=standing.outside is not None, moved_to=standing.moved_to)


def _recount(files: HadoopFiles, window: PinnedWindow, standing: Publication, sink: Sink, attempt: Attempt) -> Tally:
    """Refuse a published window whose rows the sink doesn't hold as they were counted.

    :returns: what the attempt that published it has read.
    """
    name = attempt.window
    if standing.manifest_sha256 != attempt.manifest_sha256:
        raise LedgerConflictError(f"Window {name} is published from another manifest ({standing.manifest_sha256}).")
    if standing.sink != sink.kind:
        raise LedgerConflictError(
            f"Window {name} is published as {standing.sink} in {standing.output}, and this run was to write "
            f"{sink.kind}. A window has one output: use another pipeline name for another one."
        )
    recorded = _result(files, window, standing.attempt)
    found = scan(sink.read(window.spark, _published_attempt(files, window, attempt, standing)), window.manifest)
    if found != recorded.written:
        raise LedgerConflictError(
            f"Window {name} is published with {standing.rows} rows in {standing.moved_to or standing.output}, and the "
            f"output of this run holds {_count(found)} of them. A window has one output: use another pipeline name "
            "for another one. Where the rows were lost, restore them; or, to load the window again, "
            f"airflow kafka-offsets ledger forget {attempt.pipeline} {name} --force."
        )
    return recorded.read


def _load(files: HadoopFiles, window: PinnedWindow, rows: DataFrame, sink: Sink, attempt: Attempt) -> RunResult:
    """Write, count what was read and what was written, and ask Kafka whether that was the window's own topics."""
    started = time.monotonic()
    try:
        with newer_source(rows.sparkSession):
            written = sink.write(rows, attempt)
    except JAVA_ERRORS as error:
        about_records = window.record_error(error)
        if about_records is not None:
            raise about_records from error
        loss = _data_loss(error)
        if loss is None:
            raise
        raise DataLossError(
            f"Kafka no longer has every record of window {attempt.window}: retention, DeleteRecords or a "
            f"truncation removed some after it was resolved. Nothing is published. Spark said: {loss}"
        ) from error
    _refuse_unproved_writer(files, window, written, attempt)
    counts = count_run(window, rows, sink.read(window.spark, replace(attempt, name=written.attempt)))
    window.proved_read = counts.read
    return RunResult(
        attempt=attempt.name,
        manifest_sha256=attempt.manifest_sha256,
        application_id=str(window.spark.sparkContext.applicationId),
        output=written.output,
        read=counts.read,
        written=counts.written,
        task_starts=counts.task_starts,
        unread=counts.unread,
        seconds=round(time.monotonic() - started, 3),
        allow_gaps=window.allow_gaps,
        written_by=written.attempt,
        source=_source(files, window, written.attempt),
    )


def _refuse_unproved_writer(files: HadoopFiles, window: PinnedWindow, written: Written, attempt: Attempt) -> None:
    """Take over no rows of which nobody knows where they came from: this attempt asks Kafka about its own read."""
    writer = written.attempt
    if writer != attempt.name and not source_is_proved(files, window.folder, writer, window.manifest):
        raise CommitConflictError(
            f"{written.output} holds window {attempt.window} by attempt {writer}, which began beside this one and "
            "hasn't proved where it read from: it goes on, or has died. Nothing is published. Run the task again."
        )


def _source(files: HadoopFiles, window: PinnedWindow, writer: str) -> Source | None:
    """Where the rows came from. Asked after they were written: an answer from before the read says nothing of it."""
    if not window.manifest.span:
        return None
    try:
        return window.source_check().after()
    except WindowError:
        AttemptNotes(files, window.folder).distrust(writer)
        raise


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
        raise ConfigurationError(f"The rows to write have a column {found[0]}: that name is taken by the output's own.")


def _refuse_unproved(files: HadoopFiles, window: PinnedWindow, result: RunResult, sink: Sink, attempt: Attempt) -> None:
    verdict = judge(window.manifest, result)
    writer = result.written_by or attempt.name
    problem, may_pass = None if verdict.proved else str(verdict), verdict.may_pass
    if verdict.proved and attempt.strict_time:
        problem = _misplaced(sink.read(window.spark, replace(attempt, name=writer)), result.read)
        may_pass = result.read.outside_window is None
    if problem:
        AttemptNotes(files, window.folder).distrust(writer)
        raise (CountedTwiceError if may_pass else UnprovenError)(
            f"Window {attempt.window} is not published: {problem}. The rows of attempt {attempt.name} stay "
            f"at {result.output}, its counts at {result_uri(window.folder, attempt.name)}."
        )


def _misplaced(written: DataFrame, read: Tally) -> str | None:
    """What is wrong with the two sides of the output, if anything: the rows' column may have been changed."""
    if read.outside_window is None:
        return (
            "Spark has read some records more than once, so that nobody knows how many lie outside the window's time, "
            "which strict time proves: sort within partitions (sortWithinPartitions) in place of the whole, or run the "
            "task again where an executor was lost"
        )
    found = {each[OUTSIDE_COLUMN]: each["count"] for each in written.groupBy(OUTSIDE_COLUMN).count().collect()}
    if found.get(True, 0) == read.outside_window and found.get(False, 0) == read.count - read.outside_window:
        return None
    return (
        f"{read.outside_window} of {read.count} rows lie outside its time, and {OUTSIDE_COLUMN} says {found}: leave "
        "the column as read() made it"
    )


def _commit(files: HadoopFiles, window: PinnedWindow, result: RunResult, sink: Sink, attempt: Attempt) -> Publication:
    """Publish this attempt, unless another one came first."""
    manifest = window.manifest
    ours = Publication(
        attempt=attempt.name,
        output=result.output,
        manifest_sha256=attempt.manifest_sha256,
        rows=result.rows_written,
        outside=result.read.outside_window if attempt.strict_time else None,
        start_snapshot=manifest.start_snapshot,
        end_snapshot=manifest.end_snapshot,
        sink=sink.kind,
        moved_to=sink.moves_to(attempt),
    )
    if files.create_exclusive(f"{window.folder}/{COMMITTED}", ours.to_bytes()):
        return ours
    standing = read_publication(files, window.folder)
    if standing is None:
        raise LedgerCorruptError(f"{window.folder}/{COMMITTED} vanished while attempt {attempt.name} was publishing.")
    _refuse_different(_result(files, window, standing.attempt), result)
    sink.outrun(window.spark, attempt)
    return standing


def _refuse_different(published: RunResult, ours: RunResult) -> None:
    """Two attempts of one window must have written the same, and read it too."""
    same = (published.manifest_sha256, published.written) == (ours.manifest_sha256, ours.written)
    if not same or not published.read.same_rows(ours.read):
        raise UnprovenError(
            f"Attempts {published.attempt} (published, {published.rows_written} rows) and {ours.attempt} "
            f"({ours.rows_written} rows) of a window differ, though both read the same offsets. Compare the "
            f"rows, which stay at {published.output} and {ours.output}. The published ones count."
        )


def _count(tallies: tuple[PartitionTally, ...]) -> int:
    return sum(each.count for each in tallies)


def _result(files: HadoopFiles, window: PinnedWindow, attempt: str) -> RunResult:
    found = read_result(files, window.folder, attempt)
    if found is None:
        raise LedgerCorruptError(
            f"Attempt {attempt} is published, but its counts are missing: {result_uri(window.folder, attempt)}."
        )
    return found
