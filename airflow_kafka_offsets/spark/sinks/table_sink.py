"""A table as a sink: what Delta Lake and Apache Iceberg have in common.

One commit replaces a window's rows, found by the column ``window``. The commit carries the window, the attempt's number
and the driver's name, so a driver can ask the table whose rows it holds, and never replaces those of a higher number:
of all attempts that have written, the table holds the one that began last. Of several drivers of one attempt, it holds
the first. Because the column has only the window's name, a table belongs to one ledger
(:mod:`~airflow_kafka_offsets.spark.sinks.table_owner`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.compat.spark_versions import fitting
from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, StoreFailedError
from airflow_kafka_offsets.spark.session.files import hadoop_uri
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, java_classes, words
from airflow_kafka_offsets.spark.sinks.columns import Widens, refuse_changed
from airflow_kafka_offsets.spark.sinks.sink import AUDITED_DDL, WINDOW_COLUMN, Attempt, Sink, places_of
from airflow_kafka_offsets.spark.sinks.table_owner import (
    Owner,
    claim,
    properties as owner_properties,
    require_owner,
    sql_name,
    table_properties,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class WindowCommit:
    """The commit that brought a window's rows into a table; its fields are those of the :class:`Attempt`."""

    window: str
    number: int
    run: str
    is_noted: bool

    @property
    def name(self) -> str:
        """Whose its rows are: :attr:`Attempt.name`."""
        return f"{self.number}-{self.run}"

    @classmethod
    def read(cls, marks: Mapping[str, Any], ledger_id: str) -> Self | None:
        """Read a commit's marks; None if they belong to another ledger, or aren't ours."""
        try:
            if marks["ledger_id"] != ledger_id:
                return None
            return cls(marks["window"], int(marks["attempt"]), marks["run"], marks["is_noted"] == "true")
        except (KeyError, TypeError, ValueError):
            return None


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
    }
    return {name: mark for name, mark in marks.items() if mark}


def _owner(attempt: Attempt) -> Owner:
    return Owner(attempt.ledger_id, attempt.pipeline)


class TableSink(Sink):
    """A table of one ledger that replaces a window's rows in one commit. The first window with rows creates the table.

    :param table: its name or, for some kinds, its path; see :mod:`.sinks.sink` for names in it.
    :cvar needs: what a session must have for this kind of table; see :func:`.spark_versions.fitting`.
    :cvar conflicts: prefixes of the Java classes that the table's library throws when another commit came in between.
    :cvar refusals: error conditions that another try doesn't help against, beside those that Spark finds before it runs
        anything.
    :cvar properties: properties of the tables that it creates.
    :cvar forbidden: properties that its tables must not have, as the session's confs or the table's history would then
        break what a load promises; and why, for people.
    """

    needs: str
    conflicts: tuple[str, ...]
    refusals: tuple[str, ...] = ("DATA_SOURCE_NOT_FOUND",)
    forbidden: Mapping[str, str] = {}
    properties: Mapping[str, str] = {}

    def __init__(self, table: str) -> None:
        self.table = self.place = hadoop_uri(table)

    def outputs(self, pipeline: str, topics: Iterable[str]) -> Mapping[str, Sink]:
        """This table, or one for each topic."""
        places = places_of(self.table, pipeline, topics, is_path="/" in self.table)
        return {name: self if place == self.table else type(self)(place) for name, place in places.items()}

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        """Replace the window's rows.

        :raises ConfigurationError: Spark can't write these rows to this table. It is a ColumnChangedError if a column
            has another type there.
        :raises LedgerConflictError: the table belongs to another ledger.
        :raises CommitConflictError: another commit came in between.
        :raises: as :meth:`.Attempt.require_later`.
        """
        try:
            return self._replace(rows.sparkSession, rows, attempt)
        except JAVA_ERRORS as error:
            misfit = isinstance(error, AnalysisException | IllegalArgumentException | UnsupportedOperationException)
            if not misfit and not any(each in words(error) for each in self.refusals):
                raise
            raise ConfigurationError(
                f"Spark can't write the window's rows to the {self.kind} table {self.table}: {words(error)}. If "
                f"that is because something is missing: it needs {fitting(rows.sparkSession, self.needs)}."
            ) from error

    def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
        """The window's rows in the table; refused if the table doesn't belong to this ledger: another one may have
        claimed it at the same moment, and the last one to claim it has it."""
        if not self._exists(spark):
            return spark.createDataFrame([], AUDITED_DDL), None
        self._require_ours(spark, attempt)
        newest = self.newest(spark, attempt)
        return self.rows(spark).where(F.col(WINDOW_COLUMN) == attempt.window), None if newest is None else newest.name

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
        is_new = not self._exists(spark)
        if is_new:
            if not attempt.offsets:
                return None
            is_new = self._create(marked, attempt)
        version = self._version(spark)
        name = sql_name(self.kind, self.table)
        properties = table_properties(spark, name)
        self._refuse_terms(spark, name, properties)
        claim(spark, name, _owner(attempt), properties)
        table = self.rows(spark)
        refuse_changed(f"the {self.kind} table {self.table}", table.schema, marked.schema, self._widens(properties))
        self._require_later(table, attempt, is_new=is_new)
        self._committing(attempt, self._overwrite, marked, attempt, version)
        return self.table

    def _refuse_terms(self, spark: SparkSession, name: str, properties: Mapping[str, str]) -> None:
        """Refuse a table under whose terms rows can't be replaced as promised, before one is written.

        :raises ConfigurationError: naming the property, and what to do.
        """
        for forbidden, why in self.forbidden.items():
            value = properties.get(forbidden, "false")
            if value.lower() != "false":
                raise ConfigurationError(
                    f"{name} has the property {forbidden}={value}: {why}. Nothing was written. ALTER TABLE {name} "
                    f"UNSET TBLPROPERTIES ('{forbidden}'); or load into another table."
                )

    @abstractmethod
    def _widens(self, properties: Mapping[str, str]) -> Widens:
        """Which columns of a table with these properties become wider when wider values are written."""

    def _require_later(self, table: DataFrame, attempt: Attempt, *, is_new: bool = False) -> None:
        """Refuse to replace rows that have to stay.

        :param table: its rows.
        :param is_new: whether this driver has just created it.
        """
        newest = self.newest(table.sparkSession, attempt)
        if newest is not None:
            attempt.require_later(newest.name, is_noted=newest.is_noted)

    def _create(self, rows: DataFrame, attempt: Attempt) -> bool:
        """Create the table, empty, before any row is read; False if another load has created it first."""
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
            return False
        return True

    def _require_ours(self, spark: SparkSession, attempt: Attempt) -> None:
        require_owner(spark, sql_name(self.kind, self.table), _owner(attempt))

    def _committing(self, attempt: Attempt, commit: Callable[..., None], *arguments: Any) -> None:
        """Make a commit. A CommitConflictError if another one came in between."""
        try:
            commit(*arguments)
        except JAVA_ERRORS as error:
            if not any(name.startswith(self.conflicts) for name in java_classes(error)):
                raise
            raise CommitConflictError(
                f"Window {attempt.window} was not written to {self.table}: another commit came in between "
                f"({words(error)}). Nothing is published. Run the task again."
            ) from error

    def _exists(self, spark: SparkSession) -> bool:
        return spark.catalog.tableExists(self.table)

    def _version(self, spark: SparkSession) -> int | None:
        """The version after which other commits are conflicts, if the table's library has to be told."""
        return None

    def newest(self, spark: SparkSession, attempt: Attempt) -> WindowCommit | None:
        """The newest commit of an attempt's window; None if the table remembers none."""
        return self.newest_of(spark, attempt.ledger_id, {attempt.window}).get(attempt.window)

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
