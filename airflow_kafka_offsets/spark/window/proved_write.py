"""The steps that all writes of a window have in common: notes and publications are read, Kafka is asked where the rows
came from, and what isn't proved is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    CountedTwiceError,
    LedgerConflictError,
    UnprovenError,
    WindowError,
)
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.audit import Verdict, judge
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication
from airflow_kafka_offsets.offsets.proof.publication import NO_SINK, Publication, counts_over
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.kafka_source import Source, topics_read, with_epoch
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.session.session import is_connect
from airflow_kafka_offsets.spark.sinks.file_sink import FILE_FORMATS
from airflow_kafka_offsets.spark.sinks.sink import WINDOW_COLUMN, Attempt, Sink
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.window.counts import RunCounts
from airflow_kafka_offsets.spark.window.ledger import PinnedFolder
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead

_MOST_RANGES = 4096
"""Maximum length of the ranges' text in a table's commits: some two hundred partitions."""
_BEFORE_COMMIT = (ConfigurationError, WindowError)
_STAGE_FAILED = "Job aborted due to stage failure"
"""How errors say that a write ended before its commit: by their class, or in Spark's words about its tasks."""
KEPT_OUTPUTS = "A window keeps the outputs that it was published with: use another pipeline name for others."


def load_unless_published(
    window: PinnedRead,
    sinks: Mapping[str, Sink],
    recorded: Callable[[PinnedFolder, Publication, Attempt], RunResult | None],
    load: Callable[[PinnedFolder, Attempt], RunResult],
) -> RunResult:
    """Load a window and prove it, unless a publication of it stays valid.

    :param sinks: where the rows go, by output. They are shown after all are proved, the first one last, so that whoever
        sees it finds the others.
    :param recorded: returns the counts of that publication; None if its rows must be loaded again.
    :param load: writes and counts.
    :raises UnprovenError: what was read or written isn't the window.
    """
    folder = PinnedFolder.of(window.spark, window.folder, window.manifest)
    folder.require_own_ledger()
    with ExitStack() as settings:
        for sink in sinks.values():
            settings.enter_context(sink.session_settings(window.spark))
        return _load_unless_published(window, folder, sinks, recorded, load)


def _load_unless_published(
    window: PinnedRead,
    folder: PinnedFolder,
    sinks: Mapping[str, Sink],
    recorded: Callable[[PinnedFolder, Publication, Attempt], RunResult | None],
    load: Callable[[PinnedFolder, Attempt], RunResult],
) -> RunResult:
    notes = folder.notes
    # Begin first: a publisher of another attempt reads the notes, and a writer reads the publications.
    attempt = begin(window, folder)
    with notes.unwritten(attempt.name):
        published = folder.publication()
        if published is not None and counts_over(published, window.manifest):
            notes.add(attempt.name, writes=False)
            no_rows = published.sink == NO_SINK  # whatever this run would write
            found = folder.published_result(published) if no_rows else recorded(folder, published, attempt)
            if found is not None:
                notes.add(attempt.name, recounted=True)
                return found
            notes.add(attempt.name, writes=True)
        if not is_connect(window.spark):
            window.source_check().before()
    try:
        result = load(folder, attempt)
    except Exception as error:
        _note_unchanged(folder, window, sinks, attempt, error)
        raise
    verdict = _judged(window, result)
    hidden = [place for sink in sinks.values() if (place := sink.unseen(attempt))]
    if not verdict.proved and len(hidden) == len(sinks):
        notes.add(attempt.name, writes=False)  # what earlier attempts wrote is unchanged
    if verdict.proved:
        # Release before the result is written: Airflow's side publishes any proved counts that it finds.
        for name in reversed(list(sinks)):
            sinks[name].release(window.spark, replace(attempt, output=name))
    folder.write_result(result)
    if not verdict.proved:
        seen = {"": result.output, **{further.name: further.output for further in result.further}}
        places = [sink.unseen(attempt) or str(seen[name]) for name, sink in sinks.items()]
        raise _unproved(folder, window, result, verdict, places)
    return result


def _note_unchanged(
    folder: PinnedFolder, window: PinnedRead, sinks: Mapping[str, Sink], attempt: Attempt, error: Exception
) -> None:
    """Note that an attempt which failed has left all outputs as they were, if that is certain: then an earlier
    attempt's result can still be published. A commit whose answer got lost may still come, so only errors that end a
    write before its commit are certain."""
    if is_connect(window.spark) or not (isinstance(error, _BEFORE_COMMIT) or _STAGE_FAILED in str(error)):
        return
    with suppress(Exception):  # the error itself is what counts
        if all(_is_unchanged(window, sink, attempt) for sink in sinks.values()):
            folder.notes.add(attempt.name, writes=False)


def _is_unchanged(window: PinnedRead, sink: Sink, attempt: Attempt) -> bool:
    """Whether an output surely shows no rows of an attempt that has ended."""
    if sink.keeps_attempts_apart or sink.unseen(attempt):
        return True
    if not isinstance(sink, TableSink):
        return False
    newest = sink.newest(window.spark, attempt.ledger_id, attempt.window)
    return newest is None or newest.attempt != attempt.name


def begin(window: PinnedRead, folder: PinnedFolder) -> Attempt:
    """Begin an attempt, and note which Spark application it is; a Spark Connect client notes nothing. Refused if an
    attempt with this name has begun before."""
    known = folder.notes
    notes = {name: known.read(name) for name in known.names()}
    if window.attempt in notes:
        raise ConfigurationError(
            f"{known.uri(window.attempt)} exists: the attempt's name was used before. Every try needs its own; "
            "if the cluster restarts drivers by itself, forbid it (spark.yarn.maxAppAttempts=1)."
        )
    manifest = window.manifest
    attempt = Attempt(
        name=window.attempt,
        pipeline=manifest.pipeline,
        ledger_id=manifest.ledger_id,
        window=manifest.window,
        revision=manifest.revision,
        manifest_sha256=manifest.sha256,
        # An earlier attempt's clock may be ahead of this one's.
        started_ms=max([now_ms(), *(int(note.get("started_ms", 0)) + 1 for note in notes.values())]),
        offsets=manifest.span,
        strict_time=window.strict_time,
        earlier=frozenset(notes),
        has_note=folder.files.writable,
        manifest_uri=f"{folder.uri}/manifest.json",
        ranges=_ranges_text(manifest),
        noted=known.names_now,
    )
    if attempt.has_note:
        context = window.spark.sparkContext
        application = SparkApplication(str(context.applicationId), context.uiWebUrl)
        note = application.to_json(attempt.name, window.note_key)
        known.write(attempt.name, note | {"started_ms": attempt.started_ms, "after": sorted(notes)})
    return attempt


def _ranges_text(manifest: Manifest) -> str:
    """The non-empty ranges as JSON; empty if that is too long."""
    found: dict[str, dict[int, list[int]]] = {}
    for each in manifest.non_empty():
        found.setdefault(each.topic, {})[each.partition] = [each.start_offset, each.end_offset]
    text = json.dumps(found, separators=(",", ":"))
    return text if len(text) <= _MOST_RANGES else ""


def run_result(window: PinnedRead, attempt: Attempt, counts: RunCounts, started: float, **written: Any) -> RunResult:
    """An attempt's counts and what its outputs hold; ``started`` is when it began, on the monotonic clock."""
    return RunResult(
        attempt=attempt.name,
        manifest_sha256=attempt.manifest_sha256,
        application_id=None if is_connect(window.spark) else str(window.spark.sparkContext.applicationId),
        read=counts.read,
        written=counts.written,
        task_starts=counts.task_starts,
        unread=counts.unread,
        seconds=round(time.monotonic() - started, 3),
        started_ms=attempt.started_ms,
        allow_gaps=window.allow_gaps,
        **written,
    )


def require_kind(sink: Sink) -> None:
    """Refuse a sink without a name for the ledger."""
    if not hasattr(sink, "kind"):
        raise ConfigurationError(f"{type(sink).__name__} has no kind: give the class one, such as kind = 'postgres'.")


def refuse_other_manifest(published: Publication, window: PinnedRead, attempt: Attempt) -> None:
    """Refuse a publication of this revision that was loaded from another manifest."""
    if published.revision == window.manifest.revision:
        raise LedgerConflictError(
            f"Window {attempt.window} is published from another manifest ({published.manifest_sha256})."
        )


def forget_hint(attempt: Attempt) -> str:
    """What to do if published rows are no longer in the output."""
    return (
        "If the rows were lost, restore them; or, to load the window again, "
        f"kafka-offsets ledger forget {attempt.pipeline} {attempt.window} --force."
    )


def overwritten(window: PinnedRead, place: str | None, recorded: RunResult, sink: Sink, attempt: Attempt) -> bool:
    """Whether the table in ``place`` says that another attempt has replaced the published rows since."""
    if not isinstance(sink, TableSink) or sink.table != place:
        return False
    newest = sink.newest(window.spark, attempt.ledger_id, attempt.window)
    return newest is not None and newest.attempt != recorded.attempt


def files_of_output(sink: Sink, rows: DataFrame, output: str | None) -> tuple[str, ...]:
    """The files that hold the rows, by their paths within the output; none for a table."""
    if output is None or sink.kind not in FILE_FORMATS:
        return ()
    place = f"{WINDOW_COLUMN}={output.rpartition(f'/{WINDOW_COLUMN}=')[2]}/"
    return tuple(sorted(file.rpartition(place)[2] for file in rows.inputFiles()))


def source_of(window: PinnedRead) -> Source | None:
    """Where the rows came from. Kafka is asked after the write: an answer from before the read proves nothing."""
    if not window.manifest.span or is_connect(window.spark):
        return None
    return window.source_check().after()


def _judged(window: PinnedRead, result: RunResult) -> Verdict:
    manifest = window.manifest
    if not is_connect(window.spark):
        return judge(manifest, result)
    # A Spark Connect client can't ask Kafka where the rows came from: whoever publishes its counts asks.
    topic_ids = {topic: manifest.topics[topic].topic_id for topic in topics_read(manifest)}
    source = Source(manifest.cluster_id, topic_ids, len(with_epoch(manifest)), now_ms())
    return judge(manifest, replace(result, source=source))


def _unproved(
    folder: PinnedFolder, window: PinnedRead, result: RunResult, verdict: Verdict, places: Sequence[str]
) -> UnprovenError:
    """The error for a result that proves nothing, whose rows are in ``places``. A :class:`CountedTwiceError` if another
    try may prove it."""
    return (CountedTwiceError if verdict.may_pass else UnprovenError)(
        f"Window {window.manifest.window} is not proved, and can't be published: {verdict}. The rows of attempt "
        f"{result.attempt} stay at {', '.join(places)}, its counts at {folder.result_uri(result.attempt)}."
    )
