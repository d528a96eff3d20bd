"""Resolve the records that arrived since the last run to exact offsets, kept in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import constant
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.operators.pipeline_operator import KafkaResolvingOperator
from airflow_kafka_offsets.operators.snapshot import as_of
from airflow_kafka_offsets.pipelines.resolver import ResolvedWindow, Resolver

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaResolveIncrementOperator(KafkaResolvingOperator):
    """
    Pins the run's increment: all records from the end of the last window to the current visible end of the logs.

    No schedule is needed: increments follow each other, without gaps, in the order in which their runs resolve them. A
    retry or a cleared run gets its own increment again. If the load of an increment fails, the next run doesn't take
    it over: clear the failed run.

    :param since: where the pipeline begins, if it has no window yet: ``earliest`` (default), ``latest``, an instant in
        ISO-8601 with a time zone, or where a group's commits are: ``"group connect-orders"``. (templated)

    The other arguments are those of :class:`~airflow_kafka_offsets.operators.pipeline_operator.KafkaPipelineOperator`.

    XCom: see :class:`~airflow_kafka_offsets.references.window_ref.WindowRef`.
    """

    template_fields: Sequence[str] = (*KafkaResolvingOperator.template_fields, "since")

    def __init__(self, *, since: str = "earliest", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.since = since
        _beginning(constant(since, "earliest"))

    def resolve(self, resolver: Resolver, context: Context) -> ResolvedWindow:
        ti = context["ti"]
        run = "/".join((ti.dag_id, ti.run_id, ti.task_id))
        mapped = "" if ti.map_index in (None, -1) else f"/{ti.map_index}"
        return resolver.increment(f"{run}{mapped}", _beginning(self.since))


def _beginning(since: str) -> AsOf:
    word, _, group = since.partition(" ")
    return AsOf(AsOfKind.GROUP, group=group) if word == AsOfKind.GROUP and group else as_of(since)
