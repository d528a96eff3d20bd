"""Derived rows: what a transform makes of a window's records, written with a proof of which records it got.

If each record stays a row, the output proves the read. Here it can't, so Spark counts the records on their way into the
transform, in the action that writes. That count must equal the window. If every offset has a record, that is each
offset once, which is known without a read. If offsets may be without a record, the window is first read to the
executors' disks; the records there are counted separately from the transform, and compared with the log as an output of
records would be. Records that Spark reads again are counted twice, so the run fails and is retried: a wrong count never
proves anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.spark_versions import drop_kept, kept_on_disk, observation_name, was_observed
from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, LedgerConflictError, UnprovenError
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import DerivedRows, RunResult, Tally
from airflow_kafka_offsets.spark.session.files import qualified
from airflow_kafka_offsets.spark.session.session import held, is_connect
from airflow_kafka_offsets.spark.sinks.sink import OWN_COLUMNS, Attempt, Sink
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.window.counts import RowPlan, count_records
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
from airflow_kafka_offsets.spark.window.tally import ObservedRows, observe, observed_sums

Transform: TypeAlias = Callable[[DataFrame], DataFrame]
"""Makes rows from a window's records."""
_COUNT = "count"
_EXCLUDED_RULES = "spark.sql.adaptive.optimizer.excludedRules"
_PROPAGATES_EMPTY = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
"""The rule removes a stage that turns out to be empty, and its count with it. If the rule is excluded, Spark keeps the
count even if no row is left."""


@dataclass(frozen=True, slots=True)
class Derived:
    """One output of derived rows: the transform that makes them from the window's records, and their sink."""

    transform: Transform
    sink: Sink


@dataclass(frozen=True, slots=True)
class _Output:
    """An output whose rows haven't been written yet; one action will write them. The first output's name is empty.

    :param read: counts the records that go into the rows.
    :param row_count: counts the rows themselves.
    """

    name: str
    sink: Sink
    rows: DataFrame
    read: ObservedRows
    row_count: Observation


def write_derived(window: PinnedRead, outputs: Mapping[str, Derived], options: Mapping[str, str]) -> RunResult:
    """See :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.write_derived`."""
    if is_connect(window.spark):
        raise ConfigurationError(
            "A client of Spark Connect can't derive rows: their proof is a count, which a server may leave out of its "
            "answer. Submit the job with KafkaSparkSubmitOperator, or write every record with write(), and derive from "
            "what is published."
        )
    window.strict_time = False
    _refuse_one_place(window, outputs)
    sinks = {name: output.sink for name, output in outputs.items()}
    recorded, load = partial(_recorded, window, sinks), partial(_load, window, window.frame(options), outputs)
    return load_unless_published(window, sinks, recorded, load)


def _refuse_one_place(window: PinnedRead, outputs: Mapping[str, Derived]) -> None:
    places: dict[object, str] = {}
    for name, output in outputs.items():
        require_kind(output.sink)
        place = output.sink.place
        # Sinks that don't say where they write are assumed to write to the same place if they share a class.
        key = type(output.sink) if place is None else qualified(window.spark, place)
        if places.setdefault(key, name) == name:
            continue
        if place is None:
            raise ConfigurationError(
                f"Two outputs go to a {type(output.sink).__name__}, which doesn't say where: each could replace the "
                "other's rows. Set the attribute place, the folder or table, in the class's __init__."
            )
        raise _one_place(place, name)


def _one_place(place: object, name: str) -> ConfigurationError:
    return ConfigurationError(
        f"Two outputs go to {place}, where each would replace the other's rows: give {name} a folder or table of its "
        "own."
    )


def _recorded(
    window: PinnedRead, sinks: Mapping[str, Sink], folder: PinnedFolder, published: Publication, attempt: Attempt
) -> RunResult | None:
    """The counts of a publication that stays valid.

    :returns: None if other rows have replaced the published ones: another attempt has written to a table after them,
        and wasn't published. The window must then be loaded and published again.
    :raises LedgerConflictError: the outputs don't hold the published rows as they were counted.
    """
    recorded = folder.published_result(published)
    same = published.manifest_sha256 == window.manifest.sha256
    if not same:
        refuse_other_manifest(published, window, attempt)
        if recorded.apart or published.revision > window.manifest.revision:
            return recorded
    by_name = {rows.name: rows for rows in recorded.derived}
    if {name: rows.sink for name, rows in by_name.items()} != {name: sink.kind for name, sink in sinks.items()}:
        if not same:
            return recorded
        wanted = ", ".join(_named(name, sink.kind) for name, sink in sinks.items())
        raise LedgerConflictError(
            f"Window {attempt.window} is published with {_described(recorded)}, and this run writes {wanted}. "
            f"{KEPT_OUTPUTS}"
        )
    if any(overwritten(window, by_name[name].output, recorded, sink, attempt) for name, sink in sinks.items()):
        return None
    written = replace(attempt, name=recorded.attempt)
    found = {name: sink.read(window.spark, written).count() for name, sink in sinks.items()}
    if found == {name: rows.rows for name, rows in by_name.items()}:
        return recorded
    raise LedgerConflictError(
        f"Window {attempt.window} is published with {_described(recorded)}, and this run's outputs hold "
        f"{' and '.join(map(str, found.values()))} of these rows. {KEPT_OUTPUTS} {forget_hint(attempt)}"
    )


def _described(recorded: RunResult) -> str:
    if not recorded.derived:
        return f"a row for each record, as {recorded.sink} in {recorded.output}"
    return ", ".join(
        f"{rows.rows} rows in {rows.output} as {_named(rows.name, rows.sink)}" for rows in recorded.derived
    )


def _named(name: str, kind: str) -> str:
    return f"{kind} ({name})" if name else kind


def _load(
    window: PinnedRead,
    records: DataFrame,
    outputs: Mapping[str, Derived],
    folder: PinnedFolder,
    attempt: Attempt,
) -> RunResult:
    started = time.monotonic()
    with ExitStack() as stack:
        with folder.notes.unwritten(attempt.name):
            if window.manifest.span and (len(outputs) > 1 or window.may_have_gaps):
                with window.reading():
                    records = kept_on_disk(records)
                stack.callback(drop_kept, records)
            made: list[_Output] = []
            for name, output in outputs.items():
                made.append(_derive(window, records, name, output, made))
        first = made[0].sink
        # If the first output can't be hidden, the others must be visible before it is; otherwise all are shown
        # together.
        at_once = not (first.hides_rows or first.keeps_attempts_apart)
        places: dict[str, str | None] = {}
        with held(window.spark, _EXCLUDED_RULES, lambda given: ",".join(filter(None, (given, _PROPAGATES_EMPTY)))):
            for each in reversed(made):  # the first one last: whoever sees it finds the others
                places[each.name] = _write(window, each, replace(attempt, output=each.name, at_once=at_once))
        files: tuple[str, ...] | None = None
        rows: list[DerivedRows] = []
        for each in made:
            found = each.sink.read(window.spark, replace(attempt, schema=each.rows.schema))
            files = files_of_output(first, found, places[each.name]) if files is None else files
            rows.append(_counted(window, each, places[each.name], found.count()))
            _require_own_rows(window, each, attempt)
        counts = count_records(window, records, [output.read for output in rows])
    return run_result(
        window,
        attempt,
        counts,
        started,
        output=rows[0].output,
        sink=rows[0].sink,
        apart=all(output.apart for output in rows),
        files=files,
        source=source_of(window),
        derived=tuple(rows),
    )


def _derive(window: PinnedRead, records: DataFrame, name: str, derived: Derived, before: Iterable[_Output]) -> _Output:
    """Have a transform make its rows from records with a count of their own; nothing is read yet. Refused if the rows'
    plan doesn't count the records exactly once, or uses records that were given to the transforms of ``before``."""
    what = _what(name)
    others = frozenset(observation_name(other.read.observation) for other in before)
    read = observe(records, window.manifest, may_have_gaps=window.may_have_gaps)
    rows = derived.transform(read.rows)
    if not isinstance(rows, DataFrame):
        raise ConfigurationError(f"{what} returned {type(rows).__name__}: it has to return a DataFrame.")
    taken = OWN_COLUMNS & {column.lower() for column in rows.columns}
    if taken:
        raise ConfigurationError(
            f"{what} makes a column {min(taken)}, a name that is reserved for the output. Rename it, as with alias()."
        )
    if not window.manifest.span:
        rows = rows.limit(0)
    else:
        _refuse_uncountable(what, rows, read, others)
    row_count = Observation()
    return _Output(name, derived.sink, rows.observe(row_count, F.count(F.lit(1)).alias(_COUNT)), read, row_count)


def _what(name: str) -> str:
    return f"The transform of output {name}" if name else "The transform"


def _refuse_observed(what: str, rows: DataFrame, *observations: Observation) -> None:
    if any(was_observed(rows.sparkSession, observation) for observation in observations):
        raise ConfigurationError(
            f"{what} ran an action on its records (count(), show(), collect(), a checkpoint), or another transform "
            "uses them. Spark counted that action, not the one that writes. Use only DataFrame operations that run no "
            "action, on the frame that the transform is called with."
        )


def _refuse_uncountable(what: str, rows: DataFrame, read: ObservedRows, others: frozenset[str]) -> None:
    _refuse_observed(what, rows, read.observation)
    plan = RowPlan.of(rows, observation_name(read.observation))
    if plan.sorted_by is not None:
        raise ConfigurationError(
            f"{what} uses {plan.sorted_by}() on its records, which has Spark read them twice, first for a sample; they "
            "have to be read once. Sort within partitions (sortWithinPartitions), or sort only what was aggregated."
        )
    if not plan.counted:
        raise ConfigurationError(
            f"{what} makes rows that don't come from its records, as far as Spark can see: they come from other rows, "
            "an RDD or collected rows, or a filter or join leaves none. Derive them from its records by DataFrame "
            "operations only."
        )
    if plan.names & others:
        raise ConfigurationError(
            f"{what} uses records that were given to another output's transform, where they would be counted. Use only "
            "the frame that the transform is called with."
        )
    if plan.reads > 1:
        raise ConfigurationError(
            f"{what} uses its records {plan.reads} times, as a union, a join with themselves or a subquery does: each "
            "use reads them again, and they have to be read once. Tell the branches apart by a column, or make each "
            "one an output."
        )


def _write(window: PinnedRead, output: _Output, attempt: Attempt) -> str | None:
    """Write an output, which counts the records that it is made from."""
    if window.manifest.span:
        _refuse_observed(_what(output.name), output.rows, output.read.observation, output.row_count)
    with window.reading():
        return output.sink.write(output.rows, attempt)


def _replaced(place: str | None, by: str, attempt: Attempt) -> CommitConflictError:
    return CommitConflictError(
        f"{place} holds window {attempt.window} by {by}, which wrote at the same time as this one. Nothing is "
        "published. Run the task again."
    )


def _counted(window: PinnedRead, output: _Output, place: str | None, held_rows: int) -> DerivedRows:
    """What was counted for an output, and how many rows it holds after all outputs are written. An UnprovenError if
    nothing was counted."""
    counted = bool(window.manifest.span)
    sums = observed_sums(output.row_count) if counted else {_COUNT: 0}
    read = output.read.found() if counted else Tally()
    if read is None or not sums:
        what = _what(output.name)
        raise UnprovenError(
            f"Window {window.manifest.window} is not proved, and can't be published: {what[0].lower()}{what[1:]} "
            "wasn't seen to read its records. Spark skips a read that can't lead to a row, as in a join whose other "
            "side turns out to be empty: make that a left join, and filter its rows. It also doesn't see a read before "
            "an RDD, a checkpoint or collected rows."
        )
    return DerivedRows(
        name=output.name,
        output=place,
        sink=output.sink.kind,
        apart=output.sink.keeps_attempts_apart,
        made=sums[_COUNT],
        rows=held_rows,
        read=read,
    )


def _require_own_rows(window: PinnedRead, output: _Output, attempt: Attempt) -> None:
    """Make sure that a table shows an output's own rows after all outputs were written."""
    sink = output.sink
    if not isinstance(sink, TableSink) or not window.manifest.span or sink.unseen(attempt):
        return
    newest = sink.newest(window.spark, attempt.ledger_id, attempt.window)
    if newest is None:
        raise _replaced(sink.table, "nobody whom its history names", attempt)
    if newest.attempt != attempt.name:
        raise _replaced(sink.table, f"attempt {newest.attempt}", attempt)
    if newest.output != output.name:
        raise _one_place(sink.table, output.name or newest.output)
