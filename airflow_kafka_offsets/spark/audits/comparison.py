"""The comparison: a table's rows beside the log's records, offset by offset, where their sums differ.

Nothing is collected but the first ranges of each problem in each partition, and the exact amounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Observation, functions as F

from airflow_kafka_offsets.offsets.audits.cells import CellKey, Sums
from airflow_kafka_offsets.offsets.audits.report import AMOUNT, RULE, Finding, Known, Problem
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.spark.audits.table_rows import SALTED
from airflow_kafka_offsets.spark.window.counts import literal_rows, observed_sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_RANGES = 10_000
"""How many ranges are named, over all partitions of all windows; one of each at least."""
_PLACES = {"w": "int", "t": "string", "p": "int"}
_KNOWN = _PLACES | {"log_start": "bigint", "written_to": "bigint", "compacted": "boolean"}
_CELLS = _PLACES | {"c": "bigint"}
_RUNS = {"window": "int", "topic": "string", "partition": "int", "start": "bigint", "end": "bigint"}
Place = tuple[int, str, int]
"""A partition of a window: the window's place, topic and partition."""
_PLACE = ("topic", "partition", "offset")
_KEY = ("window", *_PLACE)
_OF_PARTITION = ("problem", "window", "topic", "partition")
_BY_PARTITION = f"PARTITION BY {', '.join(f'`{name}`' for name in _OF_PARTITION)}"
_UNKNOWN = ("cast(NULL AS bigint) AS `at_ms`", "cast(NULL AS string) AS `key_hash`")
_OF_LOG = (*_KEY, "1 AS `in_log`", "0 AS `in_table`", "0L AS `hash`")
_OF_KAFKA = (
    *_OF_LOG,
    "unix_millis(`timestamp`) AS `at_ms`",
    "IF(`key` IS NULL, NULL, lower(lpad(hex(xxhash64(`key`)), 16, '0'))) AS `key_hash`",
)
_OF_TABLE = (*_KEY, "0 AS `in_log`", "1 AS `in_table`", f"{SALTED} AS `hash`", *_UNKNOWN)
_FOUND = ("problem", *_KEY, "amount", "at_ms", "key_hash")


def of_kafka(records: DataFrame) -> DataFrame:
    """The log's side of a comparison, as Spark's Kafka source reads it, in its windows."""
    return records.selectExpr(*_OF_KAFKA)


def of_census(spark: SparkSession, runs: Sequence[tuple[int, LogRange]]) -> DataFrame:
    """The log's side of a comparison, of records that were counted while it had them: they have no timestamp here.

    :param runs: windows, and ranges of offsets that have a record each.
    """
    known = literal_rows(spark, _RUNS, [(window, *each) for window, each in runs])
    each = known.withColumn("offset", F.expr("explode(sequence(`start`, `end` - 1L))"))
    return each.selectExpr(*_OF_LOG, *_UNKNOWN)


def in_cells(side: DataFrame, cells: Collection[CellKey], size: int) -> DataFrame:
    """One side of a comparison, in some cells.

    :param size: offsets of a cell.
    """
    chosen = F.broadcast(literal_rows(side.sparkSession, _CELLS, list(cells)))
    inside = F.expr(f"`w` = `window` AND `t` = `topic` AND `p` = `partition` AND `c` = `offset` div {size}L")
    return side.join(chosen, inside, "left_semi")


def of_table(rows: DataFrame) -> DataFrame:
    """The table's side of a comparison."""
    return rows.selectExpr(*_OF_TABLE)


def from_elsewhere(rows: DataFrame) -> DataFrame:
    """Rows that are from another source than their windows, as differences."""
    counted = rows.groupBy(*_KEY).agg(F.count(F.lit(1)).alias("amount"))
    return counted.selectExpr(f"'{Problem.FOREIGN}' AS `problem`", *_KEY, "`amount`", *_UNKNOWN)


@dataclass(frozen=True, slots=True)
class Differences:
    """Where rows and records differ.

    :param offsets: each offset with a problem: ``problem``, window, topic, partition, offset, amount, timestamp, hash
        of the key. Each action compares again.
    :param read: what an action has read of the table's side: its sums.
    """

    offsets: DataFrame
    read: Observation

    @classmethod
    def of(cls, sides: Sequence[DataFrame], known: Mapping[Place, Known]) -> Differences:
        """Compare a table's rows with the log's records.

        :param sides: :func:`of_kafka`, :func:`of_census` and :func:`of_table`, each in the cells to compare.
        """
        both, read = reduce(DataFrame.unionAll, sides), Observation()
        counted = both.groupBy(*_KEY).agg(
            F.sum("in_log").alias("in_log"),
            F.sum("in_table").alias("in_table"),
            F.expr("bit_xor(`hash`)").alias("hash"),
            F.max("at_ms").alias("at_ms"),
            F.max("key_hash").alias("key_hash"),
        )
        seen = counted.observe(read, F.sum("in_table").alias("rows"), F.expr("bit_xor(`hash`)").alias("checksum"))
        facts = F.broadcast(literal_rows(both.sparkSession, _KNOWN, [(*key, *each) for key, each in known.items()]))
        judged = seen.join(facts, F.expr("`w` = `window` AND `t` = `topic` AND `p` = `partition`"))
        named = judged.withColumn("problem", F.expr(RULE)).where("`problem` IS NOT NULL")
        return cls(named.withColumn("amount", F.expr(AMOUNT)).select(*_FOUND), read)

    def read_sums(self) -> Sums:
        """What the last action has read of the table's side."""
        found = observed_sums(self.read)
        return Sums(found.get("rows") or 0, found.get("checksum") or 0)

    def missing(self, window: int, log_start: Mapping[TopicPartition, int]) -> DataFrame:
        """Topic, partition and offset of a window's missing records that the log still has.

        :param log_start: the first offset that the log of each topic and partition has.
        """
        starts = [(window, *key, start, None, None) for key, start in log_start.items()]
        known = F.broadcast(literal_rows(self.offsets.sparkSession, _KNOWN, starts))
        there = F.expr("`w` = `window` AND `t` = `topic` AND `p` = `partition` AND `offset` >= `log_start`")
        return self.offsets.where(f"`problem` = '{Problem.MISSING}'").join(known, there).select(*_PLACE)


def findings_of(offsets: DataFrame, partitions: int) -> tuple[dict[int, list[Finding]], dict[int, dict[str, int]]]:
    """The first ranges of each problem in each partition of each window, and the amounts of all by problem, by window.

    :param offsets: those with a problem, as in :class:`Differences`.
    :param partitions: how many partitions, of all windows, share the number of ranges that are named.
    """
    most = max(1, MOST_RANGES // max(1, partitions))
    runs = offsets.withColumn("run", F.expr(f"`offset` - dense_rank() OVER ({_BY_PARTITION} ORDER BY `offset`)"))
    ranges = runs.groupBy(*_OF_PARTITION, "run").agg(
        F.min("offset").alias("start"),
        F.expr("max(`offset`) + 1").alias("end"),
        F.sum("amount").alias("amount"),
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        F.min_by("key_hash", "offset").alias("key_hash"),
    )
    counted = ranges.withColumns(
        {
            "place": F.expr(f"row_number() OVER ({_BY_PARTITION} ORDER BY `start`)"),
            "total": F.expr(f"sum(`amount`) OVER ({_BY_PARTITION})"),
        }
    )
    found, totals = dict[int, list[Finding]](), dict[int, dict[str, int]]()
    for row in counted.where(f"`place` <= {most}").collect():
        found.setdefault(row["window"], []).append(_finding(row))
        if row["place"] == 1:
            counts = totals.setdefault(row["window"], {})
            counts[row["problem"]] = counts.get(row["problem"], 0) + row["total"]
    return found, totals


def _finding(row: Any) -> Finding:
    names = ("problem", "topic", "partition", "start", "end", "amount", "first_ms", "last_ms", "key_hash")
    return Finding(*(row[name] for name in names))
