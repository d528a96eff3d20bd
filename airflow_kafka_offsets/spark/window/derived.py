"""Derived rows: what a transform makes of a window's records, written with a proof of which records it got.

If each record stays a row, the output proves the read. Here it can't. So the window is first read to the executors'
disks. The records there are counted, and compared with the log as an output of records would be. Transforms get these
records and no others; what they make of them is theirs. Their rows are counted as they are written, and again in the
output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from pyspark.sql import DataFrame, Observation, functions as F

from airflow_kafka_offsets.errors import ConfigurationError, UnprovenError
from airflow_kafka_offsets.offsets.proof.run_result import OutputRows, RunResult
from airflow_kafka_offsets.spark.session.session import DERIVED_ROWS, require_driver
from airflow_kafka_offsets.spark.sinks.sink import OWN_COLUMNS, Attempt, Sink, rows_of
from airflow_kafka_offsets.spark.window.counts import count_kept, observed_sums
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.window.proved_write import (
    Done,
    columns_with,
    kept,
    load,
    output_rows,
    placed,
    refuse_one_place,
)

Transform: TypeAlias = Callable[[DataFrame], DataFrame]
"""Makes rows from a window's records."""


@dataclass(frozen=True, slots=True)
class Derived:
    """One output of derived rows: the transform that makes them from the window's records, and their sink."""

    transform: Transform
    sink: Sink


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
    window: PinnedRead, frame: DataFrame, outputs: Mapping[str, Derived], attempts: Mapping[str, Attempt]
) -> Done:
    with kept(window, frame) as records:
        made = {name: _made(window, name, output.transform(records)) for name, output in outputs.items()}
        columns = columns_with(window, {name: (outputs[name].sink, rows) for name, rows in made.items()})
        written = {
            name: _write(window, name, rows, outputs[name].sink, attempts[name])
            for name, rows in reversed(made.items())  # the first one last: whoever sees it finds the others
        }
        counts, rows = count_kept(window, records), list[OutputRows]()
        for name, output in outputs.items():
            place, number = written[name]
            found = rows_of(output.sink, window.spark, attempts[name], place)
            listed = None if rows else found
            rows.append(output_rows(name, output.sink, place, listed, found.count(), columns[name], number))
    return Done(counts, rows, window.source(is_read=True))


def _made(window: PinnedRead, name: str, rows: DataFrame) -> DataFrame:
    """What a transform has made; nothing of a window without offsets."""
    if not isinstance(rows, DataFrame):
        raise ConfigurationError(f"{_what(name)} returned {type(rows).__name__}: it has to return a DataFrame.")
    taken = OWN_COLUMNS & {column.lower() for column in rows.columns}
    if taken:
        raise ConfigurationError(
            f"{_what(name)} makes a column {min(taken)}, a name that is reserved for the output. Rename it, as with "
            "alias()."
        )
    return rows if window.span else rows.limit(0)


def _what(name: str) -> str:
    return f"The transform of output {name}" if name else "The transform"


def _write(window: PinnedRead, name: str, rows: DataFrame, sink: Sink, attempt: Attempt) -> tuple[str | None, int]:
    """Write an output, and count its rows on their way. Returns where they are, and their number."""
    counted = Observation()
    place = sink.replace(rows.observe(counted, F.count(F.lit(1)).alias("rows")), attempt)
    if not window.span:
        return place, 0
    sums = observed_sums(counted)
    if not sums:
        raise UnprovenError(
            f"Window {window.manifest.window} is not proved, and can't be published: Spark reported no count of the "
            f"rows that were written to {place}. Has the sink of {name or 'the job'} run one action on them?"
        )
    return place, int(sums["rows"])
