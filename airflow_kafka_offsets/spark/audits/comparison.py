"""The comparison: a table's rows beside the log's records, offset by offset, where their sums differ.

Nothing is collected but the first ranges of each problem in each partition, and the exact amounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from airflow_kafka_offsets.offsets.audits.findings import AMOUNT, RULE, Finding, Known, Problem
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.spark.window.tally import literal_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_kafka_offsets.offsets.audits.cells import CellKey

MOST_RANGES = 10_000
"""How many ranges are named, over all partitions."""
_CELLS = {"t": "string", "p": "int", "c": "bigint"}
_KNOWN = {"t": "string", "p": "int", "log_start": "bigint", "written_to": "bigint", "compacted": "boolean"}
_KEY = ("topic", "partition", "offset")
_PARTITION = "PARTITION BY `problem`, `topic`, `partition` ORDER BY"
_OF_LOG = (
    *_KEY,
    "1 AS `in_log`",
    "0 AS `in_table`",
    "unix_millis(`timestamp`) AS `at_ms`",
    "IF(`key` IS NULL, NULL, lower(lpad(hex(xxhash64(`key`)), 16, '0'))) AS `key_hash`",
)
_UNKNOWN = ("cast(NULL AS bigint) AS `at_ms`", "cast(NULL AS string) AS `key_hash`")
_OF_TABLE = (*_KEY, "0 AS `in_log`", "1 AS `in_table`", *_UNKNOWN)
_STARTS = {"t": "string", "p": "int", "log_start": "bigint"}
_RUNS = {"t": "string", "p": "int", "start": "bigint", "end": "bigint"}


def of_kafka(records: DataFrame) -> DataFrame:
    """The log's side of a comparison, as Spark's Kafka source reads it."""
    return records.selectExpr(*_OF_LOG)


def of_census(spark: SparkSession, runs: Sequence[LogRange]) -> DataFrame:
    """The log's side of a comparison, of records that were counted while it had them: they have no timestamp here.

    :param runs: ranges of offsets that have a record each.
    """
    known = literal_rows(spark, _RUNS, [tuple(each) for each in runs])
    each = known.selectExpr(
        "`t` AS `topic`", "`p` AS `partition`", "explode(sequence(`start`, `end` - 1L)) AS `offset`"
    )
    return each.selectExpr(*_KEY, "1 AS `in_log`", "0 AS `in_table`", *_UNKNOWN)


@dataclass(frozen=True, slots=True)
class Differences:
    """Where rows and records differ.

    :param offsets: each offset with a problem: ``problem``, topic, partition, offset, amount, timestamp, hash of the
        key. Each action compares again.
    """

    offsets: DataFrame

    @classmethod
    def of(
        cls,
        rows: DataFrame,
        log: DataFrame,
        cells: Collection[CellKey],
        size: int,
        known: Mapping[TopicPartition, Known],
    ) -> Differences:
        """Compare a table's rows with the log's records, in some cells.

        :param log: :func:`of_kafka`, :func:`of_census`, or both.
        :param size: offsets of a cell.
        """
        spark = rows.sparkSession
        chosen = F.broadcast(literal_rows(spark, _CELLS, list(cells)))
        inside = F.expr(f"`t` = `topic` AND `p` = `partition` AND `c` = `offset` div {size}")
        both = log.unionAll(rows.selectExpr(*_OF_TABLE))
        counted = (
            both.join(chosen, inside, "left_semi")
            .groupBy(*_KEY)
            .agg(
                F.sum("in_log").alias("in_log"),
                F.sum("in_table").alias("in_table"),
                F.max("at_ms").alias("at_ms"),
                F.max("key_hash").alias("key_hash"),
            )
        )
        facts = F.broadcast(literal_rows(spark, _KNOWN, [(*key, *each) for key, each in known.items()]))
        judged = counted.join(facts, F.expr("`t` = `topic` AND `p` = `partition`")).withColumn("problem", F.expr(RULE))
        named = judged.where("`problem` IS NOT NULL").withColumn("amount", F.expr(AMOUNT))
        return cls(named.select("problem", *_KEY, "amount", "at_ms", "key_hash"))

    def missing(self, starts: Sequence[tuple[str, int, int]]) -> DataFrame:
        """Topic, partition and offset of the missing records that the log still has.

        :param starts: topic, partition, and the first offset that its log has.
        """
        known = F.broadcast(literal_rows(self.offsets.sparkSession, _STARTS, starts))
        there = F.expr("`t` = `topic` AND `p` = `partition` AND `offset` >= `log_start`")
        return self.offsets.where(f"`problem` = '{Problem.MISSING}'").join(known, there).select(*_KEY)

    def findings(self, partitions: int) -> tuple[tuple[Finding, ...], dict[str, int]]:
        """The first ranges of each problem in each partition, and the amounts of all.

        :param partitions: how many partitions share the number of ranges that are named.
        """
        most = max(1, MOST_RANGES // max(1, partitions))
        runs = self.offsets.withColumn("run", F.expr(f"`offset` - row_number() OVER ({_PARTITION} `offset`)"))
        ranges = runs.groupBy("problem", "topic", "partition", "run").agg(
            F.min("offset").alias("start"),
            F.expr("max(`offset`) + 1").alias("end"),
            F.sum("amount").alias("amount"),
            F.min("at_ms").alias("first_ms"),
            F.max("at_ms").alias("last_ms"),
            F.min_by("key_hash", "offset").alias("key_hash"),
        )
        counted = ranges.withColumns(
            {
                "place": F.expr(f"row_number() OVER ({_PARTITION} `start`)"),
                "total": F.expr("sum(`amount`) OVER (PARTITION BY `problem`, `topic`, `partition`)"),
            }
        )
        found = counted.where(f"`place` <= {most}").collect()
        totals: dict[str, int] = {}
        for row in found:
            if row["place"] == 1:
                totals[row["problem"]] = totals.get(row["problem"], 0) + row["total"]
        return tuple(sorted(map(_finding, found))), totals


def _finding(row: Any) -> Finding:
    names = ("problem", "topic", "partition", "start", "end", "amount", "first_ms", "last_ms", "key_hash")
    return Finding(*(row[name] for name in names))
