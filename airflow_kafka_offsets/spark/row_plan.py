"""The plan of the rows that are to be written: whether the count of what is read stands in it, and whether Kafka is
read twice. Looked at before anything is read, in what Spark's optimizer leaves of the query (S25).

A plan doesn't show what functions of the user do, nor what a table sorts by itself: it saves the time of a load that
can't be proved, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

_COUNT = "CollectMetrics"
_BELOW_COUNT = frozenset(
    {
        *("Project", "DataSourceV2ScanRelation", "LogicalRelation"),
        # Records that the driver has read, beside those: a task each.
        *("Union", "Repartition", "LogicalRDD"),
        # The same in what is cached, which is planned to the end.
        *("BatchScan", "Scan", "Coalesce", "WholeStageCodegen", "InputAdapter"),
    }
)
"""What may stand between the count and Kafka; everything else might drop rows before they are counted."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """What a plan says of the rows.

    :param counted: each row of Kafka that goes into them is counted as it is read.
    :param sorted_by: what has Spark read a sample of all rows first; None where nothing has.
    """

    counted: bool
    sorted_by: str | None

    @classmethod
    def of(cls, rows: DataFrame) -> RowPlan:
        """Have Spark optimize the rows' query, and look; nothing is read."""
        nodes = list(_nodes(rows._jdf.queryExecution().optimizedPlan()))
        counts = [each for each in nodes if _name(each) == _COUNT]
        counted = bool(counts) and all(_only_reads(each) for each in counts)
        return cls(counted, next(filter(None, map(_sorts, nodes)), None))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for each in _children(plan):
        yield from _nodes(each)


def _children(plan: Any) -> list[Any]:
    """What stands below. Of what is cached, and of what Spark plans while it runs, the node itself tells nothing."""
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
    return all(_name(each) in _BELOW_COUNT for child in _children(count) for each in _nodes(child))


def _sorts(plan: Any) -> str | None:
    """How the node has Spark read what is below it twice; None where it doesn't, or where that isn't Kafka's rows."""
    by = _sampled_for(plan)
    return by if by and any(_name(each) == _COUNT for each in _nodes(plan)) else None


def _sampled_for(plan: Any) -> str | None:
    name = _name(plan)
    if name == "Sort" and getattr(plan, "global")():
        return "orderBy"
    # The second is the first in what is cached.
    partitioning = {"RepartitionByExpression": "partitioning", "Exchange": "outputPartitioning"}.get(name)
    if partitioning and "RangePartitioning" in getattr(plan, partitioning)().getClass().getName():
        return "repartitionByRange"
    return None
