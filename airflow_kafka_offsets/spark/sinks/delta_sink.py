"""Delta Lake as a sink: one commit replaces a window's rows, by ``replaceWhere`` on the column ``window``.

Delta's transaction identifiers keep out late attempts: each window is its own application, whose version is the
attempt's number. Delta silently skips a write whose version isn't higher; the table's history shows whose rows it
holds. Delta keeps these identifiers for ever, unless a property of the table says otherwise: then the table is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set as AbstractSet
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from airflow_kafka_offsets.spark.session.files import files_of
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, cores, held
from airflow_kafka_offsets.spark.sinks.columns import Widens, is_wider
from airflow_kafka_offsets.spark.sinks.sink import WINDOW_COLUMN, Attempt
from airflow_kafka_offsets.spark.sinks.table_owner import sql_name
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink, commit_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG_PARTITIONS, _LOG_TASKS = "spark.databricks.delta.snapshotPartitions", 50
"""How many tasks read a table's log, and Delta's default for it."""
_MAY_WIDEN = "delta.enableTypeWidening"
"""The property by which a table lets its columns become wider."""
_RECENT = 50
"""How many commits Delta is asked for first: each is a file to read."""
_LAST = 3
"""How many commits are looked at before Delta is asked."""
_COMMIT, _COMMIT_INFO = re.compile(r"\d{20}\.json"), b'{"commitInfo":'
"""A commit in a table's log, and how the line begins that says whose it is; as Delta's protocol has them."""
_ELSEWHERE = frozenset({"_commits", "_staged_commits"})
"""Where the newest commits of a table are that something else than its log decides about."""


class DeltaSink(TableSink):
    """A Delta Lake table.

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
    refusals = (*TableSink.refusals, "DELTA_CANNOT_CREATE_LOG_PATH")
    forbidden = {
        "delta.appendOnly": "Delta lets no row of it be replaced, as a load replaces what an earlier attempt wrote",
        "delta.setTransactionRetentionDuration": (
            "Delta forgets which attempt wrote a window last, so an earlier one that is late could replace its rows"
        ),
    }

    def session_settings(self, spark: SparkSession) -> AbstractContextManager[None]:
        """Delta reads a table's log in 50 tasks, which for a small table take longer than to read it."""
        tasks = str(min(_LOG_TASKS, cores(spark) or _LOG_TASKS))
        return held(spark, _LOG_PARTITIONS, lambda given: tasks if given is None else None)

    def _exists(self, spark: SparkSession) -> bool:
        if "/" in self.table:
            log = files_of(spark).names(f"{self.table}/_delta_log")
            return any(name.endswith((".json", ".parquet")) for name in log)
        return super()._exists(spark)

    def _create(self, rows: DataFrame, attempt: Attempt) -> bool:
        try:
            return super()._create(rows, attempt)
        except AnalysisException:
            # Delta makes the log's folder before the first commit, and then takes the folder for a table. A driver
            # killed in between leaves a table that can't be created, but can be written to.
            spark = rows.sparkSession
            if "/" not in self.table or "_delta_log" not in files_of(spark).names(self.table):
                raise
            writer = spark.createDataFrame([], rows.schema).write.format("delta").mode("append")
            try:
                writer.partitionBy(WINDOW_COLUMN).save(self.table)
            except JAVA_ERRORS:
                # No driver was killed: one that is alive has made the table meanwhile.
                if not self._exists(spark):
                    raise
        return False

    def _widens(self, properties: Mapping[str, str]) -> Widens:
        widens = properties.get(_MAY_WIDEN, "false").lower() == "true"
        return lambda before, now: widens and is_wider(before, now)

    def _require_later(self, table: DataFrame, attempt: Attempt, *, is_new: bool = False) -> None:
        # Delta itself keeps an earlier attempt out, so the first attempt at a new window need not ask.
        if not is_new and table.where(F.col(WINDOW_COLUMN) == attempt.window).head(1):
            super()._require_later(table, attempt)

    def _newest_version(self, spark: SparkSession) -> int | None:
        newest = spark.sql(f"DESCRIBE HISTORY {sql_name(self.kind, self.table)} LIMIT 1").select("version").head()
        return None if newest is None else int(newest[0])

    def _marks(self, spark: SparkSession, windows: AbstractSet[str]) -> Iterator[Mapping[str, Any]]:
        yield from self._last_marks(spark)
        for limit in (f" LIMIT {_RECENT}", ""):
            history = spark.sql(f"DESCRIBE HISTORY {sql_name(self.kind, self.table)}{limit}")
            ours = history.orderBy("version", ascending=False).where("userMetadata IS NOT NULL")
            for row in ours.select("userMetadata").collect():
                yield _json_object(row["userMetadata"])

    def _last_marks(self, spark: SparkSession) -> Iterator[Mapping[str, Any]]:
        """The marks of the last few commits, from the files of the log: a driver looks for the one that it has just
        made, and to ask Delta for its history takes two jobs. None for a table in a catalog, whose folder isn't known,
        and if some commits lie elsewhere."""
        if "/" not in self.table:
            return
        files, log = files_of(spark), f"{self.table}/_delta_log"
        names = files.names(log)
        if any(name in _ELSEWHERE for name in names):
            return
        for name in sorted(filter(_COMMIT.fullmatch, names), reverse=True)[:_LAST]:
            for line in (files.read(f"{log}/{name}") or b"").splitlines():
                if line.startswith(_COMMIT_INFO):
                    yield _json_object(_json_object(line)["commitInfo"].get("userMetadata", ""))

    def _overwrite(self, rows: DataFrame, attempt: Attempt, version: int | None) -> None:
        options = {
            "replaceWhere": f"`{WINDOW_COLUMN}` = '{attempt.window}'",
            "mergeSchema": "true",
            "txnAppId": attempt.key,
            "txnVersion": str(attempt.number),
            "userMetadata": json.dumps(commit_marks(attempt)),
        }
        writer = rows.write.format("delta").mode("overwrite").options(**options)
        if "/" in self.table:
            writer.save(self.table)
        else:
            writer.saveAsTable(self.table)


def _json_object(text: str | bytes) -> dict[str, Any]:
    """What a commit's metadata says; empty when it is another writer's, in any form."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
