"""Derived rows: what a transform makes of a window's records, written with a proof of which records it got.

If each record stays a row, the output proves the read. Here it can't, so Spark counts the records on their way into the
transform, in the action that writes. That count must equal the window. If every offset has a record, that is each
offset once, which is known without a read. If offsets may be without a record, the window is first read to the
executors' disks; the records there are counted separately from the transform, and compared with the log as an output of
records would be. Records that Spark reads again are counted twice, so the run fails and is retried: a wrong count never
proves anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from pyspark.sql import DataFrame, Observation, functions as F

from airflow_kafka_offsets.compat.spark_versions import drop_kept, kept_on_disk, observation_name, was_observed
from airflow_kafka_offsets.errors import ConfigurationError, UnprovenError
from airflow_kafka_offsets.offsets.proof.run_result import JobCounts, OutputRows, RunResult, Tally
from airflow_kafka_offsets.spark.session.connect import DERIVED_ROWS, require_driver
from airflow_kafka_offsets.spark.session.session import held
from airflow_kafka_offsets.spark.sinks.sink import OWN_COLUMNS, Attempt, Sink, rows_of
from airflow_kafka_offsets.spark.window.counts import RowPlan, count_records
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.window.proved_write import (
    Done,
    columns_with,
    load,
    output_rows,
    placed,
    refuse_one_place,
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
    require_driver(window.spark, DERIVED_ROWS)
    placed_outputs = {name: _placed(window, name, output) for name, output in outputs.items()}
    sinks = {name: output.sink for name, output in placed_outputs.items()}
    refuse_one_place(sinks)
    return load(window, sinks, partial(_write_all, window, window.frame(options), placed_outputs))


def _placed(window: PinnedRead, name: str, output: Derived) -> Derived:
    """An output with the pipeline's name filled in. Refused if it is one for each topic: a job's rows have none."""
    sinks = placed(window, output.sink)
    if list(sinks) != [""]:
        raise ConfigurationError(
            f"{_what(name)} can't write to {output.sink.place}, which is a place for each topic: the rows that a job "
            "makes need not have a topic. Give each topic an output of its own, whose transform takes that topic's "
            "records."
        )
    return replace(output, sink=sinks[""])


def _write_all(
    window: PinnedRead, records: DataFrame, outputs: Mapping[str, Derived], attempts: Mapping[str, Attempt]
) -> Done:
    with ExitStack() as stack:
        if window.span and (len(outputs) > 1 or window.may_have_gaps):
            with window.reading():
                records = kept_on_disk(records)
            stack.callback(drop_kept, records)
        made: list[_Output] = []
        for name, output in outputs.items():
            made.append(_derive(window, records, name, output, made))
        places: dict[str, str | None] = {}
        columns = columns_with(window, {each.name: (each.sink, each.rows) for each in made})
        with held(window.spark, _EXCLUDED_RULES, lambda given: ",".join(filter(None, (given, _PROPAGATES_EMPTY)))):
            for each in reversed(made):  # the first one last: whoever sees it finds the others
                places[each.name] = _write(window, each, attempts[each.name])
        rows: list[OutputRows] = []
        for each in made:
            found = rows_of(each.sink, window.spark, attempts[each.name], places[each.name])
            listed, job = found if each is made[0] else None, _job_counts(window, each)
            number = found.count()
            rows.append(output_rows(each.name, each.sink, places[each.name], listed, number, columns[each.name], job))
        counts = count_records(window, records, [output.job.read for output in rows if output.job])
    return Done(counts, rows, source_of(window))


def _derive(window: PinnedRead, records: DataFrame, name: str, derived: Derived, before: Iterable[_Output]) -> _Output:
    """Have a transform make its rows from records with a count of their own; nothing is read yet. Refused if the rows'
    plan doesn't count the records exactly once, or uses records that were given to the transforms of ``before``."""
    what = _what(name)
    others = frozenset(observation_name(other.read.observation) for other in before)
    read = observe(records, window.manifest, window.left, may_have_gaps=window.may_have_gaps)
    rows = derived.transform(read.rows)
    if not isinstance(rows, DataFrame):
        raise ConfigurationError(f"{what} returned {type(rows).__name__}: it has to return a DataFrame.")
    taken = OWN_COLUMNS & {column.lower() for column in rows.columns}
    if taken:
        raise ConfigurationError(
            f"{what} makes a column {min(taken)}, a name that is reserved for the output. Rename it, as with alias()."
        )
    if not window.span:
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
    if window.span:
        _refuse_observed(_what(output.name), output.rows, output.read.observation, output.row_count)
    with window.reading():
        return output.sink.replace(output.rows, attempt)


def _job_counts(window: PinnedRead, output: _Output) -> JobCounts:
    """What was counted for an output. An UnprovenError if nothing was."""
    counted = bool(window.span)
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
    return JobCounts(sums[_COUNT], read)
