"""A table as a sink: what Delta Lake and Apache Iceberg have in common.

One commit replaces a window's rows, found by the column ``window``. The commit carries the window, the attempt's number
and the driver's name, so a driver can ask the table whose rows it holds, and never replaces those of a higher number:
of all attempts that have written, the table holds the one that began last. Drivers of one attempt write the same rows,
so the second one leaves those of the first as they are. Because the column has only the window's name, a table belongs
to one ledger (:mod:`~airflow_kafka_offsets.spark.sinks.table_owner`).
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
from airflow_kafka_offsets.spark.session.files import hadoop_uri
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, java_classes, words
from airflow_kafka_offsets.spark.sinks.sink import AUDITED_DDL, WINDOW_COLUMN, Attempt, Sink
from airflow_kafka_offsets.spark.sinks.table_owner import Owner, claim, require_owner, sql_name, table_properties
from airflow_kafka_offsets.spark.sinks.table_owner import properties as owner_properties
from airflow_kafka_offsets.spark.sinks.table_terms import Term

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class WindowCommit:
    """The commit that brought a window's rows into a table; its fields are those of the :class:`Attempt`."""

    window: str
    number: int
    run: str
    manifest_sha256: str
    is_noted: bool
    output: str = ""

    @classmethod
    def read(cls, marks: Mapping[str, Any], ledger_id: str) -> Self | None:
        """Read a commit's marks; None if they belong to another ledger, or aren't ours."""
        try:
            if marks["ledger_id"] != ledger_id:
                return None
            who = marks["window"], int(marks["attempt"]), marks["run"]
            return cls(*who, marks["manifest_sha256"], marks["is_noted"] == "true", marks.get("output", ""))
        except (KeyError, TypeError, ValueError):
            return None

    def is_of(self, attempt: Attempt, table: str) -> bool:
        """Whether this commit holds an attempt's rows already, of the same driver or another one; False if the attempt
        may replace them.

        :raises LedgerConflictError: a copy of the ledger has written them, or they are of a later attempt at other
            offsets.
        :raises CommitConflictError: they are of a later attempt.
        :raises ConfigurationError: they are another output's of the same attempt.
        """
        if (self.number, self.run) != (attempt.number, attempt.run):
            self._refuse_unknown(attempt, table)
        if self.number < attempt.number:
            return False
        if self.manifest_sha256 != attempt.manifest_sha256:
            raise LedgerConflictError(
                f"{table} holds window {attempt.window} by attempt {self.number}, which has read other offsets "
                f"(manifest {self.manifest_sha256}): this is attempt {attempt.number}, and can't replace its rows. "
                "Nothing of this one is published. Load the window as it is resolved now."
            )
        if self.number > attempt.number:
            raise CommitConflictError(
                f"{table} holds window {attempt.window} by attempt {self.number}, which began after this one "
                f"({attempt.number}): it may still be running or may have died. Nothing of this one is published. Run "
                "the task again."
            )
        if self.output != attempt.output:
            raise ConfigurationError(
                f"Two outputs go to {table}, where each would replace the other's rows: give "
                f"{attempt.output or self.output} a table of its own."
            )
        return True

    def _refuse_unknown(self, attempt: Attempt, table: str) -> None:
        """Never replace rows that this ledger doesn't know, even if they carry its identity, nor take them for ours."""
        if self.is_noted and not attempt.knows(self.number, self.run):
            raise LedgerConflictError(
                f"{table} holds window {attempt.window} by run {self.run} of attempt {self.number}, which this ledger "
                "doesn't know: there is a copy of the ledger, and the copy has loaded it. Use only one of the two with "
                "this table."
            )


def commit_marks(attempt: Attempt) -> dict[str, str]:
    """What a commit records: what the sink decides by, and, for people, where the rows came from."""
    marks = {
        "pipeline": attempt.pipeline,
        "ledger_id": attempt.ledger_id,
        "window": attempt.window,
        "attempt": str(attempt.number),
        "run": attempt.run,
        "manifest_sha256": attempt.manifest_sha256,
        "is_noted": str(attempt.is_noted).lower(),
        "output": attempt.output,
        **attempt.facts,
    }
    return {name: mark for name, mark in marks.items() if mark}


def _owner(attempt: Attempt) -> Owner:
    return Owner(attempt.ledger_id, attempt.pipeline)


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

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        """Replace the window's rows, unless another driver of this attempt has done so.

        :raises ConfigurationError: Spark can't write these rows to this table.
        :raises LedgerConflictError: the table belongs to another ledger, or a copy of this ledger has loaded the
            window.
        :raises CommitConflictError: the table holds a later attempt, or another commit came in between.
        """
        try:
            return self._replace(rows.sparkSession, rows, attempt)
        except JAVA_ERRORS as error:
            misfit = isinstance(error, AnalysisException | IllegalArgumentException | UnsupportedOperationException)
            if not misfit and "DATA_SOURCE_NOT_FOUND" not in words(error):
                raise
            raise ConfigurationError(
                f"Spark can't write the window's rows to the {self.kind} table {self.table}: {words(error)}. If "
                f"that is because something is missing: it needs {fitting(rows.sparkSession, self.needs)}."
            ) from error

    def current(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        """The window's rows in the table; refused if the table doesn't belong to this ledger."""
        if not self._exists(spark):
            return spark.createDataFrame([], AUDITED_DDL)
        self._require_ours(spark, attempt)
        return self.rows(spark).where(F.col(WINDOW_COLUMN) == attempt.window)

    def rows(self, spark: SparkSession, owner: Owner | None = None) -> DataFrame:
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

    def _replace(self, spark: SparkSession, rows: DataFrame, attempt: Attempt) -> str | None:
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
        claim(spark, name, _owner(attempt), properties)
        before = self._before(spark, attempt)
        if before is None or not before.is_of(attempt, self.table):
            conflict = self._committing(self._overwrite, marked, attempt, version)
            self._require_written(spark, attempt, conflict)
        return self.table

    def _require_written(self, spark: SparkSession, attempt: Attempt, conflict: str | None) -> WindowCommit:
        """The commit with an attempt's rows, after its write, which may have been skipped."""
        after = self.newest(spark, attempt.ledger_id, attempt.window)
        # Another ledger may have claimed an unowned table at the same moment: the last one to claim it has it.
        self._require_ours(spark, attempt)
        if after is not None and after.is_of(attempt, self.table):
            return after
        if conflict is None:
            raise LedgerConflictError(
                f"Window {attempt.window} was not written to {self.table}, which holds a later load of it: that load's "
                "commit is no longer in the table's history, but the table remembers its number. Nothing is "
                "published. Run the task again; if the ledger was re-created, load into a new table."
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
        for name, value in {**owner_properties(_owner(attempt)), **self.properties}.items():
            writer = writer.tableProperty(name, value)
        try:
            writer.create()
        except JAVA_ERRORS:
            if not self._exists(spark):
                raise

    def _require_ours(self, spark: SparkSession, attempt: Attempt) -> None:
        require_owner(spark, sql_name(self.kind, self.table), _owner(attempt))

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
