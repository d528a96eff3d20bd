"""The steps that all writes of a window have in common: the ledger says whether there is anything to do, Kafka is asked
where the rows came from, and what isn't proved is refused.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_kafka_offsets.compat.spark_versions import drop_kept, kept_on_disk
from airflow_kafka_offsets.errors import ConfigurationError, CountedTwiceError, UnprovenError
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.audit import Verdict, judge
from airflow_kafka_offsets.offsets.proof.run_result import OutputRows, RunResult
from airflow_kafka_offsets.offsets.windows.manifest import topics_read
from airflow_kafka_offsets.offsets.windows.topic_identity import Source
from airflow_kafka_offsets.spark.session.session import application_of
from airflow_kafka_offsets.spark.sinks.columns import added, refuse_changed
from airflow_kafka_offsets.spark.sinks.file_sink import FILE_FORMATS
from airflow_kafka_offsets.spark.sinks.sink import WINDOW_COLUMN, Attempt, Sink
from airflow_kafka_offsets.spark.window.counts import RunCounts
from airflow_kafka_offsets.spark.window.ledger import RunLedger
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead


@dataclass(frozen=True, slots=True)
class Done:
    """What a driver has done, before it is judged."""

    counts: RunCounts
    outputs: Sequence[OutputRows]
    source: Source | None


def placed(window: PinnedRead, sink: Sink) -> Mapping[str, Sink]:
    """Where a window's rows go: sinks by the names of their outputs; see :meth:`.Sink.outputs`. Refused before anything
    is read if one can't be written."""
    if not hasattr(sink, "kind"):
        raise ConfigurationError(f"{type(sink).__name__} has no kind: give the class one, such as kind = 'postgres'.")
    outputs = sink.outputs(window.manifest.pipeline, sorted(window.manifest.topics))
    refuse_one_place(outputs)
    return outputs


def refuse_one_place(sinks: Mapping[str, Sink]) -> None:
    """Refuse two outputs in one place before anything is read. What is one place by two names is found as it is
    written."""
    places: dict[str, str] = {}
    for name, sink in sinks.items():
        place = sink.place
        if place is not None and places.setdefault(place, name) != name:
            raise ConfigurationError(
                f"Two outputs go to {place}, where each would replace the other's rows: give {name} a folder or table "
                "of its own."
            )


@contextmanager
def kept(window: PinnedRead, rows: DataFrame) -> Iterator[DataFrame]:
    """Rows of a window that several jobs use: read once, to the executors' disks, for as long as the block runs."""
    if not window.span:
        yield rows
        return
    with window.reading():
        found = kept_on_disk(rows)
    try:
        yield found
    finally:
        drop_kept(found)


def _for_outputs(window: PinnedRead, attempt: Attempt, names: Iterable[str]) -> dict[str, Attempt]:
    """The attempt as the sink of each output sees it. If no name is empty, those of topics get the topic's records."""
    attempts = {name: replace(attempt, output=name) for name in names}
    if "" in attempts:
        return attempts
    offsets = Counter[str]()
    for each in window.left:
        offsets[each.topic] += each.span
    by_topic = attempts.keys() & window.manifest.topics.keys()
    return attempts | {topic: replace(attempts[topic], offsets=offsets[topic]) for topic in by_topic}


def load(window: PinnedRead, sinks: Mapping[str, Sink], write: Callable[[Mapping[str, Attempt]], Done]) -> RunResult:
    """Load a window and prove it, unless another driver of this attempt has: then its counts are returned, and nothing
    is done.

    :param sinks: where the rows go, by output. They are shown after all are proved, the first one last, so that whoever
        sees it finds the others.
    :param write: writes and counts; it is given the attempt as the sink of each output sees it.
    :raises ConfigurationError: the session has no attempt, or has written the window before.
    :raises UnprovenError: what was read or written isn't the window.
    """
    ledger = window.begin_write()
    now, _ = ledger.attempt(window.manifest)
    proved = ledger.proved_result(now, window.manifest, window.lost)
    if proved is not None:
        return proved
    if not all(sink.keeps_attempts_apart for sink in sinks.values()):
        ledger.refuse_overtaken(now)
    with ExitStack() as settings:
        if window.turn is not None:
            settings.enter_context(window.turn(_shared(sinks.values())))
        for sink in sinks.values():
            settings.enter_context(sink.session_settings(window.spark))
        attempt = _begin(window, ledger)
        window.source(is_read=False)
        attempts, started = _for_outputs(window, attempt, sinks), time.monotonic()
        result = _result(window, attempt, write(attempts), started)
        verdict = _judged(window, result)
        hidden = {name: place for name, sink in sinks.items() if (place := sink.hidden_in(attempt))}
        if verdict.proved:
            if hidden:
                ledger.refuse_overtaken(ledger.attempt(window.manifest)[0])
            # Release before the result is written: Airflow's side publishes any proved counts that it finds.
            for name, each in reversed(attempts.items()):
                sinks[name].release(window.spark, each)
        ledger.record(result, proved=verdict.proved)
        window.rows_written = sum(each.rows for each in result.outputs)
    if not verdict.proved:
        seen = {each.name: str(each.output) for each in result.outputs}
        raise _unproved(ledger, window, result, verdict, [(seen | hidden)[name] for name in sinks])
    return result


def _shared(sinks: Iterable[Sink]) -> set[str]:
    """The tables that other windows may be written to at the same time."""
    return {sink.place or sink.kind for sink in sinks if not sink.keeps_attempts_apart}


def _begin(window: PinnedRead, ledger: RunLedger) -> Attempt:
    """Note which Spark application this driver is; a Spark Connect client notes nothing."""
    manifest, application = window.manifest, application_of(window.spark)
    if application is not None:
        ledger.note(application)
    return Attempt(
        window=manifest.window,
        number=ledger.number,
        run=ledger.run,
        offsets=window.span,
        pipeline=manifest.pipeline,
        ledger_id=manifest.ledger_id,
        manifest_sha256=manifest.sha256,
        is_noted=application is not None,
        knows=ledger.knows,
    )


def columns_with(window: PinnedRead, written: Mapping[str, tuple[Sink, DataFrame]]) -> dict[str, str | None]:
    """The columns that outputs of files have once they have these rows; None for other kinds of outputs, which know
    their own.

    :raises ColumnChangedError: the rows don't fit what other windows have there.
    """
    files = {name: sink for name, (sink, _) in written.items() if sink.kind in FILE_FORMATS}
    if window.ledger is None or not files:
        return dict.fromkeys(written)
    before = window.ledger.columns_of({name: (sink.kind, str(sink.place)) for name, sink in files.items()})
    columns = {name: _columns(str(sink.place), before.get(name), written[name][1]) for name, sink in files.items()}
    return dict.fromkeys(written) | columns


def _columns(place: str, told: str | None, rows: DataFrame) -> str:
    if told is None:
        return rows.schema.json()
    before = StructType.fromJson(json.loads(told))
    refuse_changed(place, before, rows.schema, widens=lambda before, now: False)
    return added(before, rows.schema).json()


def _result(window: PinnedRead, attempt: Attempt, done: Done, started: float) -> RunResult:
    """A driver's counts and what its outputs hold; ``started`` is when it began, on the monotonic clock."""
    counts, application = done.counts, application_of(window.spark)
    return RunResult(
        attempt=attempt.number,
        run=attempt.run,
        manifest_sha256=attempt.manifest_sha256,
        application_id=None if application is None else application.id,
        outputs=tuple(done.outputs),
        source=done.source,
        read=counts.read,
        written=counts.written,
        task_starts=counts.task_starts,
        unread=counts.unread,
        seconds=round(time.monotonic() - started, 3),
        allow_gaps=window.allow_gaps,
        schemas=tuple(used for _, used in sorted(window.used_schemas.items())),
    )


def output_rows(
    name: str,
    sink: Sink,
    place: str | None,
    found: DataFrame | None,
    rows: int,
    columns: str | None,
    made: int | None = None,
) -> OutputRows:
    """What an output holds.

    :param found: its rows, whose files are to be listed, if it is one of files; None otherwise.
    """
    files: list[str] = []
    if found is not None and place is not None and sink.kind in FILE_FORMATS:
        inside = f"{WINDOW_COLUMN}={place.rpartition(f'/{WINDOW_COLUMN}=')[2]}/"
        files = sorted(file.rpartition(inside)[2] for file in found.inputFiles())
    return OutputRows(name, place, sink.kind, sink.keeps_attempts_apart, rows, tuple(files), columns, made)


def _judged(window: PinnedRead, result: RunResult) -> Verdict:
    manifest = window.manifest
    if not window.has_driver:
        # A Spark Connect client can't ask Kafka where the rows came from: whoever publishes its counts asks.
        topic_ids = {topic: manifest.topics[topic].topic_id for topic in topics_read(manifest)}
        result = replace(result, source=Source(manifest.cluster_id, topic_ids, now_ms()))
    return judge(manifest, result, window.lost)


def _unproved(
    ledger: RunLedger, window: PinnedRead, result: RunResult, verdict: Verdict, places: Sequence[str]
) -> UnprovenError:
    """The error for a result that proves nothing, whose rows are in ``places``. A :class:`CountedTwiceError` if another
    try may prove it."""
    counts = f", its counts at {ledger.result_uri}" if window.has_driver else ""
    return (CountedTwiceError if verdict.may_pass else UnprovenError)(
        f"Window {window.manifest.window} is not proved, and can't be published: {verdict}. The rows of attempt "
        f"{result.attempt} (run {result.run}) stay at {', '.join(places)}{counts}."
    )
