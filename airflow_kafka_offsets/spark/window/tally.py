"""The tally of rows: what the audit compares, summed up by Spark.

What was written is counted from three columns of the output. If that alone doesn't prove the window, the records are
also summed up as they are read, in the pass that writes them (``Observation``), so that Kafka is read once. Both use
the same checksum: equal checksums mean the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from threading import Thread
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession, functions as F

from airflow_kafka_offsets.compat.spark_versions import observes_any
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.proof.left import span_of
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, Tally
from airflow_kafka_offsets.offsets.proof.task_rows import START_HASH
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.sinks.sink import AUDITED

_LOW_BITS = 28
"""Offsets are summed in two halves: Spark 4 raises on overflow. Exact for 34 billion rows with offsets below 2^56."""
_OFFSETS = {
    "offset_low": f"sum(`offset` & {(1 << _LOW_BITS) - 1})",
    "offset_high": f"sum(shiftright(`offset`, {_LOW_BITS}))",
    "min_offset": "min(`offset`)",
    "max_offset": "max(`offset`)",
}
_CONTENT = "coalesce(octet_length(`key`), 0) + coalesce(octet_length(`value`), 0)"
_SAMPLED = 64
"""One of this many offsets (a power of two) is sampled for its size as it is read."""
_SAMPLE = 1_000
"""How many rows of the output are sampled for their size if nothing counts what is read."""
_METRICS_TIMEOUT_S = 60.0
"""Timeout for the metrics, which Spark delivers on another thread, moments after the action."""
UNREAD = (
    "Spark reported no count of the rows read: what was written doesn't come from them alone, or Spark "
    "assumed that they were empty, or an RDD, a checkpoint or collected rows came in between."
)
_FIRST = "_kafka_offsets_first_of_task"
_ROW_BITS = 33
"""How many low bits of ``monotonically_increasing_id()`` are the row's position in its task."""


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """Rows that are tallied as they pass. Exactly one action may run on them or on what is made from them (S25); Spark
    puts the sums into the observation."""

    rows: DataFrame
    observation: Observation
    left: Sequence[LogRange]

    def found(self) -> Tally | None:
        """The sums, after the action; None if no action has counted the rows: an optimizer may remove them, as under a
        filter that is always false. Spark's own ``Observation.get`` would then wait forever."""
        sums = observed_sums(self.observation)
        return _tally(sums, self.left) if sums else None


def observed_sums(observation: Observation) -> dict[str, Any]:
    """The sums of the first action on observed rows; empty if there was none."""
    found: dict[str, Any] = {}
    waiting = Thread(target=lambda: found.update(observation.get), name="observed sums", daemon=True)
    waiting.start()
    waiting.join(_METRICS_TIMEOUT_S)
    return dict(found)


def observe(rows: DataFrame, manifest: Manifest, left: Sequence[LogRange], *, may_have_gaps: bool) -> ObservedRows:
    """Tally rows with Kafka's key, value, topic, partition and offset as they are read. If offsets may be without a
    record, also tally where the tasks of the read began.

    :param left: the ranges that are read.
    """
    observation = Observation()
    added: tuple[str, ...] = ()
    metrics = _of_records(manifest)
    if may_have_gaps:
        first = f"monotonically_increasing_id() & {(1 << _ROW_BITS) - 1}L = 0L"
        if not observes_any(rows.sparkSession):
            rows, first, added = rows.withColumn(_FIRST, F.expr(first)), _FIRST, (_FIRST,)
        metrics["starts"] = f"sum(if({first}, {START_HASH}, 0L))"
    return ObservedRows(rows.observe(observation, *_columns(metrics)).drop(*added), observation, left)


def scan(rows: DataFrame, manifest: Manifest) -> tuple[PartitionTally, ...]:
    """Tally rows by topic and partition, in one pass over topic, partition and offset."""
    grouped = _audited(rows).groupBy("topic", "partition").agg(*_columns(_same_rows(manifest) | _OFFSETS)).collect()
    partitions = sorted((row.asDict() for row in grouped), key=itemgetter("topic", "partition"))
    return tuple(map(_partition_tally, partitions))


def sampled_bytes(rows: DataFrame) -> float | None:
    """Mean size of key and value of the first rows that Spark finds: one short task. None without rows, or if the two
    columns aren't there as Kafka has them."""
    kinds = dict(rows.dtypes)
    if any(kinds.get(name) not in ("binary", "string") for name in ("key", "value")):
        return None
    found = [size for (size,) in rows.selectExpr(_CONTENT).take(_SAMPLE)]
    return sum(found) / len(found) if found else None


def scan_tasks(rows: DataFrame, tasks: Sequence[LogRange]) -> dict[LogRange, tuple[int, int]]:
    """The first and last offset in each of these tasks that has rows: one more pass over three columns."""
    if not tasks:
        return {}
    # Tasks are found by cells as large as an average task, so that each row is compared with few tasks.
    cell = max(1, sum(task.span for task in tasks) // len(tasks))
    places = [
        (task.topic, task.partition, number, task.start_offset, task.end_offset)
        for task in tasks
        for number in range(task.start_offset // cell, (task.end_offset - 1) // cell + 1)
    ]
    columns = {"t": "string", "p": "int", "c": "bigint", "start": "bigint", "end": "bigint"}
    known = F.broadcast(literal_rows(rows.sparkSession, columns, places))
    cells = f"`t` = `topic` AND `p` = `partition` AND `c` = `offset` div {cell}"
    inside = _audited(rows).join(known, F.expr(f"{cells} AND `offset` >= `start` AND `offset` < `end`"))
    extents = {"first": "min(`offset`)", "last": "max(`offset`)"}
    found = inside.groupBy("t", "p", "start", "end").agg(*_columns(extents))
    return {LogRange(*row[:4]): (row["first"], row["last"]) for row in found.collect()}


def literal_rows(spark: SparkSession, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Rows that are part of the query itself. ``createDataFrame`` would start Python on every executor."""
    fields = ", ".join(f"`{name}`: {kind}" for name, kind in columns.items())
    text = json.dumps([dict(zip(columns, row, strict=True)) for row in rows])
    known = F.from_json(F.lit(text), f"array<struct<{fields}>>")
    return spark.range(len(rows)).select(F.element_at(known, F.expr("int(id + 1)")).alias("row")).select("row.*")


def _audited(rows: DataFrame) -> DataFrame:
    # A sink may store other types, and a hash depends on the type.
    return rows.selectExpr(*(f"cast(`{name}` AS {kind}) AS `{name}`" for name, kind in AUDITED.items()))


def _same_rows(manifest: Manifest) -> dict[str, str]:
    """Count and checksum, which are equal only for the same rows."""
    return {"count": "count(*)", "checksum": Checksum.of(manifest).sql}


def _of_records(manifest: Manifest) -> dict[str, str]:
    """What is summed up about records as they are read."""
    # Each costs time for every record: sum(if()) takes a fifth of count_if's time, and a length copies the bytes first.
    return _same_rows(manifest) | {"sampled_bytes": f"sum(if(`offset` & {_SAMPLED - 1} = 0, {_CONTENT}, 0))"}


def _tally(sums: Mapping[str, Any], left: Sequence[LogRange]) -> Tally:
    """From the sums of :func:`_of_records`, and ``starts`` if it is there."""
    return Tally(
        count=sums["count"],
        # Sums over no rows are null.
        checksum=sums["checksum"] or 0,
        bytes_per_record=_bytes_per_record(left, sums["count"], sums["sampled_bytes"] or 0),
        starts=(sums["starts"] or 0) if "starts" in sums else None,
    )


def _bytes_per_record(left: Sequence[LogRange], count: int, sampled_bytes: int) -> float | None:
    """Mean size of a record; assumes that gaps are spread evenly."""
    ends = ((each.start_offset - 1, each.end_offset - 1) for each in left)
    offsets = sum(last // _SAMPLED - before // _SAMPLED for before, last in ends)
    return sampled_bytes / offsets * span_of(left) / count if offsets and count else None


def _columns(metrics: dict[str, str]) -> list[Column]:
    return [F.expr(expression).alias(name) for name, expression in metrics.items()]


def _partition_tally(sums: dict[str, Any]) -> PartitionTally:
    names = ("topic", "partition", "count", "min_offset", "max_offset", "checksum")
    low, high = int(sums["offset_low"] or 0), int(sums["offset_high"] or 0)
    return PartitionTally(**{name: sums[name] for name in names}, offset_sum=(high << _LOW_BITS) + low)
