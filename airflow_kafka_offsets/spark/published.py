"""Published windows: the rows of the attempts that count.

A window's folder in the output may hold several attempts: killed ones, unproved ones, one that lost a race, those of
another revision. Readers who go through :func:`read_published` see the published one of each window and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache, partial, reduce
from itertools import chain, groupby
from operator import itemgetter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError, LedgerError
from airflow_kafka_offsets.offsets.instants import compact_instant, instant_ms
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.reading import bounds, overlaps, refuse_unreadable
from airflow_kafka_offsets.offsets.windows.ledger_names import (
    LedgerIdentity,
    is_month,
    live_revisions,
    month_of,
    revision_folder,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.spark.attempt_notes import AttemptNotes
from airflow_kafka_offsets.spark.files.connect_files import LedgerFiles, pipeline_files
from airflow_kafka_offsets.spark.files.hadoop import hadoop_uri
from airflow_kafka_offsets.spark.ledger.identity_check import ledger_identity
from airflow_kafka_offsets.spark.ledger.published_attempts import counting_publication
from airflow_kafka_offsets.spark.sink import ATTEMPT_COLUMN, OUTSIDE_COLUMN, WINDOW_COLUMN
from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink
from airflow_kafka_offsets.spark.sinks.file_sink import FILE_FORMATS
from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink
from airflow_kafka_offsets.spark.sinks.table_sink import read_table

_LOOKS = 5
"""At ledger and tables, until nothing has changed in between."""
_READERS = 16
"""Small files that are read at a time: on an object store each takes a round trip or two."""

_TABLES: dict[str, type[DeltaSink | IcebergSink]] = {each.kind: each for each in (DeltaSink, IcebergSink)}


def read_published(
    spark: SparkSession,
    pipeline_uri: str,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    outside: bool = False,
    **options: str,
) -> DataFrame:
    """The rows of a pipeline's published windows, with the window's name in the column ``window``.

    :param pipeline_uri: the pipeline's folder in the ledger, ``<root>/<pipeline>``.
    :param start: only windows from this instant on, aware; None for no bound.
    :param end: only windows up to this instant, aware, exclusive; None for no bound.
    :param outside: instead, the rows that windows loaded with strict time keep apart: their timestamp lies outside.
    :param options: options of Spark's source of files. ``mergeSchema="true"`` where columns were added over time;
        without it Spark takes the columns of one file.
    :raises IntervalError: when a published window lies across a bound, since only whole windows can be told apart.
    :raises LedgerConflictError: when published windows with rows share offsets, whose rows would come twice; when a
        table is another ledger's; and when a newer revision of a window is being loaded into a table, or was: its rows
        may be there, in the place of the published ones.
    :raises LedgerError: when no published window holds such a row: without files there are no columns either; and when
        a table can't be read, or is a sink's of the user's own.
    """
    for _ in range(_LOOKS):
        files = pipeline_files(spark, hadoop_uri(pipeline_uri))
        published = published_windows(files, pipeline_uri, start=start, end=end)
        with_rows = {window: each for window, each in published.items() if _rows(each, outside)}
        if not with_rows:
            asked = "rows outside its time" if outside else "rows"
            empty = f": {len(published)} are published, all without {asked}" if published else ""
            raise LedgerError(f"{pipeline_uri} has no published window with {asked} in the time asked for{empty}.")
        in_tables = {window: each for window, each in with_rows.items() if each.sink not in FILE_FORMATS}
        in_files = [each for window, each in with_rows.items() if window not in in_tables]
        owner = ledger_identity(files, hadoop_uri(pipeline_uri)) if in_tables else None
        frames = [*_files(spark, in_files, outside, options), *_tables(spark, in_tables, outside, owner)]
        # Whoever had replaced rows by the time that a table was looked at had begun before.
        if not _begun_since(spark, pipeline_uri, in_tables, owner):
            rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
            return rows.drop(ATTEMPT_COLUMN, OUTSIDE_COLUMN)
    raise LedgerConflictError(
        f"Windows of {pipeline_uri} were loaded anew {_LOOKS} times while their rows were looked up. Read again."
    )


def _rows(published: Publication, outside: bool) -> int:
    """How many rows a window has of one side."""
    if published.outside is None:
        return 0 if outside else published.rows
    return published.outside if outside else published.rows - published.outside


def _files(
    spark: SparkSession,
    published: Iterable[Publication],
    outside: bool,
    options: Mapping[str, str],
) -> Iterator[DataFrame]:
    """What lies in folders. What Spark reads together must be of one format, in one table, and equally deep."""

    def place(each: Publication) -> tuple[str, str, bool, str]:
        assert each.output is not None, "it has rows"
        strict = each.outside is not None
        side = f"/{OUTSIDE_COLUMN}={str(outside).lower()}" if strict else ""
        return each.sink, each.output.rpartition(f"/{WINDOW_COLUMN}=")[0], strict, each.output + side

    for (kind, root, _), same in groupby(sorted(map(place, published)), key=itemgetter(0, 1, 2)):
        yield spark.read.options(basePath=root, **options).format(kind).load([folder for *_, folder in same])


def _tables(
    spark: SparkSession, published: Mapping[str, Publication], outside: bool, owner: LedgerIdentity | None
) -> Iterator[DataFrame]:
    """What lies in tables, by the column ``window``."""
    tables = {(each.sink, each.output, each.outside is not None) for each in published.values()}
    for kind, output, strict in sorted(tables, key=str):
        assert output is not None, "it has rows"
        theirs = [
            name
            for name, each in published.items()
            if (each.sink, each.output, each.outside is not None) == (kind, output, strict)
        ]
        rows = read_table(spark, kind, output, owner).where(F.col(WINDOW_COLUMN).isin(theirs))
        yield rows.where(F.col(OUTSIDE_COLUMN) == outside) if strict else rows


def published_windows(
    files: LedgerFiles, pipeline_uri: str, *, start: datetime | None = None, end: datetime | None = None
) -> dict[str, Publication]:
    """What is published, by window, in order of time: of each what counts. Bounds and errors as in
    :func:`read_published`."""
    folder = f"{hadoop_uri(pipeline_uri)}/windows"
    low, high = bounds(*(None if each is None else instant_ms(each) for each in (start, end)))
    with ThreadPoolExecutor(_READERS) as pool:
        # Months before the start aren't left out: a window of theirs may reach beyond it, and is refused then.
        months = [each for each in files.names(folder) if is_month(each) and each <= month_of(compact_instant(high))]
        names = chain.from_iterable(pool.map(lambda month: files.names(f"{folder}/{month}"), months))
        live = {window: each for window, each in live_revisions(names).items() if overlaps(window, low, high)}

        def publication(window: str) -> Publication | None:
            found = counting_publication(files, f"{folder}/{month_of(window)}", window, live[window])
            if found is not None and found.rows and found.sink not in FILE_FORMATS:
                _refuse_replaced(files, f"{folder}/{month_of(window)}", window, found, live[window])
            return found

        found = zip(live, pool.map(publication, live), strict=True)
        published = {window: each for window, each in found if each is not None}
    refuse_unreadable(published, low, high, cache(lambda window: _ranges(files, folder, published[window], window)))
    return published


def _begun_since(
    spark: SparkSession, pipeline_uri: str, published: Mapping[str, Publication], owner: LedgerIdentity | None
) -> bool:
    """Whether a newer revision of a window has begun since its publication was read.

    :param published: windows in tables.
    :param owner: the ledger whose these are.
    :raises LedgerConflictError: when it has written, and noted nothing in the ledger.
    """
    if owner is None:
        return False
    files, folder = pipeline_files(spark, hadoop_uri(pipeline_uri)), f"{hadoop_uri(pipeline_uri)}/windows"
    live = {month: live_revisions(files.names(f"{folder}/{month}")) for month in set(map(month_of, published))}
    for window, each in published.items():
        revisions = live[month_of(window)].get(window, ())
        month = f"{folder}/{month_of(window)}"
        if _newer_writer(files, month, window, each, revisions):
            return True
        if counting_publication(files, month, window, revisions) != each:
            return True
    newer = {window for window, each in published.items() if _has_newer(live, window, each)}
    for kind, table in {(each.sink, str(each.output)) for each in published.values()}:
        theirs = {window: each for window, each in published.items() if (each.sink, each.output) == (kind, table)}
        _refuse_overwritten(spark, theirs, newer, owner)
    return False


def _has_newer(live: Mapping[str, Mapping[str, Sequence[int]]], window: str, published: Publication) -> bool:
    """Whether a newer revision was resolved than is published."""
    return any(number > published.revision for number in live[month_of(window)].get(window, ()))


def _refuse_overwritten(
    spark: SparkSession, published: Mapping[str, Publication], newer: AbstractSet[str], owner: LedgerIdentity
) -> None:
    """Ask a table itself whose rows it holds: another attempt may have written there, and a client of Spark Connect
    notes nothing in the ledger. What its history has forgotten was written long ago.

    :param published: windows whose rows are in it.
    :param newer: those of which a newer revision was resolved.
    :raises LedgerConflictError: it holds another attempt's.
    """
    first = next(iter(published.values()))
    commits = _TABLES[first.sink](str(first.output)).newest_of(spark, owner.ledger_id, published.keys())
    for window, each in published.items():
        commit = commits.get(window)
        if (commit is None and window not in newer) or (commit is not None and commit.attempt == each.attempt):
            continue
        found = (
            "has forgotten whose" if commit is None else f"holds those of {commit.attempt}, revision {commit.revision}"
        )
        raise LedgerConflictError(
            f"Of window {window} the rows of attempt {each.attempt}, revision {each.revision}, are published, and the "
            f"{each.sink} table {each.output} {found}, by its history. Load and publish the newest revision, and read "
            f"then; of the same revision, airflow kafka-offsets ledger forget {owner.pipeline} {window} --force first."
        )


def _refuse_replaced(files: LedgerFiles, month: str, window: str, published: Publication, live: Iterable[int]) -> None:
    """Refuse a window of a table whose published rows a newer revision may have replaced, and not be published yet."""
    newer = _newer_writer(files, month, window, published, live)
    if newer is not None:
        revision, attempt = newer
        raise LedgerConflictError(
            f"Window {window} is published in revision {published.revision}, and attempt {attempt} has begun to "
            f"load revision {revision} into a table, where the rows of one take the place of the other's: nobody "
            f"can tell whose are there. Load and publish revision {revision}, and read then."
        )


def _newer_writer(
    files: LedgerFiles, month: str, window: str, published: Publication, live: Iterable[int]
) -> tuple[int, str] | None:
    """Revision and attempt that may have replaced a window's published rows in a table. Attempts that only count what
    is published replace nothing."""
    for revision in (each for each in live if each > published.revision):
        begun = AttemptNotes(files, f"{month}/{revision_folder(window, revision)}").writers()
        if begun:
            return revision, begun[-1]
    return None


def _ranges(files: LedgerFiles, folder: str, published: Publication, window: str) -> tuple[OffsetRange, ...]:
    """The offsets of a published window."""
    content = files.read(f"{folder}/{month_of(window)}/{revision_folder(window, published.revision)}/manifest.json")
    if content is None:
        raise LedgerCorruptError(f"Window {window} is published from a manifest that its folders don't have.")
    return Manifest.from_bytes(content, published.manifest_sha256).ranges
