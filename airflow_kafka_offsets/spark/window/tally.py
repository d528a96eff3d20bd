"""The tally of rows: what the audit compares, summed up by Spark.

What was written is counted from the output, three columns of it. Where that doesn't prove the window by itself, what is
read is summed up while it is written, in the same pass (``Observation``), so that Kafka is read once. Both use the same
checksum: equal ones make it the same rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from threading import Thread
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.spark_versions import observes_any
from airflow_kafka_offsets.offsets.partitions import LogRange, merged
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, Tally
from airflow_kafka_offsets.offsets.proof.task_rows import START_HASH
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.sinks.sink import AUDITED, OUTSIDE_COLUMN

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
"""Of so many offsets, a power of two, one is looked at for its bytes as it is read."""
_SAMPLE = 1_000
"""Rows of the output that are looked at for their bytes, where nothing counts what is read."""
_MISSING = 100
"""Of each partition, so many offsets without a row are looked at to learn why."""
_CHUNK = 65536
"""Offsets that are made of a row at a time."""
_CHUNKS = 10_000
"""So many rows stand for all offsets, or little more."""
_METRICS_TIMEOUT_S = 60.0
"""Spark hands the metrics over on another thread, moments after the action."""
UNREAD = (
    "Spark reported no count of the rows read: what was written doesn't come from them alone, or Spark "
    "assumed that they were empty, or an RDD, a checkpoint or collected rows came in between."
)
_FIRST = "_kafka_offsets_first_of_task"
_ROW_BITS = 33
"""How many bits of ``monotonically_increasing_id()`` are a row's place among those of its task."""


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """Rows that are tallied as they pass: exactly one action may run on them or on what is made of them (S25). Spark
    puts the sums into the observation."""

    rows: DataFrame
    observation: Observation
    manifest: Manifest

    def found(self) -> Tally | None:
        """The sums, once the action is done; None when none has counted the rows: an optimizer may cut them off, as
        under a filter that is always false. Spark's own ``Observation.get`` would wait for ever."""
        sums = observed_sums(self.observation)
        return _tally(sums, self.manifest) if sums else None


def observed_sums(observation: Observation) -> dict[str, Any]:
    """What the first action on observed rows has summed up; empty when there was none."""
    # Spark Connect's observation is another class: its sums came with the action's answer, or never will.
    if not isinstance(observation, Observation):
        return dict(observation.get)
    found: dict[str, Any] = {}
    waiting = Thread(target=lambda: found.update(observation.get), name="observed sums", daemon=True)
    waiting.start()
    waiting.join(_METRICS_TIMEOUT_S)
    return dict(found)


@dataclass(frozen=True, slots=True)
class Scanned:
    """What an output holds.

    :param written: its rows, by topic and partition.
    :param outside: how many of them it keeps apart by ``outside_window``; None where it keeps none apart, or has rows
        on neither side.
    :param late: rows whose ``timestamp`` lies outside the window's two instants; None where it has no such column, or
        nobody asked.
    """

    written: tuple[PartitionTally, ...]
    outside: int | None
    late: int | None


def outside_window(manifest: Manifest) -> str:
    """The SQL condition of a row, as read, whose timestamp lies outside the window's two instants; as one does that
    Spark can't read, which is null."""
    start, end = (f"timestamp_millis({instant})" for instant in (manifest.start_ms, manifest.end_ms))
    return f"coalesce(`timestamp` < {start} OR `timestamp` >= {end}, true)"


def observe(rows: DataFrame, manifest: Manifest, *, may_have_gaps: bool) -> ObservedRows:
    """Tally rows with Kafka's topic, partition, offset and timestamp as they are read. Where offsets may be without a
    record, the read has to tell where its tasks began, too."""
    observation = Observation()
    added: tuple[str, ...] = ()
    metrics = _of_records(manifest)
    if may_have_gaps:
        first = f"monotonically_increasing_id() & {(1 << _ROW_BITS) - 1}L = 0L"
        if not observes_any(rows.sparkSession):
            rows, first, added = rows.withColumn(_FIRST, F.expr(first)), _FIRST, (_FIRST,)
        metrics["starts"] = f"sum(if({first}, {START_HASH}, 0L))"
    return ObservedRows(rows.observe(observation, *_columns(metrics)).drop(*added), observation, manifest)


def tally_of(records: DataFrame, manifest: Manifest) -> Tally:
    """Tally a window's records, as Spark's Kafka source returns them, by an action of its own."""
    (sums,) = records.agg(*_columns(_of_records(manifest))).collect()
    return _tally(sums.asDict(), manifest)


def scan(rows: DataFrame, manifest: Manifest, *, late: bool = False) -> Scanned:
    """Tally rows with Kafka's topic, partition and offset by the first two: one pass over three columns; and one more
    to count ``late`` and early rows too."""
    metrics, kinds, more = _same_rows(manifest) | _OFFSETS, dict(rows.dtypes), []
    if kinds.get(OUTSIDE_COLUMN) == "boolean":
        more.append(OUTSIDE_COLUMN)
        metrics["outside"] = f"sum(if(`{OUTSIDE_COLUMN}`, 1L, 0L))"
        metrics["neither"] = f"sum(if(`{OUTSIDE_COLUMN}` IS NULL, 1L, 0L))"
    if late and kinds.get("timestamp") == "timestamp":
        more.append("timestamp")
        metrics["late"] = f"sum(if({outside_window(manifest)}, 1L, 0L))"
    grouped = _audited(rows, more).groupBy("topic", "partition").agg(*_columns(metrics)).collect()
    partitions = sorted((row.asDict() for row in grouped), key=itemgetter("topic", "partition"))
    told = OUTSIDE_COLUMN in more and not any(sums["neither"] for sums in partitions)
    return Scanned(
        written=tuple(map(_partition_tally, partitions)),
        outside=sum(sums["outside"] for sums in partitions) if told else None,
        late=sum(sums["late"] for sums in partitions) if "timestamp" in more else None,
    )


def sampled_bytes(rows: DataFrame) -> float | None:
    """Mean size of key and value of some rows, as Spark finds them first: one short task. None where the two aren't
    there as Kafka has them, and without rows."""
    kinds = dict(rows.dtypes)
    if any(kinds.get(name) not in ("binary", "string") for name in ("key", "value")):
        return None
    found = [size for (size,) in rows.selectExpr(_CONTENT).take(_SAMPLE)]
    return sum(found) / len(found) if found else None


def scan_tasks(rows: DataFrame, tasks: Sequence[LogRange]) -> dict[LogRange, tuple[int, int]]:
    """The first and last offset of each of some tasks that has rows: one more pass over three columns."""
    if not tasks:
        return {}
    # A task is found by the cells that it lies in, as large as tasks are on average: a row is compared with few.
    cell = max(1, sum(task.span for task in tasks) // len(tasks))
    places = [
        (task.topic, task.partition, number, task.start_offset, task.end_offset)
        for task in tasks
        for number in range(task.start_offset // cell, (task.end_offset - 1) // cell + 1)
    ]
    columns = {"t": "string", "p": "int", "c": "bigint", "start": "bigint", "end": "bigint"}
    known = F.broadcast(_literal_rows(rows.sparkSession, columns, places))
    cells = f"`t` = `topic` AND `p` = `partition` AND `c` = `offset` div {cell}"
    inside = _audited(rows).join(known, F.expr(f"{cells} AND `offset` >= `start` AND `offset` < `end`"))
    extents = {"first": "min(`offset`)", "last": "max(`offset`)"}
    found = inside.groupBy("t", "p", "start", "end").agg(*_columns(extents))
    return {LogRange(*row[:4]): (row["first"], row["last"]) for row in found.collect()}


def first_missing(rows: DataFrame, manifest: Manifest) -> list[LogRange]:
    """Where rows lack offsets of a window: the first ones of each partition, as ranges. For a window that isn't proved:
    it shuffles all rows."""
    spark, keys = rows.sparkSession, list(AUDITED)
    place = Window.partitionBy("topic", "partition").orderBy("offset")
    missing = offsets_once(spark, manifest).join(_audited(rows), keys, "left_anti")
    first = missing.withColumn("place", F.row_number().over(place)).where(F.col("place") <= _MISSING)
    found = first.select(*keys, F.expr("`offset` + 1")).collect()
    return merged(LogRange(*row[:4]) for row in found)


def every_offset(spark: SparkSession, manifest: Manifest) -> Tally:
    """The tally of rows that have each offset of a window once: what an output that lacks none has to hold. Nothing is
    read; what only a read can count is unknown."""
    (sums,) = offsets_once(spark, manifest).agg(*_columns(_same_rows(manifest))).collect()
    return Tally(sums["count"], sums["checksum"] or 0, outside_window=None, counted=False)


def offsets_once(spark: SparkSession, manifest: Manifest) -> DataFrame:
    """A row with topic, partition and offset for each offset of a window. Nothing is read."""
    # Rows of the driver's own come in as many tasks as run at a time, without being sent about.
    size = max(_CHUNK, manifest.span // _CHUNKS)
    chunks = [
        (pinned.topic, pinned.partition, start, min(start + size, pinned.end_offset) - 1)
        for pinned in manifest.non_empty()
        for start in range(pinned.start_offset, pinned.end_offset, size)
    ]
    columns = {"topic": "string", "partition": "int", "start": "bigint", "last": "bigint"}
    rows = _literal_rows(spark, columns, chunks)
    parts = f"explode(sequence(`start`, `last`, {_CHUNK}L)) AS `from`"
    offsets = f"explode(sequence(`from`, least(`last`, `from` + {_CHUNK - 1}L))) AS `offset`"
    return rows.selectExpr("`topic`", "`partition`", "`last`", parts).selectExpr("`topic`", "`partition`", offsets)


def _literal_rows(spark: SparkSession, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Rows that are part of the query. ``createDataFrame`` would start Python for them on every executor."""
    fields = ", ".join(f"`{name}`: {kind}" for name, kind in columns.items())
    text = json.dumps([dict(zip(columns, row, strict=True)) for row in rows])
    known = F.from_json(F.lit(text), f"array<struct<{fields}>>")
    return spark.range(len(rows)).select(F.element_at(known, F.expr("int(id + 1)")).alias("row")).select("row.*")


def _audited(rows: DataFrame, more: Iterable[str] = ()) -> DataFrame:
    # A sink may keep them as other types, and a hash is of one.
    audited = (f"cast(`{name}` AS {kind}) AS `{name}`" for name, kind in AUDITED.items())
    return rows.selectExpr(*audited, *(f"`{name}`" for name in more))


def _same_rows(manifest: Manifest) -> dict[str, str]:
    """Equal ones make it the same rows, as nobody who writes to a topic knows the ledger's identity: records could be
    made of which a transform drops some and doubles others so that a sum of known numbers stays. A name takes longer to
    hash than two numbers: a window's only one is left out, as what was written is grouped by topic."""
    salt = int(hashlib.sha256(f"{manifest.ledger_id}/{manifest.window}".encode()).hexdigest()[:15], 16)
    topic = "`topic`, " if len({pinned.topic for pinned in manifest.ranges}) > 1 else ""
    return {"count": "count(*)", "checksum": f"bit_xor(xxhash64({salt}L, {topic}`partition`, `offset`))"}


def _of_records(manifest: Manifest) -> dict[str, str]:
    """What is summed up of records as they are read."""
    # Each takes its time with every record: sum(if()) a fifth of count_if's, and a length copies the bytes first.
    return _same_rows(manifest) | {
        "outside_window": f"sum(if({outside_window(manifest)}, 1L, 0L))",
        "sampled_bytes": f"sum(if(`offset` & {_SAMPLED - 1} = 0, {_CONTENT}, 0))",
    }


def _tally(sums: Mapping[str, Any], manifest: Manifest) -> Tally:
    """From the sums of :func:`_of_records`, and of ``starts`` where they have it."""
    return Tally(
        count=sums["count"],
        # Sums over no rows are null.
        checksum=sums["checksum"] or 0,
        outside_window=sums["outside_window"] or 0,
        bytes_per_record=_bytes_per_record(manifest, sums["count"], sums["sampled_bytes"] or 0),
        starts=(sums["starts"] or 0) if "starts" in sums else None,
    )


def _bytes_per_record(manifest: Manifest, count: int, sampled_bytes: int) -> float | None:
    """Gaps are taken to be spread evenly."""
    ends = ((pinned.start_offset - 1, pinned.end_offset - 1) for pinned in manifest.ranges)
    offsets = sum(last // _SAMPLED - before // _SAMPLED for before, last in ends)
    return sampled_bytes / offsets * manifest.span / count if offsets and count else None


def _columns(metrics: dict[str, str]) -> list[Column]:
    return [F.expr(expression).alias(name) for name, expression in metrics.items()]


def _partition_tally(sums: dict[str, Any]) -> PartitionTally:
    names = ("topic", "partition", "count", "min_offset", "max_offset", "checksum")
    low, high = int(sums["offset_low"] or 0), int(sums["offset_high"] or 0)
    return PartitionTally(**{name: sums[name] for name in names}, offset_sum=(high << _LOW_BITS) + low)
