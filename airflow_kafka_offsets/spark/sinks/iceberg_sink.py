"""Apache Iceberg as a sink: one snapshot replaces a window's rows, by an overwrite of the column ``window``.

The snapshot's properties say whose it is. It is validated as serializable from the snapshot on that was looked at, so
that of two overwrites of one window at the same time one fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.sink import WINDOW_COLUMN, Attempt
from airflow_kafka_offsets.spark.sinks.table_owner import PROPERTY
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink, WindowCommit, commit_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class IcebergSink(TableSink):
    """A table of Apache Iceberg.

    :param table: its name, with the catalog's: ``catalog.database.table``.
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

    def _exists(self, spark: SparkSession) -> bool:
        return spark.catalog.tableExists(self.table)

    def _version(self, spark: SparkSession) -> int | None:
        # The catalog answers from a cache, by default for half a minute.
        spark.sql(f"REFRESH TABLE {self.table}")
        main = spark.table(f"{self.table}.refs").where("name = 'main'").select("snapshot_id").collect()
        return main[0]["snapshot_id"] if main else None

    def _before(self, spark: SparkSession, attempt: Attempt) -> WindowCommit | None:
        return self.newest(spark, attempt.ledger_id, attempt.window)

    def _marks(self, spark: SparkSession, windows: AbstractSet[str]) -> Iterator[Mapping[str, Any]]:
        # By what each was made on top of: times are the writers' own, and a clock may be behind another one.
        newest = self._version(spark)
        of_ours = F.col("summary")[PROPERTY + "window"].isin(sorted(windows))
        found = spark.table(f"{self.table}.snapshots").select(
            "snapshot_id", "parent_id", F.when(of_ours, F.col("summary"))
        )
        snapshots = {number: (parent, told) for number, parent, told in found.collect()}
        while newest in snapshots:
            newest, told = snapshots[newest]
            if told is not None:
                yield {name.removeprefix(PROPERTY).replace("-", "_"): mark for name, mark in told.items()}

    def _overwrite(self, rows: DataFrame, attempt: Attempt, version: int | None) -> None:
        writer = rows.writeTo(self.table).option("mergeSchema", "true").option("isolation-level", "serializable")
        # Columns that were added lie behind the others, whatever their order is here.
        writer = writer.option("check-ordering", "false")
        # All rows are of one window: by default Iceberg would shuffle them to one task, and sort them there.
        writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
        if version is not None:
            writer = writer.option("validate-from-snapshot-id", str(version))
        for name, mark in commit_marks(attempt).items():
            writer = writer.option(f"snapshot-property.{PROPERTY}{name.replace('_', '-')}", mark)
        writer.overwrite(F.col(WINDOW_COLUMN) == attempt.window)
