"""Published windows: which attempt counts (``committed.json``), and the rows of all that do.

A window's folder in the output may hold several attempts: killed ones, unproved ones, one that lost a race. Readers who
go through :func:`read_published` see the published one of each window and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial, reduce
from itertools import groupby, pairwise
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import IntervalError, LedgerConflictError, LedgerCorruptError, LedgerError, shorten
from airflow_kafka_offsets.offsets.instants import instant_ms, iso_instant, parse_instant
from airflow_kafka_offsets.spark.hadoop import HadoopFiles, hadoop_uri

COMMITTED = "committed.json"
"""Name of the file, in a window's folder of the ledger, that says which attempt is published."""
WINDOW_COLUMN, ATTEMPT_COLUMN = "window", "attempt"
"""Columns that come from the names of the output's folders, ``window=…/attempt=…``."""
_FORMAT = 1
_READERS = 16
"""Small files that are read at a time: on an object store each takes a round trip or two."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The published attempt of a window.

    :param attempt: its name.
    :param output: folder with its rows; None for an empty window.
    :param manifest_sha256: the manifest that it read.
    :param rows: rows in the output.
    """

    attempt: str
    output: str | None
    manifest_sha256: str
    rows: int

    def to_bytes(self) -> bytes:
        """JSON for the file."""
        return json.dumps({"format": _FORMAT} | asdict(self), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def read(cls, files: HadoopFiles, folder: str) -> Self | None:
        """What a window's folder says; None when nothing is published.

        :raises LedgerCorruptError: when the file isn't what it should be.
        """
        content = files.read(f"{folder}/{COMMITTED}")
        if content is None:
            return None
        try:
            fields = json.loads(content)
            if fields["format"] != _FORMAT:
                raise ValueError(f"format {fields['format']}, this version reads {_FORMAT}")
            return cls(**{name: fields[name] for name in cls.__slots__})
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"{folder}/{COMMITTED} is not readable: {error!r}.") from error


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
    chosen = [name for name in files.names(folder) if _inside(name, start, end) is not False]
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda name: Publication.read(files, f"{folder}/{name}"), chosen)
        published = {name: each for name, each in zip(chosen, found, strict=True) if each is not None}
    _refuse_crossing(published, start, end)
    _refuse_overlaps(published)
    return published


def _extent(window: str) -> tuple[int, int]:
    """Start and end of a window in Unix milliseconds, from its name."""
    start, _, end = window.partition("_")
    return parse_instant(start), parse_instant(end)


def _inside(window: str, start: datetime | None, end: datetime | None) -> bool | None:
    """Whether a window lies inside the bounds (True), outside (False) or across one (None)."""
    first, last = _extent(window)
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
    for (earlier, one), (later, other) in pairwise(published.items()):
        if one.output and other.output and _extent(later)[0] < _extent(earlier)[1]:
            raise LedgerConflictError(
                f"The published windows {earlier} and {later} overlap at {iso_instant(_extent(later)[0])}: rows would "
                "come twice. Bound the time asked for so that only one of them is read."
            )
