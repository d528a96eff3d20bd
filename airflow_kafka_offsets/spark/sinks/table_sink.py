"""A table as a sink: what Delta Lake and Apache Iceberg have in common.

One commit replaces a window's rows, found by the column ``window``. The commit carries the window, its revision, the
manifest's hash and the attempt, so an attempt can ask the table which attempt wrote last, and never replaces one that
began later: of all attempts that have written, the table holds the one that began last. Because the column has only the
window's name, a table belongs to one ledger (:mod:`~airflow_kafka_offsets.spark.sinks.table_owner`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.compat.spark_versions import fitting
from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    LedgerConflictError,
    StoreFailedError,
)
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import LedgerIdentity
from airflow_kafka_offsets.spark.session.files import hadoop_uri
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, java_classes, words
from airflow_kafka_offsets.spark.sinks.sink import WINDOW_COLUMN, Attempt, Sink, audited_ddl
from airflow_kafka_offsets.spark.sinks.table_owner import claim, require_owner, sql_name, table_properties
from airflow_kafka_offsets.spark.sinks.table_owner import properties as owner_properties
from airflow_kafka_offsets.spark.sinks.table_terms import Term

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class WindowCommit:
    """The commit that brought a window's rows into a table; its fields are those of the :class:`Attempt`."""

    window: str
    attempt: str
    revision: int
    started_ms: int
    manifest_sha256: str
    has_note: bool
    output: str = ""

    @classmethod
    def read(cls, marks: Mapping[str, Any], ledger_id: str) -> Self | None:
        """Read a commit's marks; None if they belong to another ledger, or aren't ours."""
        try:
            if marks["ledger_id"] != ledger_id:
                return None
            revision, started_ms = int(marks["revision"]), int(marks["started_ms"])
            told = marks["manifest_sha256"], marks["has_note"] == "true", marks.get("output", "")
            return cls(marks["window"], marks["attempt"], revision, started_ms, *told)
        except (KeyError, TypeError, ValueError):
            return None

    def refuse_unknown(self, table: str, attempt: Attempt) -> None:
        """Never replace rows that this ledger doesn't know, even if they carry its identity."""
        noted_here = self.revision == attempt.revision and self.has_note
        known = self._after(attempt) or self.attempt in (attempt.name, *attempt.earlier)
        if noted_here and not known and self.attempt not in attempt.noted():
            raise LedgerConflictError(
                f"{table} holds window {attempt.window} by attempt {self.attempt} of "
                f"{iso_instant(self.started_ms)}, which this ledger doesn't know: there is a copy of the "
                "ledger, and the copy has loaded it. Use only one of the two with this table."
            )

    def refuse_older(self, table: str, attempt: Attempt) -> None:
        """Never replace rows of an attempt that began later: a CommitConflictError if that attempt loads the same
        manifest, otherwise a LedgerConflictError."""
        if not self._after(attempt):
            return
        if self.manifest_sha256 == attempt.manifest_sha256:
            raise CommitConflictError(
                f"{table} holds window {attempt.window} by attempt {self.attempt}, which began after this one: it may "
                "still be running or may have died. Nothing of this one is published. Run the task again."
            )
        raise LedgerConflictError(
            f"{table} holds window {attempt.window} in revision {self.revision}, by attempt {self.attempt} of "
            f"{iso_instant(self.started_ms)}: this is revision {attempt.revision}, begun at "
            f"{iso_instant(attempt.started_ms)}, and can't replace a newer load. Load the newest revision. If this "
            "is it, run it again; if the ledger was re-created, load into a new table."
        )

    def _after(self, attempt: Attempt) -> bool:
        return (self.revision, self.started_ms) > (attempt.revision, attempt.started_ms)


def commit_marks(attempt: Attempt) -> dict[str, str]:
    """What a commit records: what the sink decides by, and, for people, where the rows came from."""
    marks = {
        "pipeline": attempt.pipeline,
        "ledger_id": attempt.ledger_id,
        "window": attempt.window,
        "revision": str(attempt.revision),
        "attempt": attempt.name,
        "started_ms": str(attempt.started_ms),
        "manifest_sha256": attempt.manifest_sha256,
        "strict_time": str(attempt.strict_time).lower(),
        "has_note": str(attempt.has_note).lower(),
        "manifest": attempt.manifest_uri,
        "ranges": attempt.ranges,
        "output": attempt.output,
    }
    return {name: mark for name, mark in marks.items() if mark}


class TableSink(Sink):
    """A table of one ledger that replaces a window's rows in one commit. The first window with rows creates the table.

    :param table: its name or, for some kinds, its path.
    :cvar needs: what a session must have for this kind of table; see :func:`.spark_versions.fitting`.
    :cvar conflicts: prefixes of the Java classes that the table's library throws when another commit came in between.
    :cvar properties: properties of the tables that it creates.
    :cvar terms: what its tables must not have.
    """

    needs: str
    conflicts: tuple[str, ...]
    terms: tuple[Term, ...] = ()
    properties: Mapping[str, str] = {}

    def __init__(self, table: str) -> None:
        self.table = self.place = hadoop_uri(table)

    def write(self, rows: DataFrame, attempt: Attempt) -> str | None:
        """Replace the window's rows, including those of earlier attempts, which may be other applications'.

        :raises ConfigurationError: Spark can't write these rows to this table.
        :raises LedgerConflictError: the table belongs to another ledger, it holds a newer revision of the window, or a
            copy of this ledger has loaded the window.
        :raises CommitConflictError: another commit came in between.
        """
        try:
            return self._write(rows.sparkSession, rows, attempt)
        except JAVA_ERRORS as error:
            misfit = isinstance(error, AnalysisException | IllegalArgumentException | UnsupportedOperationException)
            if not misfit and "DATA_SOURCE_NOT_FOUND" not in words(error):
                raise
            raise ConfigurationError(
                f"Spark can't write the window's rows to the {self.kind} table {self.table}: {words(error)}. If "
                f"that is because something is missing: it needs {fitting(rows.sparkSession, self.needs)}."
            ) from error

    def read(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        """The window's rows in the table; refused if the table doesn't belong to this ledger."""
        if not self._exists(spark):
            return spark.createDataFrame([], audited_ddl(attempt.strict_time))
        self._require_ours(spark, attempt)
        return self.rows(spark).where(F.col(WINDOW_COLUMN) == attempt.window)

    def rows(self, spark: SparkSession, owner: LedgerIdentity | None = None) -> DataFrame:
        """The rows of all windows.

        :param owner: for readers: the ledger that must own the table. They get the table's current version, whatever is
            committed before Spark reads it. None if the caller has seen to both.
        :raises StoreFailedError: when the table can't be read.
        :raises LedgerConflictError: when the table belongs to another ledger.
        """
        name = sql_name(self.kind, self.table)
        try:
            if "/" not in self.table:
                # Iceberg's catalog answers from a cache, which by default is up to half a minute old.
                spark.sql(f"REFRESH TABLE {name}")
            if owner is None:
                by_path = "/" in self.table
                return spark.read.format(self.kind).load(self.table) if by_path else spark.table(self.table)
            require_owner(spark, name, owner)
            # By number: by name alone, Spark would take the version at the time of reading.
            newest = self._newest_version(spark)
            return spark.table(name) if newest is None else spark.sql(f"SELECT * FROM {name} VERSION AS OF {newest}")
        except JAVA_ERRORS as error:
            raise StoreFailedError(
                f"The {self.kind} table {self.table} can't be read: {words(error)}. If it is gone, restore it; "
                f"otherwise check whether this session has what {self.kind} needs."
            ) from error

    def _write(self, spark: SparkSession, rows: DataFrame, attempt: Attempt) -> str | None:
        marked = rows.withColumn(WINDOW_COLUMN, F.lit(attempt.window))
        if not self._exists(spark):
            if not attempt.offsets:
                return None
            self._create(marked, attempt)
        version = self._version(spark)
        name = sql_name(self.kind, self.table)
        properties = table_properties(spark, name)
        for term in self.terms:
            term.refuse(spark, name, properties)
        claim(spark, name, attempt.ledger, properties)
        before = self._before(spark, attempt)
        if before is not None:
            before.refuse_older(self.table, attempt)
            before.refuse_unknown(self.table, attempt)
        conflict = self._replace(marked, attempt, version)
        self._require_written(spark, attempt, conflict)
        return self.table

    def _require_written(self, spark: SparkSession, attempt: Attempt, conflict: str | None) -> None:
        """Make sure that the table holds an attempt's rows after its write, which may have been skipped."""
        after = self.newest(spark, attempt.ledger_id, attempt.window)
        # Another ledger may have claimed an unowned table at the same moment: the last one to claim it has it.
        self._require_ours(spark, attempt)
        if after is not None:
            after.refuse_older(self.table, attempt)
            if after.attempt == attempt.name:
                return
        if conflict is None:
            raise LedgerConflictError(
                f"Window {attempt.window} was not written to {self.table}, which holds a newer load of it. That "
                "load's commit is no longer in the table's history. Nothing is published. Load the newest "
                "revision; if the ledger was re-created, load into a new table."
            )
        raise CommitConflictError(
            f"Window {attempt.window} was not written to {self.table}: another commit came in between ({conflict}). "
            "Nothing is published. Run the task again."
        )

    def _create(self, rows: DataFrame, attempt: Attempt) -> None:
        """Create the table, empty, before any row is read; another load may create it first."""
        spark = rows.sparkSession
        empty = spark.createDataFrame([], rows.schema)
        writer = empty.writeTo(sql_name(self.kind, self.table)).using(self.kind).partitionedBy(F.col(WINDOW_COLUMN))
        for name, value in {**owner_properties(attempt.ledger), **self.properties}.items():
            writer = writer.tableProperty(name, value)
        try:
            writer.create()
        except JAVA_ERRORS:
            if not self._exists(spark):
                raise

    def _require_ours(self, spark: SparkSession, attempt: Attempt) -> None:
        require_owner(spark, sql_name(self.kind, self.table), attempt.ledger)

    def _replace(self, rows: DataFrame, attempt: Attempt, version: int | None) -> str | None:
        """Replace the window's rows. Returns as :meth:`_committing`."""
        return self._committing(self._overwrite, rows, attempt, version)

    def _committing(self, commit: Callable[..., None], *arguments: Any) -> str | None:
        """Make a commit. Returns the library's message if another commit came in between, else None."""
        try:
            commit(*arguments)
        except JAVA_ERRORS as error:
            if not any(name.startswith(self.conflicts) for name in java_classes(error)):
                raise
            return words(error)
        return None

    def _exists(self, spark: SparkSession) -> bool:
        return spark.catalog.tableExists(self.table)

    def _version(self, spark: SparkSession) -> int | None:
        """The version after which other commits are conflicts, if the table's library has to be told."""
        return None

    def _before(self, spark: SparkSession, attempt: Attempt) -> WindowCommit | None:
        """The window's newest commit, if that matters before writing."""
        return self.newest(spark, attempt.ledger_id, attempt.window)

    def newest(self, spark: SparkSession, ledger_id: str, window: str) -> WindowCommit | None:
        """A window's newest commit; None if the table remembers none."""
        return self.newest_of(spark, ledger_id, {window}).get(window)

    def newest_of(self, spark: SparkSession, ledger_id: str, windows: AbstractSet[str]) -> dict[str, WindowCommit]:
        """The newest commit of each window; windows of which the table remembers no commit are left out."""
        found: dict[str, WindowCommit] = {}
        for marks in self._marks(spark, windows):
            commit = WindowCommit.read(marks, ledger_id)
            if commit is not None and commit.window in windows - found.keys():
                found[commit.window] = commit
                if len(found) == len(windows):
                    break
        return found

    @abstractmethod
    def _marks(self, spark: SparkSession, windows: AbstractSet[str]) -> Iterator[Mapping[str, Any]]:
        """The marks of commits, newest first. Commits of other windows and other writers may be included."""

    @abstractmethod
    def _newest_version(self, spark: SparkSession) -> int | None:
        """The number of the table's newest version; None if it has none yet."""

    @abstractmethod
    def _overwrite(self, rows: DataFrame, attempt: Attempt, version: int | None) -> None:
        """Replace the window's rows in one commit, or fail if another attempt at this window commits meanwhile."""
