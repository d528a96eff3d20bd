"""The counts of a run: what was written, what was read, and what Kafka has at offsets without a row.

An output that holds every offset of its window exactly once proves itself, however often Spark read Kafka for it. So if
every offset has a record, what is read isn't counted. If offsets may be without a record, the count must come from a
single read, and Kafka is asked whether that read ended early. A Spark Connect client can do neither.

Before anything is read, the optimized query plan shows whether the count is part of the plan, and whether Kafka would
be read twice (S25). A plan doesn't show what user functions do, or what a table sorts by itself. So this check proves
nothing; it saves the time of a load that can't be proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.compat.spark_versions import alongside
from airflow_kafka_offsets.errors import ConfigurationError, UnprovenError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.proof.audit import every_offset_once
from airflow_kafka_offsets.offsets.proof.checksum import complete, every_offset
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, Tally, counted_twice, total_of
from airflow_kafka_offsets.offsets.proof.task_rows import rows_of_tasks, split_with_gaps, starts_of
from airflow_kafka_offsets.spark.kafka.unread import unread_records
from airflow_kafka_offsets.spark.session.connect import GAPS, require_driver
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.window.tally import UNREAD, sampled_bytes, scan, scan_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNT = "CollectMetrics"
_BELOW_COUNT = frozenset(
    {
        *("Project", "DataSourceV2ScanRelation", "LogicalRelation"),
        # Of topics that are read one by one, and of records that are kept on the executors' disks.
        *("Union", "LogicalRDD"),
        # The same operators in a cached frame, whose plan is physical.
        *("BatchScan", "Scan", "Coalesce", "WholeStageCodegen", "InputAdapter"),
    }
)
"""What may stand between the count and Kafka; any other operator might drop rows before they are counted."""
_AGGREGATES = frozenset({"Aggregate", "HashAggregate", "ObjectHashAggregate", "SortAggregate"})
"""A sort samples the result of these, which Spark keeps, so what is below them is read only once. All but the first
appear in the plans of cached frames."""
_SORT_WITHIN = (
    "Sort within partitions, rows.repartition(n, column).sortWithinPartitions(column), or sort what is published"
)


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What one run read and wrote; see :class:`.run_result.RunResult` for the fields."""

    read: Tally
    written: tuple[PartitionTally, ...]
    task_starts: int | None = None
    unread: tuple[ReadPosition, ...] | None = None


def refuse_uncountable(window: PinnedRead, rows: DataFrame) -> None:
    """If the proof needs the count of a single read, refuse rows whose plan reads twice or hides the count. Nothing is
    read."""
    if window.span and window.may_have_gaps:
        require_driver(window.spark, GAPS)
    if not window.needs_count:
        return
    plan = RowPlan.of(rows)
    why = (
        "Offsets of this window may have no record (allow_gaps, or a compacted topic), so the proof needs the count "
        "of the records read"
    )
    if plan.sorted_by is not None:
        raise ConfigurationError(
            f"{plan.sorted_by}() before write() has Spark read Kafka twice, first for a sample. {why}, from a single "
            f"read. {_SORT_WITHIN}."
        )
    if not plan.counted:
        raise ConfigurationError(
            "The read behind the rows to write isn't counted: they aren't those of the last read(), or an "
            f"RDD, a checkpoint, collected rows or a filter that is never true came in between. {why}. "
            "Derive them from read()'s rows with DataFrame operations only."
        )


def count_run(window: PinnedRead, rows: DataFrame, output: DataFrame, *, sample: DataFrame | None) -> RunCounts:
    """Count what was read for the rows, and what the output holds of them when it is read back after the write.

    :param sample: rows of the output, if it is cheap to look at some of them, to learn their size.
    :raises UnprovenError: nothing was counted, and the output doesn't hold every offset exactly once.
    :raises KafkaOffsetsError: as :func:`~.unread.unread_records`, for offsets that Kafka must be asked about.
    """
    manifest = window.manifest
    if window.span and not window.needs_count:
        return _by_output(window, output, sample if window.may_be_split else None)
    written = scan(output, manifest)
    if not window.span:
        return RunCounts(Tally(), written)
    read = window.observed().found() if RowPlan.of(rows).counted else None
    total = total_of(written)
    if every_offset_once(window.left, written) and not (read and total.same_rows(read)):
        proved = complete(manifest, window.left)
        read = proved if total.same_rows(proved) else read
    if read is None:
        raise UnprovenError(f"Window {manifest.window} is not proved, and can't be published: {UNREAD}")
    if total.count >= window.span:
        return RunCounts(read, written)
    return _with_gaps(window, output, written, [read])


def count_records(window: PinnedRead, records: DataFrame, reads: Sequence[Tally]) -> RunCounts:
    """Count a window's records (the result's ``written``) separately from the jobs that got them. Errors as in
    :func:`count_run`.

    :param records: the records as they were read; they lie on the executors' disks if offsets may be without a record.
    :param reads: what the job of each output got.
    """
    manifest = window.manifest
    if not window.span:
        return RunCounts(reads[0], ())
    every = every_offset(manifest, window.left)
    if not window.may_have_gaps or all(map(total_of(every).same_rows, reads)):
        return RunCounts(reads[0], every)
    return _with_gaps(window, records, scan(records, manifest), reads)


def _with_gaps(
    window: PinnedRead, rows: DataFrame, written: tuple[PartitionTally, ...], reads: Sequence[Tally]
) -> RunCounts:
    """The counts of rows that lack offsets, and what Kafka has at offsets where a task's read may have ended early."""
    found = rows_of_tasks(window.tasks, written, scan_tasks(rows, split_with_gaps(window.tasks, written)))
    total, starts = total_of(written), starts_of(found)
    # If rows may have been counted twice, ask Kafka whether others were dropped, because a retry would drop them again.
    if any(not total.same_rows(read) and not counted_twice(read, starts) for read in reads):
        return RunCounts(reads[0], written, starts)
    stretches = [stretch for task in found for stretch in task.silent()]
    return RunCounts(reads[0], written, starts, unread_records(window.clients(), stretches))


def _by_output(window: PinnedRead, output: DataFrame, sample: DataFrame | None) -> RunCounts:
    """Count the output. Its short jobs run side by side: most of their time isn't Spark's tasks."""
    spark, manifest = window.spark, window.manifest
    with ThreadPoolExecutor(1) as pool:
        size = None if sample is None else pool.submit(alongside(spark, partial(sampled_bytes, sample)))
        written = scan(output, manifest)
        read = replace(complete(manifest, window.left), bytes_per_record=size.result() if size else None)
    return RunCounts(read, written)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """What a plan says about the rows.

    :param counted: each Kafka record that goes into the rows is counted as it is read.
    :param sorted_by: the operation that has Spark first read a sample of all rows; None if there is none.
    :param reads: how many times the records are read.
    :param names: names of all counts in the plan.
    """

    counted: bool
    sorted_by: str | None
    reads: int
    names: frozenset[str]

    @classmethod
    def of(cls, rows: DataFrame, name: str | None = None) -> RowPlan:
        """Have Spark optimize the rows' query and look at the plan; nothing is read.

        :param name: name of the count to look at, if others may be in the plan too; None if there is only one.
        """
        nodes = list(_nodes(rows._jdf.queryExecution().optimizedPlan()))
        named = [(str(node.name()), node) for node in nodes if _name(node) == _COUNT]
        counts = [node for found, node in named if name in (None, found)]
        counted = bool(counts) and all(map(_only_reads, counts))
        sorted_by = next(filter(None, map(_sorts, nodes)), None)
        return cls(counted, sorted_by, len(counts), frozenset(found for found, _ in named))


def _nodes(plan: Any, above: frozenset[str] = frozenset()) -> Iterator[Any]:
    """A plan's nodes, including those of subqueries in its conditions; nothing below the nodes named in ``above``."""
    yield plan
    if _name(plan) not in above:
        for child in (*_children(plan), *_subqueries(plan)):
            yield from _nodes(child, above)


def _subqueries(plan: Any) -> Iterator[Any]:
    """The subqueries in a node's conditions and columns, except those with which Spark prunes partitions of another
    table: they reuse what a join has read."""
    if plan.subqueries().isEmpty():
        return
    left = [plan.expressions().apply(number) for number in range(plan.expressions().size())]
    while left:
        expression = left.pop()
        if "DynamicPruning" in str(expression.getClass().getSimpleName()):
            continue
        if any(method.getName() == "plan" for method in expression.getClass().getMethods()):
            yield expression.plan()
        children = expression.children()
        left += [children.apply(number) for number in range(children.size())]


def _children(plan: Any) -> list[Any]:
    """The nodes below. A cached frame, and a plan that Spark adapts while it runs, don't list them as children."""
    match _name(plan):
        case "InMemoryRelation":
            return [plan.cacheBuilder().cachedPlan()]
        case "InMemoryTableScan":
            return [plan.relation()]
        case "AdaptiveSparkPlan":
            return [plan.inputPlan()]
    children = plan.children()
    return [children.apply(number) for number in range(children.size())]


def _name(plan: Any) -> str:
    return str(plan.nodeName()).split(" ")[0].split("(")[0]


def _only_reads(count: Any) -> bool:
    return all(_name(node) in _BELOW_COUNT for child in _children(count) for node in _nodes(child))


def _sorts(plan: Any) -> str | None:
    """The operation with which this node has Spark read the rows below it twice; None if it doesn't, or if they aren't
    Kafka's rows."""
    by = _sampled_for(plan)
    return by if by and any(_name(node) == _COUNT for node in _nodes(plan, above=_AGGREGATES)) else None


def _sampled_for(plan: Any) -> str | None:
    name = _name(plan)
    if name == "Sort" and getattr(plan, "global")():
        return "orderBy"
    # In cached frames, the first of these becomes the second.
    partitioning = {"RepartitionByExpression": "partitioning", "Exchange": "outputPartitioning"}.get(name)
    if partitioning and "RangePartitioning" in getattr(plan, partitioning)().getClass().getName():
        return "repartitionByRange"
    return None
