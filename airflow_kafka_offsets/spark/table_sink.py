"""A table as a sink: what Delta Lake and Apache Iceberg have in common.

One commit replaces a window's rows, told by the column ``window``, and carries the window, its revision, the manifest's
hash and the attempt. So an attempt can ask the table who wrote last: it keeps what an earlier attempt of the same
manifest has committed, and gives way to a newer revision.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, LedgerError
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.spark.hadoop import hadoop_uri
from airflow_kafka_offsets.spark.sink import OUTSIDE_COLUMN, WINDOW_COLUMN, Attempt, Sink, Written, count_only
from airflow_kafka_offsets.spark.tally import AUDITED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = frozenset({"delta", "iceberg"})
"""Sinks that Spark reads as a table, with the column ``window``."""
_SPARK_ERRORS = (Py4JJavaError, PySparkException)


@dataclass(frozen=True, slots=True)
class WindowCommit:
    """The commit by which a window's rows came into a table.

    :param attempt: who committed.
    :param revision: of the window.
    :param started_ms: when the attempt began, Unix milliseconds.
    :param manifest_sha256: of the manifest that it read.
    """

    attempt: str
    revision: int
    started_ms: int
    manifest_sha256: str

    @classmethod
    def read(cls, marks: Mapping[str, Any], attempt: Attempt) -> Self | None:
        """From a commit's marks; None when they are another window's, or not ours.

        :param attempt: names the window.
        """
        try:
            if (marks["pipeline"], marks["window"]) != (attempt.pipeline, attempt.window):
                return None
            sha256 = marks["manifest_sha256"]
            return cls(marks["attempt"], int(marks["revision"]), int(marks["started_ms"]), sha256)
        except (KeyError, TypeError, ValueError):
            return None

    def keeps(self, attempt: Attempt) -> bool:
        """Whether an attempt need not write: an earlier one has, or one that began later."""
        known = self.attempt in attempt.earlier or self._after(attempt)
        return known and self.manifest_sha256 == attempt.manifest_sha256

    def refuse_older(self, table: str, attempt: Attempt) -> None:
        """Never replace the rows of another manifest that is newer.

        :raises LedgerConflictError: naming both.
        """
        if self._after(attempt) and self.manifest_sha256 != attempt.manifest_sha256:
            raise LedgerConflictError(
                f"{table} holds window {attempt.window} in revision {self.revision}, by attempt {self.attempt} of "
                f"{iso_instant(self.started_ms)}: this is revision {attempt.revision}, begun at "
                f"{iso_instant(attempt.started_ms)}, and takes no newer one's place. Load the newest revision; where "
                "it is this one, since the ledger was made anew, load into a new table."
            )

    def _after(self, attempt: Attempt) -> bool:
        return (self.revision, self.started_ms) > (attempt.revision, attempt.started_ms)


def commit_marks(attempt: Attempt) -> dict[str, str]:
    """What a commit says of itself."""
    return {
        "pipeline": attempt.pipeline,
        "window": attempt.window,
        "revision": str(attempt.revision),
        "attempt": attempt.name,
        "started_ms": str(attempt.started_ms),
        "manifest_sha256": attempt.manifest_sha256,
    }


class TableSink(Sink):
    """A table that replaces a window's rows in one commit; made by the first window that has any.

    :param table: its name, or for some kinds its path.
    :cvar needs: what a session must have for it, for error messages.
    :cvar conflicts: Java classes by which the table's library says that another commit came in between.
    """

    needs: str
    conflicts: tuple[str, ...]

    def __init__(self, table: str) -> None:
        self.table = hadoop_uri(table)

    def write(self, rows: DataFrame, attempt: Attempt) -> Written:
        """Replace the window's rows, unless an earlier attempt has.

        :raises ConfigurationError: Spark can't write these rows to this table.
        :raises LedgerConflictError: a newer revision of the window is in the table, or another commit came in between.
        """
        try:
            return self._write(rows.sparkSession, rows, attempt)
        except _SPARK_ERRORS as error:
            misfit = isinstance(error, AnalysisException | IllegalArgumentException)
            if not misfit and "DATA_SOURCE_NOT_FOUND" not in _said(error):
                raise
            raise ConfigurationError(
                f"Spark can't write the window's rows to the {self.kind} table {self.table}: {_said(error)}. It needs "
                f"{self.needs}."
            ) from error

    def read(self, spark: SparkSession, attempt: Attempt) -> DataFrame:
        """The table's rows of the window."""
        if not self._exists(spark):
            columns = AUDITED | ({OUTSIDE_COLUMN: "boolean"} if attempt.strict_time else {})
            return spark.createDataFrame([], ", ".join(f"`{name}` {kind}" for name, kind in columns.items()))
        return read_table(spark, self.kind, self.table).where(F.col(WINDOW_COLUMN) == attempt.window)

    def _write(self, spark: SparkSession, rows: DataFrame, attempt: Attempt) -> Written:
        marked = rows.withColumn(WINDOW_COLUMN, F.lit(attempt.window))
        if not self._exists(spark):
            if not attempt.offsets:
                return Written(None, attempt.name)
            self._create(marked)
        version = self._version(spark)
        before = self._before(spark, attempt)
        if before is not None:
            before.refuse_older(self.table, attempt)
        if before is not None and before.keeps(attempt):
            standing = before.attempt
        else:
            conflict = self._replace(marked, attempt, version)
            standing = self._standing(spark, attempt, conflict)
        if standing != attempt.name:
            count_only(rows)
        return Written(self.table, standing)

    def _standing(self, spark: SparkSession, attempt: Attempt, conflict: str | None) -> str:
        """Whose rows the table holds after a write, which may have been skipped: an attempt at the same manifest."""
        after = self._newest(spark, attempt)
        if after is not None:
            after.refuse_older(self.table, attempt)
            if after.manifest_sha256 == attempt.manifest_sha256:
                return after.attempt
        raise LedgerConflictError(
            f"Window {attempt.window} was not written to {self.table}: another commit came in between "
            f"({conflict or after}). Nothing is published. Run the task again."
        )

    def _create(self, rows: DataFrame) -> None:
        """Make the table, empty, before any row is read; another window's load may make it first."""
        spark = rows.sparkSession
        try:
            self._create_from(spark.createDataFrame([], rows.schema))
        except _SPARK_ERRORS:
            if not self._exists(spark):
                raise

    def _replace(self, rows: DataFrame, attempt: Attempt, version: int | None) -> str | None:
        """Replace the window's rows.

        :returns: what the library says of a commit that came in between; None when there was none.
        """
        try:
            self._overwrite(rows, attempt, version)
        except _SPARK_ERRORS as error:
            if not any(name.startswith(self.conflicts) for name in _java_classes(error)):
                raise
            return _said(error)
        return None

    @abstractmethod
    def _exists(self, spark: SparkSession) -> bool:
        """Whether there is such a table."""

    @abstractmethod
    def _create_from(self, empty: DataFrame) -> None:
        """Make the table with the columns of these rows, partitioned by window."""

    def _version(self, spark: SparkSession) -> int | None:
        """From where on other commits are conflicts, where the table's library has to be told."""
        return None

    @abstractmethod
    def _before(self, spark: SparkSession, attempt: Attempt) -> WindowCommit | None:
        """The window's newest commit, where that matters before writing."""

    @abstractmethod
    def _newest(self, spark: SparkSession, attempt: Attempt) -> WindowCommit | None:
        """The window's newest commit; None when the table remembers none."""

    @abstractmethod
    def _overwrite(self, rows: DataFrame, attempt: Attempt, version: int | None) -> None:
        """Replace the window's rows in one commit, or fail as others of this window commit meanwhile."""


def read_table(spark: SparkSession, kind: str, output: str) -> DataFrame:
    """A table that a sink wrote to, by its path or its name, as it is now.

    :raises LedgerError: when it can't be read, or the sink is the user's own.
    """
    if kind not in TABLES:
        raise LedgerError(f"The rows are in {output}, which the sink {kind} wrote: read them as that one does.")
    try:
        if "/" in output:
            return spark.read.format(kind).load(output)
        # Iceberg's catalog answers from a cache, by default for half a minute.
        spark.sql(f"REFRESH TABLE {output}")
        return spark.table(output)
    except _SPARK_ERRORS as error:
        raise LedgerError(
            f"The {kind} table {output} can't be read: {_said(error)}. Where it is gone, restore it; else look whether "
            f"this session has what {kind} needs."
        ) from error


def _said(error: Exception) -> str:
    """The first line of what Java said, without its stack."""
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().splitlines()[0].rstrip(".")


def _java_classes(error: Exception) -> Iterator[str]:
    """Names of the classes of a Java error and of its causes."""
    java: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while java is not None:
        yield str(java.getClass().getName())
        java = java.getCause()
