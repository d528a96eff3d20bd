"""The whole pipeline of one window in one call: wait, resolve, load, verify."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.window_complete import KafkaWindowCompleteSensor

if TYPE_CHECKING:
    from airflow.sdk.definitions.xcom_arg import XComArg

    from airflow_kafka_offsets.offsets.completeness import IdlePolicy
    from airflow_kafka_offsets.offsets.windows import TruncationPolicy


class KafkaWindowLoad(TaskGroup):
    """
    A task group that loads one window. Made by :func:`kafka_window_load`.

    :ivar complete: the sensor; None where the group doesn't wait.
    :ivar resolve: pins the window.
    :ivar load: runs Spark on it.
    :ivar verify: proves it.
    """

    complete: KafkaWindowCompleteSensor | None
    resolve: KafkaResolveWindowOperator
    load: KafkaSparkSubmitOperator
    verify: KafkaVerifyWindowOperator

    @property
    def window(self) -> XComArg:
        """The reference to the window: what other tasks take as ``window=``."""
        return self.resolve.output


def kafka_window_load(
    *,
    pipeline: str,
    topics: str | list[str],
    group_id: str = "window_load",
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    wait: bool = True,
    allowed_lateness: timedelta | float = 0,
    idle: IdlePolicy = "wait",
    idle_after: timedelta | float | None = None,
    isolation_level: str = IsolationLevel.READ_COMMITTED,
    on_truncation: TruncationPolicy = "fail",
    ledger_root: str | None = None,
    kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
    default_args: Mapping[str, Any] | None = None,
    **load: Any,
) -> KafkaWindowLoad:
    """
    Wait until the run's window is complete, resolve it, load it with Spark, and verify it.

    Each run loads the window of its own interval, in a backfill too. The tasks are ``complete``, ``resolve``, ``load``
    and ``verify``, below ``group_id``. What else is to be done with the window follows them::

        orders = kafka_window_load(pipeline="orders_hourly", topics="orders", application_args=[...])
        orders >> KafkaCommitOffsetsOperator(task_id="commit", window=orders.window, group="orders-hourly")

    :param pipeline: names the ledger's folder. (templated)
    :param topics: a topic or several. (templated)
    :param group_id: the task group's id.
    :param start: explicit start, inclusive, ISO-8601 with a zone; with ``end`` instead of the run's own interval.
        (templated)
    :param end: explicit end, exclusive. (templated)
    :param wait: wait, deferred, until the window's end has passed on every partition.
    :param allowed_lateness: see :class:`~airflow_kafka_offsets.sensors.window_complete.KafkaWindowCompleteSensor`, as
        ``idle`` and ``idle_after``. By default an idle partition is waited for.
    :param isolation_level: which records count. (templated)
    :param on_truncation: what to do when records of the window are gone: ``fail`` (default), or ``clamp``.
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)
    :param default_args: of all four tasks, such as ``retries`` and ``pool``.
    :param load: all other arguments of
        :class:`~airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator`.
    """
    kafka: dict[str, Any] = {"topics": topics, "start": start, "end": end, "isolation_level": isolation_level}
    kafka["kafka_conn_id"] = kafka_conn_id
    of_all: Any = dict(default_args or {})
    group = KafkaWindowLoad(group_id=group_id, default_args=of_all)
    with group:
        group.resolve = KafkaResolveWindowOperator(
            task_id="resolve", pipeline=pipeline, ledger_root=ledger_root, on_truncation=on_truncation, **kafka
        )
        group.load = KafkaSparkSubmitOperator(
            task_id="load", window=group.window, kafka_conn_id=kafka_conn_id, on_truncation=on_truncation, **load
        )
        group.verify = KafkaVerifyWindowOperator(task_id="verify", window=group.window, kafka_conn_id=kafka_conn_id)
        group.complete = None
        if wait:
            group.complete = KafkaWindowCompleteSensor(
                task_id="complete",
                allowed_lateness=allowed_lateness,
                idle=idle,
                idle_after=idle_after,
                deferrable=True,
                **kafka,
            )
            group.complete >> group.resolve
        group.resolve >> group.load >> group.verify
    return group
