"""Published windows: the rows of the attempts that count.

A window's folder in the output may hold several attempts: killed ones, unproved ones, one that lost a race, those of
another revision. Readers who use :func:`read_published` see only the published attempt of each window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import cache, partial, reduce
from itertools import chain, groupby
from operator import itemgetter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError, LedgerError
from airflow_kafka_offsets.offsets.instants import compact_instant, instant_ms
from airflow_kafka_offsets.offsets.proof.publication import NO_SINK, Publication
from airflow_kafka_offsets.offsets.proof.reading import bounds, overlaps, refuse_unreadable
from airflow_kafka_offsets.offsets.windows.ledger_names import (
    WINDOWS,
    LedgerIdentity,
    is_month,
    live_revisions,
    month_of,
    revision_folder,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.spark.session.files import LedgerFiles, hadoop_uri
from airflow_kafka_offsets.spark.sinks.file_sink import AS_WRITTEN, FILE_FORMATS
from airflow_kafka_offsets.spark.sinks.kinds import table_of
from airflow_kafka_offsets.spark.sinks.sink import ATTEMPT_COLUMN, OUTSIDE_COLUMN, WINDOW_COLUMN
from airflow_kafka_offsets.spark.window.ledger import (
    AttemptNotes,
    counting_publication,
    ledger_identity,
    pipeline_files,
)

_LOOKS = 5
"""How often ledger and tables are looked at until nothing has changed in between."""
_READERS = 16
"""Small files that are read in parallel: on an object store each takes a round trip or two."""


def read_published(
    spark: SparkSession,
    pipeline_uri: str,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    outside: bool = False,
    output: str | None = None,
    **options: str,
) -> DataFrame:
    """The rows of a pipeline's published windows, with the window's name in the column ``window``.

    :param pipeline_uri: the pipeline's folder in the ledger, ``<root>/<pipeline>``.
    :param start: only windows from this aware instant on; None for no bound.
    :param end: only windows up to this aware instant, exclusive; None for no bound.
    :param outside: read the rows that strict time keeps apart instead: those whose timestamp lies outside their window.
    :param output: name of another output to read instead of the first one, such as a job's dead letters; see
        :meth:`~airflow_kafka_offsets.spark.pinned.PinnedWindow.write_derived`. Each window must have been published
        with it.
    :param options: options of Spark's file source. Pass ``mergeSchema="true"`` if columns were added over time; without
        it Spark takes the columns of one file.
    :raises IntervalError: when a published window crosses a bound, because only whole windows can be told apart.
    :raises LedgerConflictError: when published windows with rows share offsets, so that rows would be read twice; when
        a table belongs to another ledger; or when a newer revision of a window is being or has been loaded into a
        table, so that its rows may have replaced the published ones.
    :raises LedgerError: when no published window holds such rows (without files there are no columns either); when a
        table can't be read, or belongs to a user's own sink; or when a window was published without ``output``.
    """
    for _ in range(_LOOKS):
        files = pipeline_files(spark, hadoop_uri(pipeline_uri))
        published = published_windows(files, pipeline_uri, start=start, end=end, output=output)
        with_rows = {window: found for window, found in published.items() if _rows(found, outside)}
        if not with_rows:
            asked = "rows outside its time" if outside else "rows"
            empty = f": {len(published)} are published, all without {asked}" if published else ""
            raise LedgerError(f"{pipeline_uri} has no published window with {asked} in the requested time{empty}.")
        in_tables = {window: found for window, found in with_rows.items() if found.sink not in FILE_FORMATS}
        in_files = [found for window, found in with_rows.items() if window not in in_tables]
        owner = ledger_identity(files, hadoop_uri(pipeline_uri)) if in_tables else None
        frames = [*_files(spark, in_files, outside, options), *_tables(spark, in_tables, outside, owner)]
        # An attempt that replaced rows before a table was looked at has begun by now, so this check sees its note.
        if owner is None or not _begun_since(spark, pipeline_uri, in_tables, owner):
            rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
            return rows.drop(ATTEMPT_COLUMN, OUTSIDE_COLUMN)
    raise LedgerConflictError(
        f"Windows of {pipeline_uri} were loaded again {_LOOKS} times while their rows were looked up. Read again."
    )


def _rows(published: Publication, outside: bool) -> int:
    """How many rows a window has inside its time, or outside."""
    if published.outside is None:
        return 0 if outside else published.rows
    return published.outside if outside else published.rows - published.outside


def _files(
    spark: SparkSession, published: Iterable[Publication], outside: bool, options: Mapping[str, str]
) -> Iterator[DataFrame]:
    """The rows in folders. Folders that Spark reads together must share format, table and depth."""

    def place(found: Publication) -> tuple[str, str, bool, str]:
        assert found.output is not None, "it has rows"
        strict = found.outside is not None
        side = f"/{OUTSIDE_COLUMN}={str(outside).lower()}" if strict else ""
        return found.sink, found.output.rpartition(f"/{WINDOW_COLUMN}=")[0], strict, found.output + side

    for (kind, root, _), same in groupby(sorted(map(place, published)), key=itemgetter(0, 1, 2)):
        reader = spark.read.options(**AS_WRITTEN).options(basePath=root, **options).format(kind)
        yield reader.load([folder for *_, folder in same])


def _tables(
    spark: SparkSession, published: Mapping[str, Publication], outside: bool, owner: LedgerIdentity | None
) -> Iterator[DataFrame]:
    """The rows in tables, found by the column ``window``."""
    tables: dict[tuple[str, str, bool], list[str]] = defaultdict(list)
    for window, found in published.items():
        tables[found.sink, str(found.output), found.outside is not None].append(window)
    for (kind, output, strict), windows in sorted(tables.items()):
        rows = table_of(kind, output).rows(spark, owner).where(F.col(WINDOW_COLUMN).isin(windows))
        yield rows.where(F.col(OUTSIDE_COLUMN) == outside) if strict else rows


def published_windows(
    files: LedgerFiles,
    pipeline_uri: str,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    output: str | None = None,
) -> dict[str, Publication]:
    """What is published, by window, in order of time: for each window the publication that counts. Arguments and errors
    as in :func:`read_published`."""
    low, high = bounds(*(None if bound is None else instant_ms(bound) for bound in (start, end)))
    pipeline = _Pipeline(files, pipeline_uri)
    with ThreadPoolExecutor(_READERS) as pool:
        # Earlier months are included: one of their windows may extend past the start, and is then refused.
        months = [month for month in pipeline.months() if month <= month_of(compact_instant(high))]
        live = chain.from_iterable(pool.map(pipeline.live, months))
        windows = [window for window in live if overlaps(window, low, high)]
        found = zip(windows, pool.map(pipeline.publication, windows), strict=True)
        published = {window: _of_output(window, each, output) for window, each in found if each is not None}
        in_tables = [window for window, found in published.items() if found.rows and found.sink not in FILE_FORMATS]
        list(pool.map(lambda window: pipeline.refuse_replaced(window, published[window]), in_tables))
    refuse_unreadable(published, low, high, cache(lambda window: pipeline.ranges(window, published[window])))
    return published


def _of_output(window: str, published: Publication, output: str | None) -> Publication:
    """A publication as if the named output were its only one; unchanged for None, and for a window that needed no job.
    Refused when it has no such output."""
    if output is None or published.sink == NO_SINK:
        return published
    found = next((further for further in published.further if further.name == output), None)
    if found is None:
        named = ", ".join(further.name for further in published.further) or "none"
        raise LedgerError(
            f"Window {window} is published without an output {output}; its further outputs are: {named}. Name one of "
            "these, leave output= out for the first one, or choose windows that have it by start and end."
        )
    return replace(published, output=found.output, sink=found.sink, rows=found.rows, outside=None)


class _Pipeline:
    """The windows in a pipeline's folder as the ledger has them now; each month is listed once."""

    def __init__(self, files: LedgerFiles, uri: str) -> None:
        self._files = files
        self._folder = f"{hadoop_uri(uri)}/{WINDOWS}"
        self._live: dict[str, Mapping[str, Sequence[int]]] = {}

    def months(self) -> list[str]:
        return [name for name in self._files.names(self._folder) if is_month(name)]

    def live(self, month: str) -> Mapping[str, Sequence[int]]:
        """The revisions that count, for each of a month's windows."""
        if month not in self._live:
            self._live[month] = live_revisions(self._files.names(f"{self._folder}/{month}"))
        return self._live[month]

    def publication(self, window: str) -> Publication | None:
        live = self.live(month_of(window)).get(window, ())
        return counting_publication(self._files, f"{self._folder}/{month_of(window)}", window, live)

    def newer(self, window: str, published: Publication) -> list[int]:
        """Revisions that were resolved since the published one."""
        return [number for number in self.live(month_of(window)).get(window, ()) if number > published.revision]

    def newer_writer(self, window: str, published: Publication) -> tuple[int, str] | None:
        """Revision and attempt that may have replaced a window's published rows in a table. Attempts that only count
        what is published replace nothing."""
        for revision in self.newer(window, published):
            begun = AttemptNotes(self._files, self._of_revision(window, revision)).writers()
            if begun:
                return revision, begun[-1]
        return None

    def refuse_replaced(self, window: str, published: Publication) -> None:
        """Refuse a window in a table when an unpublished newer revision may have replaced its published rows."""
        if (newer := self.newer_writer(window, published)) is not None:
            revision, attempt = newer
            raise LedgerConflictError(
                f"Window {window} is published in revision {published.revision}, but attempt {attempt} has begun to "
                f"load revision {revision}. If it writes to the same table, its rows replace the published ones: "
                f"nobody can tell whose rows are there. Load and publish revision {revision}, then read again."
            )

    def ranges(self, window: str, published: Publication) -> tuple[OffsetRange, ...]:
        content = self._files.read(f"{self._of_revision(window, published.revision)}/manifest.json")
        if content is None:
            raise LedgerCorruptError(f"Window {window} is published from a manifest that its folders don't have.")
        return Manifest.from_bytes(content, published.manifest_sha256).ranges

    def _of_revision(self, window: str, revision: int) -> str:
        return f"{self._folder}/{month_of(window)}/{revision_folder(window, revision)}"


def _begun_since(
    spark: SparkSession, pipeline_uri: str, published: Mapping[str, Publication], owner: LedgerIdentity
) -> bool:
    """Whether a newer revision of a window in a table has begun since its publication was read. Raises
    LedgerConflictError if one has written without noting it in the ledger."""
    now = _Pipeline(pipeline_files(spark, hadoop_uri(pipeline_uri)), pipeline_uri)
    for window, found in published.items():
        current = now.publication(window)
        if now.newer_writer(window, found) or current is None or current.number != found.number:
            return True
    newer = {window for window, found in published.items() if now.newer(window, found)}
    tables: dict[tuple[str, str], dict[str, Publication]] = defaultdict(dict)
    for window, found in published.items():
        tables[found.sink, str(found.output)][window] = found
    for theirs in tables.values():
        _refuse_overwritten(spark, theirs, newer, owner)
    return False


def _refuse_overwritten(
    spark: SparkSession, published: Mapping[str, Publication], newer: AbstractSet[str], owner: LedgerIdentity
) -> None:
    """Ask a table itself which attempt's rows it holds: another attempt may have written there, and a Spark Connect
    client notes nothing in the ledger. A commit that the history no longer has was made long ago.

    :param published: windows whose rows are in the table.
    :param newer: the windows that have a newer resolved revision.
    :raises LedgerConflictError: it holds another attempt's rows.
    """
    first = next(iter(published.values()))
    commits = table_of(first.sink, first.output).newest_of(spark, owner.ledger_id, published.keys())
    for window, found in published.items():
        commit = commits.get(window)
        if (commit is None and window not in newer) or (commit is not None and commit.attempt == found.attempt):
            continue
        whose = (
            "no longer knows whose rows it holds"
            if commit is None
            else f"holds those of {commit.attempt}, revision {commit.revision}"
        )
        raise LedgerConflictError(
            f"Window {window}: the rows of attempt {found.attempt} (revision {found.revision}) are "
            f"published, but the {found.sink} table {found.output} {whose}, according to its history. Publish the "
            "counts of that attempt, with verify or kafka-offsets ledger publish, or run the load of the newest "
            "revision again, which replaces its rows. Then read again."
        )
