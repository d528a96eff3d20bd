"""Published windows: which attempt counts (``committed.json``), and the rows of all that do.

A window's folder in the output may hold several attempts: killed ones, unproved ones, one that lost a race. Readers who
go through :func:`read_published` see the published one of each window and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial, reduce
from itertools import accumulate, groupby

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import IntervalError, LedgerConflictError, LedgerError, shorten
from airflow_kafka_offsets.offsets.instants import instant_ms, iso_instant
from airflow_kafka_offsets.offsets.publication import COMMITTED, Publication
from airflow_kafka_offsets.offsets.windows import is_window_id, window_extent
from airflow_kafka_offsets.spark.hadoop import HadoopFiles, hadoop_uri

WINDOW_COLUMN, ATTEMPT_COLUMN = "window", "attempt"
"""Columns that come from the names of the output's folders, ``window=…/attempt=…``."""
_READERS = 16
"""Small files that are read at a time: on an object store each takes a round trip or two."""


def read_publication(files: HadoopFiles, folder: str) -> Publication | None:
    """What a window's folder says; None when nothing is published.

    :raises LedgerCorruptError: when the file isn't what it should be.
    """
    content = files.read(f"{folder}/{COMMITTED}")
    return None if content is None else Publication.from_bytes(content)


def read_published(
    spark: SparkSession,
    pipeline_uri: str,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    **options: str,
) -> DataFrame:
    """The rows of a pipeline's published windows, with the window's name in the column ``window``.

    :param pipeline_uri: the pipeline's folder in the ledger, ``<root>/<pipeline>``.
    :param start: only windows from this instant on, aware; None for no bound.
    :param end: only windows up to this instant, aware, exclusive; None for no bound.
    :param options: options of Spark's Parquet source. ``mergeSchema="true"`` where columns were added over time;
        without it Spark takes the columns of one file.
    :raises IntervalError: when a published window lies across a bound, since only whole windows can be told apart.
    :raises LedgerConflictError: when published windows overlap, since their common rows would come twice.
    :raises LedgerError: when no published window holds a row: without files there are no columns either.
    """
    published = published_windows(HadoopFiles(spark), pipeline_uri, start=start, end=end)
    outputs = sorted(each.output for each in published.values() if each.output is not None)
    if not outputs:
        empty = f": {len(published)} are published, all without rows" if published else ""
        raise LedgerError(f"{pipeline_uri} has no published window with rows in the time asked for{empty}.")
    roots = groupby(outputs, key=lambda output: output.rpartition(f"/{WINDOW_COLUMN}=")[0])
    frames = [spark.read.options(basePath=root, **options).parquet(*folders) for root, folders in roots]
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames).drop(ATTEMPT_COLUMN)


def published_windows(
    files: HadoopFiles, pipeline_uri: str, *, start: datetime | None = None, end: datetime | None = None
) -> dict[str, Publication]:
    """What is published, by window, in order of time. Bounds and errors as in :func:`read_published`."""
    folder = f"{hadoop_uri(pipeline_uri)}/windows"
    windows = filter(is_window_id, files.names(folder))
    chosen = [name for name in windows if _inside(name, start, end) is not False]
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda name: read_publication(files, f"{folder}/{name}"), chosen)
        published = {name: each for name, each in zip(chosen, found, strict=True) if each is not None}
    _refuse_crossing(published, start, end)
    _refuse_overlaps(published)
    return published


def _inside(window: str, start: datetime | None, end: datetime | None) -> bool | None:
    """Whether a window lies inside the bounds (True), outside (False) or across one (None)."""
    first, last = window_extent(window)
    low = first if start is None else instant_ms(start)
    high = last if end is None else instant_ms(end)
    if last <= low or first >= high:
        return False
    return True if low <= first and last <= high else None


def _refuse_crossing(windows: Iterable[str], start: datetime | None, end: datetime | None) -> None:
    crossing = [name for name in windows if _inside(name, start, end) is None]
    if crossing:
        raise IntervalError(
            f"The bounds cut through {shorten(crossing)}. Give the start and the end of whole windows, and filter "
            "rows by their timestamp where that is meant."
        )


def _refuse_overlaps(published: Mapping[str, Publication]) -> None:
    with_rows = [name for name, each in published.items() if each.output is not None]
    reaching = accumulate(with_rows, _further)
    for furthest, later in zip(reaching, with_rows[1:], strict=False):
        if window_extent(later)[0] < window_extent(furthest)[1]:
            raise LedgerConflictError(
                f"The published windows {furthest} and {later} overlap at {iso_instant(window_extent(later)[0])}: rows "
                "would come twice. Bound the time asked for so that only one of them is read."
            )


def _further(one: str, other: str) -> str:
    return max(one, other, key=lambda name: window_extent(name)[1])
