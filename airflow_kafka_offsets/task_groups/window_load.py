"""The whole pipeline of one window in one call: wait, resolve, load, verify."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from airflow_kafka_offsets.sensors.window_complete import KafkaWindowCompleteSensor
from airflow_kafka_offsets.task_groups.load_group import KafkaLoadGroup, checked_pipeline, given

if TYPE_CHECKING:
    from airflow_kafka_offsets.conditions.window_complete import IdlePolicy
    from airflow_kafka_offsets.offsets.windows.policies import FuturePolicy, HolePolicy


def kafka_window_load(
    *,
    pipeline: KafkaPipeline | str,
    topics: str | Collection[str] | None = None,
    group_id: str = "window_load",
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    split: timedelta | None = None,
    wait: bool = True,
    allowed_lateness: timedelta | float | None = None,
    idle: IdlePolicy | None = None,
    idle_after: timedelta | float | None = None,
    on_future_record: FuturePolicy | None = None,
    explain_gaps: bool | None = None,
    on_hole: HolePolicy | None = None,
    outlets: Sequence[Any] | None = None,
    default_args: Mapping[str, Any] | None = None,
    **load: Any,
) -> KafkaLoadGroup:
    """
    Wait until the run's window is complete, resolve it, load it with Spark, and verify it.

    Each run loads the window of its own interval, also in a backfill. The tasks are ``complete``, ``resolve``, ``load``
    and ``verify``, below ``group_id``. Put tasks that do more with the window after the group::

        table = TableLoad("s3://lake/orders", value_format="string")
        orders = kafka_window_load(pipeline="orders_hourly", topics="orders", application=table)
        orders >> KafkaCommitOffsetsOperator(task_id="commit", window=orders.window, group="orders-hourly")

    An argument that isn't given comes from ``default_args`` (the group's, else the Dag's), else from the operator.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`; or only its name, which names the
        ledger's folder. (templated)
    :param topics: with a name: one or more topics. (templated)
    :param group_id: the task group's id.
    :param start: explicit start, inclusive, ISO-8601 with a zone; use with ``end``, instead of the run's own interval.
        (templated)
    :param end: explicit end, exclusive. (templated)
    :param split: see :class:`~airflow_kafka_offsets.operators.resolve_window.KafkaResolveWindowOperator`: the interval
        is split into windows of this length, which one Spark run loads. By default it is one window.
    :param wait: wait, deferred, until the window's end has passed on every partition.
    :param allowed_lateness: see :class:`~airflow_kafka_offsets.sensors.window_complete.KafkaWindowCompleteSensor`, also
        for ``idle`` and ``idle_after``. By default the sensor waits for idle partitions.
    :param on_future_record: see :class:`~airflow_kafka_offsets.operators.resolve_window.KafkaResolveWindowOperator`. By
        default such a record fails the task.
    :param explain_gaps: see :class:`~airflow_kafka_offsets.operators.verify_window.KafkaVerifyWindowOperator`, also for
        ``on_hole``. By default gaps aren't explained, and a hole fails the task.
    :param outlets: assets whose events the task ``verify`` emits, so that Dags that they start find the window proved.
    :param default_args: arguments of all four tasks, such as ``retries``, ``retry_delay`` and ``pool``.
    :param load: all other arguments of :class:`~airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator`.
    :raises ConfigurationError: when the pipeline has a ``topic_pattern`` and the group waits.
    """
    loaded = checked_pipeline(kafka_window_load, pipeline, topics, wait, load)
    window = {"pipeline": loaded} | given(start=start, end=end)
    waiting = given(allowed_lateness=allowed_lateness, idle=idle, idle_after=idle_after)
    resolving = given(on_future_record=on_future_record, split=split)
    proving = given(explain_gaps=explain_gaps, on_hole=on_hole, outlets=outlets)
    of_all: Any = dict(default_args or {})
    group = KafkaLoadGroup(group_id=group_id, default_args=of_all)
    with group:
        sensor = KafkaWindowCompleteSensor(task_id="complete", deferrable=True, **window, **waiting) if wait else None
        resolve = KafkaResolveWindowOperator(task_id="resolve", **window, **resolving)
        group.load_what_is_pinned(sensor, resolve, load, proving)
    return group
