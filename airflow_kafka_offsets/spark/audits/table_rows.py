"""The rows of an audited table: topic, partition and offset of those that belong to a window, and their sums."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.cells import CellKey, Sums
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.spark.session.session import words
from airflow_kafka_offsets.spark.window.tally import literal_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_RANGES = {"t": "string", "p": "int", "start": "bigint", "end": "bigint"}


def placed_rows(spark: SparkSession, table: AuditedTable, topics: Collection[str]) -> DataFrame:
    """Topic, partition and offset of a table's rows; null where a row doesn't tell.

    :param topics: the window's topics.
    :raises ConfigurationError: when Spark can't read the table, or an expression isn't one of its columns'.
    """
    columns = table.columns
    with _explained(table):
        rows = _read(spark, table)
        if table.where is not None:
            rows = rows.where(table.where)
        return rows.selectExpr(
            f"cast({table.topic_of(sorted(topics))} AS string) AS `topic`",
            f"try_cast({columns.partition} AS int) AS `partition`",
            f"try_cast({columns.offset} AS bigint) AS `offset`",
        )


def rows_of(placed: DataFrame, ranges: Collection[LogRange]) -> DataFrame:
    """The rows whose offsets lie in some ranges, at most one for each partition."""
    low, high = min(each.start_offset for each in ranges), max(each.end_offset for each in ranges)
    bounds = placed.where(f"`offset` >= {low}L AND `offset` < {high}L")  # the source may skip files by it
    known = F.broadcast(literal_rows(placed.sparkSession, _RANGES, [tuple(each) for each in ranges]))
    inside = F.expr("`t` = `topic` AND `p` = `partition` AND `offset` >= `start` AND `offset` < `end`")
    return bounds.join(known, inside).select("topic", "partition", "offset")


def sums_by_cell(rows: DataFrame, size: int, checksum: Checksum) -> dict[CellKey, Sums]:
    """The sums of rows by cell, in one pass.

    :param size: offsets of a cell.
    """
    grouped = rows.groupBy("topic", "partition", F.expr(f"`offset` div {size}").alias("cell"))
    found = grouped.agg(F.count(F.lit(1)).alias("rows"), F.expr(checksum.sql).alias("checksum")).collect()
    return {(row["topic"], row["partition"], row["cell"]): Sums(row["rows"], row["checksum"]) for row in found}


def require_places(placed: DataFrame, table: AuditedTable) -> None:
    """Refuse a table with rows of which none tells its place: an expression is wrong, which would look like a table
    without any of the window's rows.

    :raises ConfigurationError: naming the expressions.
    """
    told = "`topic` IS NOT NULL AND `partition` IS NOT NULL AND `offset` IS NOT NULL"
    if placed.where(told).isEmpty() and not placed.isEmpty():
        topic, partition, offset = table.columns
        raise ConfigurationError(
            f"No row of {table.name} tells topic, partition and offset, by topic={topic!r}, partition={partition!r} "
            f"and offset={offset!r}. Correct these expressions, or the preset."
        )


def _read(spark: SparkSession, table: AuditedTable) -> DataFrame:
    if table.query is not None:
        return spark.sql(table.query)
    if table.table is not None:
        return spark.table(table.table)
    return spark.read.format(str(table.format)).options(**(table.options or {})).load(table.path)


@contextmanager
def _explained(table: AuditedTable) -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        raise ConfigurationError(f"{table.name} can't be read as it was described: {words(error)}.") from error
