"""The rows of an audited table: topic, partition and offset of those that belong to some windows, and their sums."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.cells import CellKey, Sums, SumsByCell
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.checksum import Checksum, hash_sql
from airflow_kafka_offsets.offsets.proof.left import span_of
from airflow_kafka_offsets.spark.session.session import words
from airflow_kafka_offsets.spark.window.tally import literal_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_WHOLE = ("float", "double", "decimal")
"""Types that may hold what is no whole number, and so no offset."""
_RANGES = {"t": "string", "p": "int", "c": "bigint", "start": "bigint", "end": "bigint"}
_WINDOWS = _RANGES | {"window": "int", "salt": "bigint", "hashed": "string"}
SALTED = hash_sql("`salt`, `hashed`")
"""What a row adds to its window's checksum."""


def placed_rows(spark: SparkSession, table: AuditedTable, topics: Collection[str]) -> DataFrame:
    """Topic, partition and offset of a table's rows; null where a row doesn't tell. ``own`` is false if it tells that
    it is from another source.

    :param topics: the windows' topics.
    :raises ConfigurationError: when Spark can't read the table, or an expression isn't one of its columns'.
    """
    columns = table.columns
    with _explained(table):
        rows = _read(spark, table)
        if table.where is not None:
            rows = rows.where(table.where)
        found = rows.selectExpr(
            f"cast({table.topic_of(sorted(topics))} AS string) AS `topic`",
            f"{columns.partition} AS `partition`",
            f"{columns.offset} AS `offset`",
            f"coalesce({table.source or 'true'}, true) AS `own`",
        )
        kinds = dict(found.dtypes)
        partition, offset = _number("partition", "int", kinds), _number("offset", "bigint", kinds)
        return found.selectExpr("`topic`", partition, offset, "`own`")


def _number(column: str, kind: str, kinds: Mapping[str, str]) -> str:
    """A column as a number; null where it isn't one, as a cast would cut off its fraction."""
    number = f"try_cast(`{column}` AS {kind})"
    whole = f"IF(`{column}` = floor(`{column}`), {number}, NULL)"
    return f"{whole if kinds[column].startswith(_WHOLE) else number} AS `{column}`"


def in_windows(rows: DataFrame, windows: Sequence[tuple[Checksum, Collection[LogRange]]]) -> DataFrame:
    """The rows whose offsets lie in windows' ranges, each with the place of its window, and what is hashed with it. If
    windows share an offset, its rows are there for each.

    :param windows: in order of their places.
    """
    ranges = [(place, checksum, each) for place, (checksum, own) in enumerate(windows) for each in own]
    # Ranges are found by stretches as long as an average range, so that each row is compared with few of them.
    stretch = max(1, span_of(each for *_, each in ranges) // max(1, len(ranges)))
    places = [
        (
            *(each.topic, each.partition, number, each.start_offset, each.end_offset),
            *(place, checksum.salt, each.topic if checksum.with_topic else None),
        )
        for place, checksum, each in ranges
        for number in range(each.start_offset // stretch, (each.end_offset - 1) // stretch + 1)
    ]
    known = F.broadcast(literal_rows(rows.sparkSession, _WINDOWS, places))
    inside = F.expr(
        f"`t` = `topic` AND `p` = `partition` AND `c` = `offset` div {stretch}L AND `offset` >= `start` AND "
        "`offset` < `end`"
    )
    return near(rows, [each for *_, each in ranges]).join(known, inside).drop("t", "p", "c", "start", "end")


def near(rows: DataFrame, ranges: Collection[LogRange]) -> DataFrame:
    """The rows of some ranges, and of little else: the source may skip files by the condition."""
    low = min((each.start_offset for each in ranges), default=0)
    high = max((each.end_offset for each in ranges), default=0)
    topics, partitions = sorted({each.topic for each in ranges}), sorted({each.partition for each in ranges})
    between = F.expr(f"`offset` >= {low}L AND `offset` < {high}L")
    return rows.where(F.col("topic").isin(topics) & F.col("partition").isin(partitions) & between)


def sums_by_cell(rows: DataFrame, size: int) -> tuple[SumsByCell, SumsByCell]:
    """The sums of rows by cell, in one pass: of those that are from the windows' source, and of the others.

    :param rows: :func:`in_windows`, with ``own``.
    :param size: offsets of a cell.
    """
    cell = F.expr(f"`offset` div {size}").alias("cell")
    grouped = rows.groupBy("own", "window", "topic", "partition", cell)
    own, others = dict[CellKey, Sums](), dict[CellKey, Sums]()
    for row in grouped.agg(F.count(F.lit(1)).alias("rows"), F.expr(f"bit_xor({SALTED})").alias("checksum")).collect():
        key = CellKey(row["window"], row["topic"], row["partition"], row["cell"])
        (own if row["own"] else others)[key] = Sums(row["rows"], row["checksum"])
    return own, others


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
