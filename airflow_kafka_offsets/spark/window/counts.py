"""The counts of a run: what was written, what was read, and what Kafka has at offsets without a row.

An output that holds every offset of its window exactly once proves itself, however often Spark read Kafka for it. So if
every offset has a record, what is read isn't counted. If offsets may be without a record, the count must come from a
single read, and Kafka is asked whether that read ended early. A Spark Connect client can do neither.

Records are summed up as they are read, in the pass that writes them (``Observation``). What was written is summed up
from three columns of the output. Both use the same checksum: equal checksums mean the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from threading import Thread
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession, functions as F

from airflow_kafka_offsets.compat.spark_versions import alongside, observes_any
from airflow_kafka_offsets.errors import UnprovenError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange, span_of
from airflow_kafka_offsets.offsets.proof.checksum import Checksum, complete
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, Tally, counted_twice, total_of
from airflow_kafka_offsets.offsets.proof.task_rows import START_HASH, rows_of_tasks, split_with_gaps, starts_of
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.kafka.unread import unread_records
from airflow_kafka_offsets.spark.sinks.sink import AUDITED

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead

_LOW_BITS = 28
"""Offsets are summed in two halves: Spark 4 raises on overflow. Exact for 34 billion rows with offsets below 2^56."""
_OFFSETS = {
    "offset_low": f"sum(`offset` & {(1 << _LOW_BITS) - 1})",
    "offset_high": f"sum(shiftright(`offset`, {_LOW_BITS}))",
    "min_offset": "min(`offset`)",
    "max_offset": "max(`offset`)",
}
_CONTENT = "coalesce(octet_length(`key`), 0) + coalesce(octet_length(`value`), 0)"
_SAMPLE = 1_000
"""How many rows of the output are sampled for their size."""
_METRICS_TIMEOUT_S = 60.0
"""Timeout for the metrics, which Spark delivers on another thread, moments after the action."""
_UNREAD = (
    "Spark reported no count of the rows read: what was written doesn't come from them alone, or Spark "
    "assumed that they were empty, or an RDD, a checkpoint or collected rows came in between."
)
_FIRST = "_kafka_offsets_first_of_task"
_ROW_BITS = 33
"""How many low bits of ``monotonically_increasing_id()`` are the row's position in its task."""


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What one run read and wrote; see :class:`.run_result.RunResult` for the fields."""

    read: Tally
    written: tuple[PartitionTally, ...]
    task_starts: int | None = None
    unread: tuple[ReadPosition, ...] | None = None


def count_run(window: PinnedRead, output: DataFrame, *, sample: DataFrame | None) -> RunCounts:
    """Count what was read for an output, and what it holds when it is read back after the write.

    :param sample: rows of the output, if it is cheap to look at some of them, to learn their size.
    :raises UnprovenError: nothing was counted, and the output doesn't hold every offset exactly once.
    :raises KafkaOffsetsError: as :func:`~.unread.unread_records`, for offsets that Kafka must be asked about.
    """
    written, size = _scanned(window, output, sample)
    if not window.span:
        return RunCounts(Tally(), written)
    total, every = total_of(written), replace(complete(window.manifest, window.left), bytes_per_record=size)
    if not window.needs_count or total.same_rows(every):
        return RunCounts(every, written)
    sums = observed_sums(window.observation())
    if not sums:
        raise UnprovenError(f"Window {window.manifest.window} is not proved, and can't be published: {_UNREAD}")
    # Sums over no rows are null.
    read = Tally(sums["count"], sums["checksum"] or 0, size, sums["starts"] or 0)
    return RunCounts(read, written) if total.count >= window.span else _with_gaps(window, output, written, read)


def count_kept(window: PinnedRead, records: DataFrame) -> RunCounts:
    """Count a window's records (the result's ``written``) that lie on the executors' disks. Errors as in
    :func:`count_run`."""
    if not window.span:
        return RunCounts(Tally(), ())
    written, size = _scanned(window, records, records)
    read = replace(total_of(written), bytes_per_record=size)
    if read.count >= window.span:
        return RunCounts(read, written)
    counts = _with_gaps(window, records, written, read)
    return replace(counts, read=replace(read, starts=counts.task_starts))


def _scanned(
    window: PinnedRead, rows: DataFrame, sample: DataFrame | None
) -> tuple[tuple[PartitionTally, ...], float | None]:
    """The counts of rows, and the size of a record, if a split plan may need it. The short jobs run side by side: most
    of their time isn't Spark's tasks."""
    if sample is None or not window.span or not window.may_be_split:
        return scan(rows, window.manifest), None
    with ThreadPoolExecutor(1) as pool:
        size = pool.submit(alongside(window.spark, partial(sampled_bytes, sample)))
        return scan(rows, window.manifest), size.result()


def _with_gaps(window: PinnedRead, rows: DataFrame, written: tuple[PartitionTally, ...], read: Tally) -> RunCounts:
    """The counts of rows that lack offsets, and what Kafka has at offsets where a task's read may have ended early."""
    found = rows_of_tasks(window.tasks, written, scan_tasks(rows, split_with_gaps(window.tasks, written)))
    starts = starts_of(found)
    # If rows may have been counted twice, ask Kafka whether others were dropped, because a retry would drop them again.
    if not total_of(written).same_rows(read) and not counted_twice(read, starts):
        return RunCounts(read, written, starts)
    stretches = [stretch for task in found for stretch in task.silent()]
    return RunCounts(read, written, starts, unread_records(window.clients(), stretches))


def observe(rows: DataFrame, manifest: Manifest) -> tuple[DataFrame, Observation]:
    """Tally rows with Kafka's topic, partition and offset as they are read, and where the tasks of the read began.
    Exactly one action may run on these rows or on what is made from them (S25)."""
    observation = Observation()
    added: tuple[str, ...] = ()
    first = f"monotonically_increasing_id() & {(1 << _ROW_BITS) - 1}L = 0L"
    if not observes_any(rows.sparkSession):
        rows, first, added = rows.withColumn(_FIRST, F.expr(first)), _FIRST, (_FIRST,)
    metrics = _same_rows(manifest) | {"starts": f"sum(if({first}, {START_HASH}, 0L))"}
    return rows.observe(observation, *_columns(metrics)).drop(*added), observation


def observed_sums(observation: Observation) -> dict[str, Any]:
    """The sums of the first action on observed rows; empty if none has counted them: an optimizer may remove them, as
    under a filter that is always false. Spark's own ``Observation.get`` would then wait forever."""
    found: dict[str, Any] = {}
    waiting = Thread(target=lambda: found.update(observation.get), name="observed sums", daemon=True)
    waiting.start()
    waiting.join(_METRICS_TIMEOUT_S)
    return dict(found)


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
    inside = in_ranges(_audited(rows), [(task,) for task in tasks], {})
    extents = {"first": "min(`offset`)", "last": "max(`offset`)"}
    found = inside.groupBy("topic", "partition", "start", "end").agg(*_columns(extents))
    return {LogRange(*row[:4]): (row["first"], row["last"]) for row in found.collect()}


def in_ranges(rows: DataFrame, ranges: Sequence[tuple[Any, ...]], added: Mapping[str, str]) -> DataFrame:
    """The rows that lie in some ranges, each with ``start`` and ``end`` of its range, and what is added to it. If
    ranges share an offset, its rows are there for each.

    :param ranges: each a :class:`.LogRange`, and then the values of ``added``.
    :param added: the columns' types.
    """
    # Ranges are found by stretches as long as an average range, so that each row is compared with few of them.
    stretch = max(1, span_of(each for each, *_ in ranges) // max(1, len(ranges)))
    places = [
        (each.topic, each.partition, number, each.start_offset, each.end_offset, *values)
        for each, *values in ranges
        for number in range(each.start_offset // stretch, (each.end_offset - 1) // stretch + 1)
    ]
    columns = {"t": "string", "p": "int", "c": "bigint", "start": "bigint", "end": "bigint"} | dict(added)
    known = F.broadcast(literal_rows(rows.sparkSession, columns, places))
    cells = f"`t` = `topic` AND `p` = `partition` AND `c` = `offset` div {stretch}L"
    inside = F.expr(f"{cells} AND `offset` >= `start` AND `offset` < `end`")
    return rows.join(known, inside).drop("t", "p", "c")


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


def _columns(metrics: dict[str, str]) -> list[Column]:
    return [F.expr(expression).alias(name) for name, expression in metrics.items()]


def _partition_tally(sums: dict[str, Any]) -> PartitionTally:
    names = ("topic", "partition", "count", "min_offset", "max_offset", "checksum")
    low, high = int(sums["offset_low"] or 0), int(sums["offset_high"] or 0)
    return PartitionTally(**{name: sums[name] for name in names}, offset_sum=(high << _LOW_BITS) + low)
