"""The whole pipeline of one window in one call: wait, resolve, load, verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.window_complete import KafkaWindowCompleteSensor

if TYPE_CHECKING:
    from airflow.sdk.definitions.xcom_arg import XComArg

    from airflow_kafka_offsets.conditions.window_complete import IdlePolicy
    from airflow_kafka_offsets.ledger.holes import HolePolicy
    from airflow_kafka_offsets.ledger.pinning import OverlapPolicy
    from airflow_kafka_offsets.offsets.windows.ranges import DataLossPolicy
    from airflow_kafka_offsets.pipelines.snapshot_maker import FuturePolicy


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

    Each run loads the window of its own interval, in a backfill too. The tasks are ``complete``, ``resolve``, ``load``
    and ``verify``, below ``group_id``. What else is to be done with the window follows them::

        orders = kafka_window_load(pipeline="orders_hourly", topics="orders", application_args=[...])
        orders >> KafkaCommitOffsetsOperator(task_id="commit", window=orders.window, group="orders-hourly")

    An argument that isn't given is that of ``default_args``, the group's or else the Dag's, or the operator's default.

    :param pipeline: names the ledger's folder. (templated)
    :param topics: a topic or several. (templated)
    :param topic_pattern: instead of ``topics``, with ``wait=False``: a regular expression that whole names match.
        (templated)
    :param group_id: the task group's id.
    :param start: explicit start, inclusive, ISO-8601 with a zone; with ``end`` instead of the run's own interval.
        (templated)
    :param end: explicit end, exclusive. (templated)
    :param wait: wait, deferred, until the window's end has passed on every partition.
    :param allowed_lateness: see :class:`~airflow_kafka_offsets.sensors.window_complete.KafkaWindowCompleteSensor`, as
        ``idle`` and ``idle_after``. By default an idle partition is waited for.
    :param isolation_level: which records count: ``read_committed`` by default. (templated)
    :param on_data_loss: see :class:`~airflow_kafka_offsets.operators.resolve_window.KafkaResolveWindowOperator`, as
        ``on_future_record`` and ``on_overlap``. By default each fails.
    :param explain_gaps: see :class:`~airflow_kafka_offsets.operators.verify_window.KafkaVerifyWindowOperator`, as
        ``on_hole``. By default gaps aren't explained, and a hole that nobody loads fails.
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)
    :param outlets: assets whose events verify gives, so that Dags which they start find the window proved.
    :param default_args: arguments of all four tasks, such as ``retries``, ``retry_delay`` and ``pool``.
    :param load: all other arguments of
        :class:`~airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator`.
    :raises ConfigurationError: for a pattern of topics that is to be waited for.
    """
    if wait and topic_pattern is not None:
        raise ConfigurationError(
            "The group's sensor takes topics by name: give topics= instead of topic_pattern=, or set wait=False."
        )
    cluster = _given(kafka_conn_id=kafka_conn_id)
    window = cluster | _given(topics=topics, start=start, end=end, isolation_level=isolation_level)
    policy = _given(on_data_loss=on_data_loss)
    resolving = policy | _given(
        topic_pattern=topic_pattern, ledger_root=ledger_root, on_future_record=on_future_record, on_overlap=on_overlap
    )
    waiting = _given(allowed_lateness=allowed_lateness, idle=idle, idle_after=idle_after)
    of_all: Any = dict(default_args or {})
    group = KafkaWindowLoad(group_id=group_id, default_args=of_all)
    with group:
        group.resolve = KafkaResolveWindowOperator(task_id="resolve", pipeline=pipeline, **window, **resolving)
        group.load = KafkaSparkSubmitOperator(task_id="load", window=group.window, **cluster, **policy, **load)
        group.verify = KafkaVerifyWindowOperator(
            task_id="verify",
            window=group.window,
            deferrable=False,  # the load precedes it
            **cluster,
            **_given(explain_gaps=explain_gaps, on_hole=on_hole, outlets=outlets),
        )
        group.complete = None
        if wait:
            group.complete = KafkaWindowCompleteSensor(task_id="complete", deferrable=True, **window, **waiting)
            group.complete >> group.resolve
        group.resolve >> group.load >> group.verify
    return group


def _given(**arguments: Any) -> dict[str, Any]:
    """What the caller gave: anything else would come before the default arguments of the group and the Dag."""
    return {name: value for name, value in arguments.items() if value is not None}
