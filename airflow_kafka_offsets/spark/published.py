"""Published windows: the rows of the attempts that count.

A window's folder in the output may hold several attempts: killed ones, unproved ones, several drivers of one. Readers
who use :func:`read_published` see only the published one of each window, as the ledger's log has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from itertools import groupby
from operator import attrgetter

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import CommitConflictError, LedgerError
from airflow_kafka_offsets.ledger.entries import Output, Published
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.offsets.proof.run_result import NO_SINK, main_outputs
from airflow_kafka_offsets.offsets.windows.ledger_names import whole_windows
from airflow_kafka_offsets.spark.session.session import words
from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink
from airflow_kafka_offsets.spark.sinks.file_sink import AS_WRITTEN, FILE_FORMATS
from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink
from airflow_kafka_offsets.spark.sinks.sink import ATTEMPT_COLUMN, WINDOW_COLUMN
from airflow_kafka_offsets.spark.sinks.table_owner import Owner
from airflow_kafka_offsets.spark.window.ledger import log_of

TABLES: Mapping[str, type[DeltaSink | IcebergSink]] = {sink.kind: sink for sink in (DeltaSink, IcebergSink)}


@dataclass(frozen=True, slots=True)
class _Rows:
    """A published window with rows, and the output that has them."""

    window: Window
    publication: Published
    sink: str
    place: str

    @property
    def root(self) -> str:
        """The folder of the whole table, for rows in a folder of their own."""
        return self.place.rpartition(f"/{WINDOW_COLUMN}=")[0]


def read_published(
    spark: SparkSession,
    pipeline_uri: str,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    output: str | None = None,
    **options: str,
) -> DataFrame:
    """The rows of a pipeline's published windows, with the window's name in the column ``window``.

    :param pipeline_uri: the pipeline's folder in the ledger, ``<root>/<pipeline>``.
    :param start: only windows from this aware instant on; None for no bound.
    :param end: only windows up to this aware instant, exclusive; None for no bound.
    :param output: name of the output to read: a topic, if each has an output of its own, or what a job calls a further
        one, such as its dead letters; see :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.write_derived`. Each
        window must have been published with it. None for all topics, or for a job's first output.
    :param options: options of Spark's file source. Pass ``mergeSchema="true"`` if columns were added over time; without
        it Spark takes the columns of one file.
    :raises IntervalError: when a published window crosses a bound, because only whole windows can be told apart.
    :raises CommitConflictError: when a table holds other rows of a window than the published ones: it is being loaded
        again. Read again once that load is published.
    :raises LedgerConflictError: when a table belongs to another ledger.
    :raises LedgerError: when no published window has rows (without files there are no columns either); when a table
        can't be read, or belongs to a user's own sink; when columns of several tables have the same name and types that
        don't fit together; or when a window was published without ``output``.
    """
    state = log_of(spark, pipeline_uri).read()
    low, high = (None if bound is None else instant_ms(bound) for bound in (start, end))
    published = published_windows(state, low, high)
    found = [rows for window in published for rows in _rows_of(window, output)]
    if not found:
        empty = f": {len(published)} are published, all without rows" if published else ""
        raise LedgerError(f"{pipeline_uri} has no published window with rows in the requested time{empty}.")
    frames = [
        *_files(spark, [rows for rows in found if rows.sink in FILE_FORMATS], options),
        *_tables(spark, [rows for rows in found if rows.sink not in FILE_FORMATS], state),
    ]
    try:
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames).drop(ATTEMPT_COLUMN)
    except AnalysisException as error:
        raise LedgerError(
            f"The rows of {pipeline_uri} are in {len(frames)} tables, whose columns don't fit together: "
            f"{words(error)}. Read one topic's with output=, or fewer windows."
        ) from error


def published_windows(state: State, start_ms: int | None = None, end_ms: int | None = None) -> list[Window]:
    """The published windows between two instants, in order of time.

    :raises IntervalError: when one crosses a bound.
    """
    return [
        state.windows[name] for name in whole_windows((window.name for window in state.published), start_ms, end_ms)
    ]


def _rows_of(window: Window, name: str | None) -> list[_Rows]:
    """Where a window's rows are; empty when it has none. Refused when it was published without the named output."""
    published = window.publication
    assert published is not None, "it is published"
    outputs: Sequence[Output] = published.outputs
    if name is None or outputs[0].sink == NO_SINK:
        outputs = main_outputs(outputs)
    else:
        outputs = [each for each in outputs if each.name == name]
    if not outputs:
        named = ", ".join(each.name for each in published.outputs if each.name) or "none"
        raise LedgerError(
            f"Window {window.name} is published without an output {name}; its named outputs are: {named}. Name one of "
            "these, leave output= out for the window's own rows, or choose windows that have it by start and end."
        )
    return [_Rows(window, published, each.sink, str(each.output)) for each in outputs if each.rows]


def _files(spark: SparkSession, found: Iterable[_Rows], options: Mapping[str, str]) -> Iterator[DataFrame]:
    """The rows in folders. Folders that Spark reads together must share format and table."""
    together = attrgetter("sink", "root")
    for (kind, root), same in groupby(sorted(found, key=together), key=together):
        reader = spark.read.options(**AS_WRITTEN).options(basePath=root, **options).format(kind)
        yield reader.load([rows.place for rows in same])


def _tables(spark: SparkSession, found: Iterable[_Rows], state: State) -> Iterator[DataFrame]:
    """The rows in tables, found by the column ``window``."""
    tables: dict[tuple[str, str], dict[str, _Rows]] = defaultdict(dict)
    for rows in found:
        tables[rows.sink, rows.place][rows.window.name] = rows
    created = state.begun
    for (kind, place), windows in sorted(tables.items()):
        if kind not in TABLES:
            raise LedgerError(
                f"The rows are in {place}, which the sink {kind} wrote: read them the way that sink does."
            )
        table = TABLES[kind](place)
        frame = table.rows(spark, Owner(created.ledger_id, created.pipeline))
        # After the version to read was chosen: whoever has committed before that is seen.
        commits = table.newest_of(spark, created.ledger_id, windows.keys())
        for name, rows in windows.items():
            commit = commits.get(name)
            _refuse_others(rows, None if commit is None else commit.name)
        yield frame.where(F.col(WINDOW_COLUMN).isin(list(windows)))


def _refuse_others(rows: _Rows, held: str | None) -> None:
    """Refuse a table that holds other rows of a window than the published ones.

    :param held: name of the attempt whose rows it holds; None if its history doesn't have that commit any more, which
        was made long ago.
    """
    window, published = rows.window, rows.publication
    later = window.attempts[-1].number if window.attempts else published.attempt
    if held == f"{published.attempt}-{published.run}" or (held is None and later == published.attempt):
        return
    whose = f"holds those of attempt {held}" if held is not None else f"may hold those of attempt {later}"
    raise CommitConflictError(
        f"Window {window.name}: the rows of attempt {published.attempt} are published, but the {rows.sink} table "
        f"{rows.place} {whose}, according to its history. The window is being loaded again, or that load has failed: "
        "run it until it is published, then read again."
    )
