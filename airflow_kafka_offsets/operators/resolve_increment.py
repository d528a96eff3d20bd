"""Resolve the records that arrived since the last run to exact offsets, kept in the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.operators.pipeline_operator import KafkaResolvingOperator
from airflow_kafka_offsets.operators.snapshot import as_of
from airflow_kafka_offsets.pipelines.window_pinner import ResolvedWindow, WindowPinner

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaResolveIncrementOperator(KafkaResolvingOperator):
    """
    Pins the run's increment: all records from the end of the last increment to the current visible end of the logs.

    No schedule is needed: increments follow each other, without gaps, in the order in which their runs resolve them. A
    retry or a cleared run gets its own increment again. If the load of an increment fails, the next run doesn't take
    it over: clear the failed run.

    :param since: where the first increment starts: ``earliest`` (default), ``latest``, or an instant in ISO-8601 with a
        time zone. If the ledger already has windows, it starts at the end of the last one. (templated)

    The other arguments are those of :class:`~airflow_kafka_offsets.operators.pipeline_operator.KafkaResolvingOperator`.

    XCom: see :class:`~airflow_kafka_offsets.references.window_ref.WindowRef`.
    """

    template_fields: Sequence[str] = (*KafkaResolvingOperator.template_fields, "since")

    def __init__(self, *, since: str = "earliest", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.since = since

    def resolve(self, pinner: WindowPinner, context: Context) -> ResolvedWindow:
        ti = context["ti"]
        run = "\0".join((ti.dag_id, ti.run_id, ti.task_id, str(ti.map_index)))
        return pinner.pin_increment(hashlib.sha256(run.encode()).hexdigest()[:16], as_of(self.since))
