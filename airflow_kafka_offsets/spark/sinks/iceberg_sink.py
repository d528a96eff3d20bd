"""Apache Iceberg as a sink: one snapshot replaces a window's rows, by an overwrite of the column ``window``.

Rows are written to a branch for the driver and counted there (write, audit, publish). Once they are proved, one more
commit adds the branch's files to ``main``, so readers of the table only ever see proved rows. If there can be no
branch, as for a Spark Connect client, rows go straight to ``main``.

The snapshot's properties say whose it is. Commits are validated as serializable from the snapshot that was looked at,
so if two drivers overwrite a window at the same time, one of them fails.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, ShortType

from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, java_classes, jvm_of, words
from airflow_kafka_offsets.spark.sinks.columns import Widens, is_wider
from airflow_kafka_offsets.spark.sinks.sink import WINDOW_COLUMN, Attempt
from airflow_kafka_offsets.spark.sinks.table_owner import PROPERTY
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink, WindowCommit, commit_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_BRANCH = "kafka_offsets_"
"""Prefix of the names of drivers' branches."""
_DRIVER = re.compile(r"(\d+)-[0-9a-f]{8}", re.ASCII)
"""Their last part: the attempt's number and the driver's own name."""
_PICKED = "source-snapshot-id"
"""Iceberg's own property of a snapshot that takes over the files of another snapshot."""
_UNSUPPORTED = "java.lang.UnsupportedOperationException"
"""What catalogs and tables without branches throw."""

_MAY_STAGE, _STAGING = "write.wap.enabled", ("spark.wap.id", "spark.wap.branch")
"""The property by which a table lets Iceberg stage what is written, and the confs that have it do so."""
_PART_OF_A_FILE = "Cannot delete file where some, but not all, rows match"
"""How Iceberg says that a file holds rows of other windows, too."""


class IcebergSink(TableSink):
    """An Apache Iceberg table.

    :param table: its name, including the catalog: ``catalog.database.table``.
    """

    kind = "iceberg"
    needs = (
        "the package org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala} and a catalog of Iceberg, "
        "spark.sql.catalog.<catalog>=org.apache.iceberg.spark.SparkCatalog with its type; the table must be "
        f"partitioned by {WINDOW_COLUMN}, and for new columns have the property write.spark.accept-any-schema=true"
    )
    conflicts = (
        "org.apache.iceberg.exceptions.ValidationException",
        "org.apache.iceberg.exceptions.CommitFailedException",
        "org.apache.iceberg.exceptions.CommitStateUnknownException",
    )
    properties = {"write.spark.accept-any-schema": "true"}

    def __init__(self, table: str) -> None:
        if "/" in table:
            raise ConfigurationError(f"An Iceberg table has a name, catalog.database.table; {table} is a path.")
        super().__init__(table)
        self._hidden: dict[str, int | None] = {}
        """For each branch whose rows aren't on ``main`` yet: the snapshot of ``main`` that was looked at before."""

    def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
        """The window's rows in the table; for a driver that hasn't released them, those on its branch."""
        if not self.hidden_in(attempt):
            return super().current(spark, attempt)
        snapshot = self._require_branch(spark, attempt)
        self._require_ours(spark, attempt)
        written = WindowCommit.read(_marks_in(self._java(spark).snapshot(snapshot).summary()), attempt.ledger_id)
        # By snapshot id: the branch may be dropped before everything has been counted.
        rows = spark.sql(f"SELECT * FROM {self.table} VERSION AS OF {snapshot}")
        return rows.where(F.col(WINDOW_COLUMN) == attempt.window), None if written is None else written.name

    def release(self, spark: SparkSession, attempt: Attempt) -> None:
        """Add the files of the driver's branch to ``main``, without writing them again, and drop the branch.

        :raises CommitConflictError: another commit came in between.
        :raises: as :meth:`.Attempt.require_later`.
        """
        if not self.hidden_in(attempt):
            return
        version = self._hidden.pop(_branch(attempt))
        self._committing(attempt, self._take_over, spark, attempt, version)
        self._drop_older(spark, attempt)

    def hidden_in(self, attempt: Attempt) -> str:
        return f"branch {_branch(attempt)} of {self.table}" if _branch(attempt) in self._hidden else ""

    def _refuse_terms(self, spark: SparkSession, name: str, properties: Mapping[str, str]) -> None:
        staging = next((conf for conf in _STAGING if spark.conf.get(conf, None)), None)
        if staging and properties.get(_MAY_STAGE, "").lower() == "true":
            raise ConfigurationError(
                f"This session has the conf {staging}={spark.conf.get(staging)}, and {name} has the property "
                f"{_MAY_STAGE}=true: Iceberg would send the rows elsewhere. Nothing was written. Leave the conf out "
                "for this load, which audits its rows before it publishes them, as the conf is meant to."
            )

    def _committing(self, attempt: Attempt, commit: Callable[..., None], *arguments: Any) -> None:
        try:
            super()._committing(attempt, commit, *arguments)
        except CommitConflictError as conflict:
            if _PART_OF_A_FILE not in str(conflict):
                raise
            raise ConfigurationError(
                f"{self.table} isn't partitioned by {WINDOW_COLUMN}, and one of its files has rows of several windows: "
                f"a commit can't replace a part of it. Add the partition field {WINDOW_COLUMN}, and rewrite the files "
                "(rewrite_data_files); or load into a new table."
            ) from conflict

    def _version(self, spark: SparkSession) -> int | None:
        return self._refs(spark).get("main")

    def _refs(self, spark: SparkSession) -> dict[str, int]:
        """The newest snapshot of each branch."""
        # The catalog answers from a cache, which by default is up to half a minute old.
        spark.sql(f"REFRESH TABLE {self.table}")
        return {row["name"]: row["snapshot_id"] for row in spark.table(f"{self.table}.refs").collect()}

    def _newest_version(self, spark: SparkSession) -> int | None:
        return self._version(spark)

    def _marks(self, spark: SparkSession, windows: AbstractSet[str]) -> Iterator[Mapping[str, Any]]:
        # Follow the parents: timestamps are the writers' own, and clocks may differ.
        newest = self._version(spark)
        of_ours = F.col("summary")[PROPERTY + "window"].isin(sorted(windows))
        found = spark.table(f"{self.table}.snapshots").select(
            "snapshot_id", "parent_id", F.when(of_ours, F.col("summary"))
        )
        snapshots = {number: (parent, told) for number, parent, told in found.collect()}
        while newest in snapshots:
            newest, told = snapshots[newest]
            if told is not None:
                yield _marks_in(told)

    def _overwrite(self, rows: DataFrame, attempt: Attempt, version: int | None) -> None:
        branched = self._make_branch(rows.sparkSession, attempt)
        writer = rows.writeTo(f"{self.table}.`branch_{_branch(attempt)}`" if branched else self.table)
        writer = writer.option("mergeSchema", "true").option("isolation-level", "serializable")
        # Columns that were added later come last in the table, whatever their order is here.
        writer = writer.option("check-ordering", "false")
        # All rows belong to one window: by default Iceberg would shuffle them to one task, and sort them there.
        writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
        if version is not None:
            writer = writer.option("validate-from-snapshot-id", str(version))
        for name, mark in _properties(attempt).items():
            writer = writer.option(f"snapshot-property.{name}", mark)
        writer.overwrite(F.col(WINDOW_COLUMN) == attempt.window)
        if branched:
            self._hidden[_branch(attempt)] = version

    def _make_branch(self, spark: SparkSession, attempt: Attempt) -> bool:
        """Make a branch from ``main`` for a driver's rows. False if there can be none."""
        ours = _branch(attempt)
        if ours in self._refs(spark):
            raise ConfigurationError(
                f"Two outputs go to {self.table}, where each would replace the other's rows: give one of them a table "
                "of its own."
            )
        try:
            table = self._java(spark)
            if table is not None:
                table.manageSnapshots().createBranch(ours).commit()
                return True
            why = "Iceberg's classes can't be called"
        except JAVA_ERRORS as error:
            if _UNSUPPORTED not in java_classes(error):
                raise
            why = words(error)
        unproved = "The rows of attempt %s go to %s before they are proved, because there can be no branch: %s"
        log.warning(unproved, attempt.name, self.table, why)
        return False

    def _widens(self, properties: Mapping[str, str]) -> Widens:
        # Iceberg has no shorter whole numbers than an int.
        return lambda before, now: (
            is_wider(before, now) or (isinstance(before, IntegerType) and isinstance(now, ByteType | ShortType))
        )

    def _require_branch(self, spark: SparkSession, attempt: Attempt) -> int:
        """The newest snapshot of the driver's branch. Refused if the table holds rows that it must not replace, or if
        a later attempt dropped the branch when it was released."""
        self._require_later(self.rows(spark), attempt)
        snapshot = self._refs(spark).get(_branch(attempt))
        if snapshot is None:
            raise CommitConflictError(
                f"Branch {_branch(attempt)} of {self.table}, with the rows of window {attempt.window}, was dropped "
                "during this attempt. Nothing is published. Run the task again."
            )
        return snapshot

    def _drop_older(self, spark: SparkSession, attempt: Attempt) -> None:
        """Drop the window's branches that can no longer be released now that this attempt is on ``main``. A branch that
        can't be dropped stays: another driver may be dropping it at the same time."""
        try:
            for branch in filter(partial(_is_over, attempt), self._refs(spark)):
                self._java(spark).manageSnapshots().removeBranch(branch).commit()
        except JAVA_ERRORS as error:
            log.warning("A branch of %s wasn't dropped: %s", self.table, words(error))

    def _java(self, spark: SparkSession) -> Any:
        """The table, by Iceberg's Java API; None if that can't be called."""
        java = jvm_of(spark)
        interface = None if java is None else java.org.apache.iceberg.spark.Spark3Util
        if interface is None or isinstance(interface, JavaPackage):
            return None
        table = interface.loadIcebergTable(spark._jsparkSession, self.table)
        table.refresh()
        return table

    def _take_over(self, spark: SparkSession, attempt: Attempt, version: int | None) -> None:
        """Commit the files of the driver's branch to ``main``, validated as Spark validates an overwrite."""
        snapshot = self._require_branch(spark, attempt)
        table, java = self._java(spark), jvm_of(spark)
        window = java.org.apache.iceberg.expressions.Expressions.equal(WINDOW_COLUMN, attempt.window)
        written = table.snapshot(snapshot)
        # Use Iceberg's own mark for what it picks: before 1.10, its clean-up treats the files of any other snapshot
        # outside main as unused (apache/iceberg#13614).
        commit = table.newOverwrite().overwriteByRowFilter(window).set(_PICKED, str(written.snapshotId()))
        files = written.addedDataFiles(table.io()).iterator()
        while files.hasNext():
            commit = commit.addFile(files.next())
        if version is not None:
            commit = commit.validateFromSnapshot(version)
        commit = commit.conflictDetectionFilter(window).validateNoConflictingData().validateNoConflictingDeletes()
        for name, mark in _properties(attempt).items():
            commit = commit.set(name, mark)
        commit.commit()


def _branch(attempt: Attempt) -> str:
    """The name of a driver's branch."""
    return f"{_BRANCH}{attempt.window}_{attempt.name}"


def _is_over(attempt: Attempt, branch: str) -> bool:
    """Whether a branch is that of a driver of this attempt, or of an earlier one at the same window."""
    name = branch.removeprefix(f"{_BRANCH}{attempt.window}_")
    found = _DRIVER.fullmatch(name)
    return name != branch and found is not None and int(found[1]) <= attempt.number


def _marks_in(summary: Mapping[str, str]) -> dict[str, str]:
    """The inverse of :func:`_properties`, from all properties of a snapshot."""
    return {name.removeprefix(PROPERTY).replace("-", "_"): mark for name, mark in summary.items()}


def _properties(attempt: Attempt) -> dict[str, str]:
    """The properties of an attempt's snapshot."""
    return {f"{PROPERTY}{name.replace('_', '-')}": mark for name, mark in commit_marks(attempt).items()}
