"""The whole pipeline of one window in one call: wait, resolve, load, verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from airflow_kafka_offsets.sensors.window_complete import KafkaWindowCompleteSensor
from airflow_kafka_offsets.task_groups.load_group import KafkaLoadGroup, given, refuse_pattern

if TYPE_CHECKING:
    from airflow_kafka_offsets.conditions.window_complete import IdlePolicy
    from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy, FuturePolicy, HolePolicy, OverlapPolicy


class KafkaWindowLoad(KafkaLoadGroup):
    """
    A task group that loads one window. Made by :func:`kafka_window_load`.

    :ivar complete: the sensor; None if the group doesn't wait.
    """

    complete: KafkaWindowCompleteSensor | None


def kafka_window_load(
    *,
    pipeline: str,
    topics: str | list[str] | None = None,
    topic_pattern: str | None = None,
    group_id: str = "window_load",
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    wait: bool = True,
    allowed_lateness: timedelta | float | None = None,
    idle: IdlePolicy | None = None,
    idle_after: timedelta | float | None = None,
    isolation_level: str | None = None,
    on_data_loss: DataLossPolicy | None = None,
    on_future_record: FuturePolicy | None = None,
    on_overlap: OverlapPolicy | None = None,
    explain_gaps: bool | None = None,
    on_hole: HolePolicy | None = None,
    ledger_root: str | None = None,
    kafka_conn_id: str | None = None,
    outlets: Sequence[Any] | None = None,
    default_args: Mapping[str, Any] | None = None,
    **load: Any,
) -> KafkaWindowLoad:
    """
    Wait until the run's window is complete, resolve it, load it with Spark, and verify it.

    Each run loads the window of its own interval, also in a backfill. The tasks are ``complete``, ``resolve``, ``load``
    and ``verify``, below ``group_id``. Put tasks that do more with the window after the group::

        orders = kafka_window_load(pipeline="orders_hourly", topics="orders", application_args=[...])
        orders >> KafkaCommitOffsetsOperator(task_id="commit", window=orders.window, group="orders-hourly")

    An argument that isn't given comes from ``default_args`` (the group's, else the Dag's), else from the operator.

    :param pipeline: names the ledger's folder. (templated)
    :param topics: one or more topics. (templated)
    :param topic_pattern: instead of ``topics``, with ``wait=False``: a regular expression that a topic's whole name
        must match. (templated)
    :param group_id: the task group's id.
    :param start: explicit start, inclusive, ISO-8601 with a zone; use with ``end``, instead of the run's own interval.
        (templated)
    :param end: explicit end, exclusive. (templated)
    :param wait: wait, deferred, until the window's end has passed on every partition.
    :param allowed_lateness: see :class:`~airflow_kafka_offsets.sensors.window_complete.KafkaWindowCompleteSensor`, also
        for ``idle`` and ``idle_after``. By default the sensor waits for idle partitions.
    :param isolation_level: which records count: ``read_committed`` by default. (templated)
    :param on_data_loss: see :class:`~airflow_kafka_offsets.operators.resolve_window.KafkaResolveWindowOperator`, also
        for ``on_future_record`` and ``on_overlap``. By default each fails the task.
    :param explain_gaps: see :class:`~airflow_kafka_offsets.operators.verify_window.KafkaVerifyWindowOperator`, also for
        ``on_hole``. By default gaps aren't explained, and a hole that nobody loads fails the task.
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)
    :param outlets: assets whose events the task ``verify`` emits, so that Dags that they start find the window proved.
    :param default_args: arguments of all four tasks, such as ``retries``, ``retry_delay`` and ``pool``.
    :param load: all other arguments of :class:`~airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator`.
    :raises ConfigurationError: when ``topic_pattern`` is given and the group waits.
    """
    refuse_pattern(wait, topic_pattern)
    cluster, policy = given(kafka_conn_id=kafka_conn_id), given(on_data_loss=on_data_loss)
    window = cluster | given(topics=topics, start=start, end=end, isolation_level=isolation_level)
    resolving = policy | given(
        topic_pattern=topic_pattern, ledger_root=ledger_root, on_future_record=on_future_record, on_overlap=on_overlap
    )
    waiting = given(allowed_lateness=allowed_lateness, idle=idle, idle_after=idle_after)
    proving = given(explain_gaps=explain_gaps, on_hole=on_hole, outlets=outlets)
    of_all: Any = dict(default_args or {})
    group = KafkaWindowLoad(group_id=group_id, default_args=of_all)
    with group:
        group.complete = (
            KafkaWindowCompleteSensor(task_id="complete", deferrable=True, **window, **waiting) if wait else None
        )
        resolve = KafkaResolveWindowOperator(task_id="resolve", pipeline=pipeline, **window, **resolving)
        group.load_what_is_pinned(group.complete, resolve, cluster | policy | load, cluster | proving)
    return group
