"""Delta Lake as a sink: one commit replaces a window's rows, by ``replaceWhere`` on the column ``window``.

Delta's own transaction identifiers keep out attempts that come late: each window is an application of its own, and its
version is the revision and when the attempt began. A write of an older version is skipped by Delta, without a word;
the table's history tells.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from airflow_kafka_offsets.offsets.windows.ledger_names import json_object
from airflow_kafka_offsets.spark.session.files import HadoopFiles, files_of
from airflow_kafka_offsets.spark.session.session import is_connect
from airflow_kafka_offsets.spark.sinks.sink import WINDOW_COLUMN, Attempt
from airflow_kafka_offsets.spark.sinks.table_owner import sql_name
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink, WindowCommit, commit_marks, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REVISION = 10**13
"""A revision in the version of a transaction: more than any instant in Unix milliseconds up to the year 2286."""
_RECENT = 50
"""Commits that are looked at first: each is a file to read."""


class DeltaSink(TableSink):
    """A table of Delta Lake.

    :param table: its path, or its name in a catalog.
    """

    kind = "delta"
    needs = (
        "the package io.delta:delta-spark_{scala}, spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    conflicts = (
        "io.delta.exceptions.Concurrent",
        "io.delta.exceptions.MetadataChanged",
        "io.delta.exceptions.ProtocolChanged",
    )

    def _exists(self, spark: SparkSession) -> bool:
        if "/" in self.table:
            log = files_of(spark).names(f"{self.table}/_delta_log")
            return any(name.endswith((".json", ".parquet")) for name in log)
        return super()._exists(spark)

    def _create(self, rows: DataFrame, attempt: Attempt) -> None:
        try:
            super()._create(rows, attempt)
        except AnalysisException:
            # Delta makes the log's folder before the first commit, and takes it for a table: a driver that is killed in
            # between leaves one that can't be made anew, and can be written.
            spark = rows.sparkSession
            if "/" not in self.table or is_connect(spark) or not HadoopFiles(spark).exists(f"{self.table}/_delta_log"):
                raise
            writer = spark.createDataFrame([], rows.schema).write.format("delta").mode("append")
            writer.partitionBy(WINDOW_COLUMN).save(self.table)

    def _before(self, spark: SparkSession, attempt: Attempt) -> WindowCommit | None:
        # Delta itself keeps an older revision out, so that the first attempt at a new window need not ask.
        if attempt.earlier or read_table(spark, self.kind, self.table).where(
            F.col(WINDOW_COLUMN) == attempt.window
        ).head(1):
            return super()._before(spark, attempt)
        return None

    def _marks(self, spark: SparkSession, windows: AbstractSet[str]) -> Iterator[Mapping[str, Any]]:
        for limit in (f" LIMIT {_RECENT}", ""):
            history = spark.sql(f"DESCRIBE HISTORY {sql_name(self.kind, self.table)}{limit}")
            ours = history.orderBy("version", ascending=False).where("userMetadata IS NOT NULL")
            for row in ours.select("userMetadata").collect():
                yield json_object(row["userMetadata"].encode())  # or somebody else's, in whatever form

    def _overwrite(self, rows: DataFrame, attempt: Attempt, version: int | None) -> None:
        options = {
            "replaceWhere": f"`{WINDOW_COLUMN}` = '{attempt.window}'",
            "mergeSchema": "true",
            "txnAppId": f"{attempt.ledger_id}/{attempt.window}",
            "txnVersion": str(attempt.revision * _REVISION + attempt.started_ms),
            "userMetadata": json.dumps(commit_marks(attempt)),
        }
        writer = rows.write.format("delta").mode("overwrite").options(**options)
        if "/" in self.table:
            writer.save(self.table)
        else:
            writer.saveAsTable(self.table)
