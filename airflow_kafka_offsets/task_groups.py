"""Task groups: a window, or an increment, in one call: wait, resolve, load with Spark, verify."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from inspect import signature
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, as_pipeline
from airflow_kafka_offsets.operators.resolve import (
    KafkaResolveIncrementOperator,
    KafkaResolveWindowOperator,
    KafkaResolvingOperator,
)
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.pipeline_sensors import (
    KafkaNewDataSensor,
    KafkaPipelineSensor,
    KafkaWindowCompleteSensor,
)
from airflow_kafka_offsets.spark.table_load import TableLoad

if TYPE_CHECKING:
    from airflow.sdk.definitions.xcom_arg import XComArg

    from airflow_kafka_offsets.arguments import FuturePolicy, HolePolicy
    from airflow_kafka_offsets.conditions.window_complete import IdlePolicy


class KafkaLoadGroup(TaskGroup):
    """
    A task group that loads a window.

    :ivar sensor: waits for the window; None if the group doesn't wait.
    :ivar resolve: pins the window.
    :ivar load: runs Spark on it.
    :ivar verify: proves it.
    """

    sensor: KafkaPipelineSensor | None
    resolve: KafkaResolvingOperator
    load: KafkaSparkSubmitOperator
    verify: KafkaVerifyWindowOperator

    @property
    def window(self) -> XComArg:
        """The reference to the window, which other tasks take as ``window=``."""
        return self.resolve.output

    def load_what_is_pinned(
        self,
        sensor: KafkaPipelineSensor | None,
        resolve: KafkaResolvingOperator,
        load: dict[str, Any],
        verify: dict[str, Any],
    ) -> None:
        """Load and verify what a task pins. Called within the group.

        :param load: arguments of the load.
        :param verify: arguments of verify.
        """
        self.sensor, self.resolve = sensor, resolve
        self.load = KafkaSparkSubmitOperator(task_id="load", window=self.window, **load)
        # It runs after the load, so there is nothing to defer for.
        self.verify = KafkaVerifyWindowOperator(task_id="verify", window=self.window, deferrable=False, **verify)
        if sensor is not None:
            sensor >> resolve
        resolve >> self.load >> self.verify


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
    :param split: see :class:`~airflow_kafka_offsets.operators.resolve.KafkaResolveWindowOperator`: the interval
        is split into windows of this length, which one Spark run loads. By default it is one window.
    :param wait: wait, deferred, until the window's end has passed on every partition.
    :param allowed_lateness: see :class:`~airflow_kafka_offsets.sensors.pipeline_sensors.KafkaWindowCompleteSensor`,
        also for ``idle`` and ``idle_after``. By default the sensor waits for idle partitions.
    :param on_future_record: see :class:`~airflow_kafka_offsets.operators.resolve.KafkaResolveWindowOperator`. By
        default such a record fails the task.
    :param on_hole: see :class:`~airflow_kafka_offsets.operators.verify_window.KafkaVerifyWindowOperator`. By default a
        hole fails the task.
    :param outlets: assets whose events the task ``verify`` emits, so that Dags that they start find the window proved.
    :param default_args: arguments of all four tasks, such as ``retries``, ``retry_delay`` and ``pool``.
    :param load: all other arguments of :class:`~airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator`.
    :raises ConfigurationError: when the pipeline has a ``topic_pattern`` and the group waits.
    """
    loaded = _checked_pipeline(kafka_window_load, pipeline, topics, wait, load)
    window = {"pipeline": loaded} | _given(start=start, end=end)
    waiting = _given(allowed_lateness=allowed_lateness, idle=idle, idle_after=idle_after)
    resolving = _given(on_future_record=on_future_record, split=split)
    proving = _given(on_hole=on_hole, outlets=outlets)
    of_all: Any = dict(default_args or {})
    group = KafkaLoadGroup(group_id=group_id, default_args=of_all)
    with group:
        sensor = KafkaWindowCompleteSensor(task_id="complete", deferrable=True, **window, **waiting) if wait else None
        resolve = KafkaResolveWindowOperator(task_id="resolve", **window, **resolving)
        group.load_what_is_pinned(sensor, resolve, load, proving)
    return group


def kafka_increment_load(
    *,
    pipeline: KafkaPipeline | str,
    topics: str | Collection[str] | None = None,
    group_id: str = "increment_load",
    since: str | None = None,
    wait: bool = True,
    min_records: int | None = None,
    max_age: timedelta | float | None = None,
    on_future_record: FuturePolicy | None = None,
    on_hole: HolePolicy | None = None,
    outlets: Sequence[Any] | None = None,
    default_args: Mapping[str, Any] | None = None,
    **load: Any,
) -> KafkaLoadGroup:
    """
    Wait until there are new records, resolve them as the run's increment, load it with Spark, and verify it.

    Increments have a pipeline of their own: they go on where the last window ends, so that windows of a schedule in the
    same pipeline would cross them, and be refused. The tasks are ``new_data``, ``resolve``, ``load`` and ``verify``,
    below ``group_id``. Put tasks that do more with the increment after the group::

        table = TableLoad("s3://lake/clicks", value_format="string")
        clicks = kafka_increment_load(pipeline="clicks_increments", topics="clicks", application=table)
        clicks >> KafkaCommitOffsetsOperator(task_id="commit", window=clicks.window, group="clicks-loader")

    An argument that isn't given comes from ``default_args`` (the group's, else the Dag's), else from the operator.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`; or only its name, which names the
        ledger's folder. (templated)
    :param topics: with a name: one or more topics. (templated)
    :param group_id: the task group's id.
    :param since: where the first increment starts: ``earliest`` by default, ``latest``, an instant in ISO-8601 with a
        zone, or a group's commits (``"group connect-orders"``). (templated)
    :param wait: wait, deferred, until enough records have arrived since the last published window. Until the first
        increment is resolved, all records in the logs are new, wherever it is going to start.
    :param min_records: see :class:`~airflow_kafka_offsets.sensors.pipeline_sensors.KafkaNewDataSensor`, also for
        ``max_age``. By default one record is enough.
    :param on_future_record: see
        :class:`~airflow_kafka_offsets.operators.resolve.KafkaResolveIncrementOperator`. By default such a
        record fails the task.
    :param on_hole: see :class:`~airflow_kafka_offsets.operators.verify_window.KafkaVerifyWindowOperator`. By default a
        hole fails the task.
    :param outlets: assets whose events the task ``verify`` emits, so that Dags that they start find the rows proved.
    :param default_args: arguments of all four tasks, such as ``retries``, ``retry_delay`` and ``pool``.
    :param load: all other arguments of :class:`~airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator`.
    :raises ConfigurationError: when the pipeline has a ``topic_pattern`` and the group waits.
    """
    loaded = _checked_pipeline(kafka_increment_load, pipeline, topics, wait, load)
    waiting = _given(min_records=min_records, max_age=max_age)
    resolving = _given(since=since, on_future_record=on_future_record)
    proving = _given(on_hole=on_hole, outlets=outlets)
    of_all: Any = dict(default_args or {})
    group = KafkaLoadGroup(group_id=group_id, default_args=of_all)
    with group:
        sensor = KafkaNewDataSensor(task_id="new_data", pipeline=loaded, deferrable=True, **waiting) if wait else None
        resolve = KafkaResolveIncrementOperator(task_id="resolve", pipeline=loaded, **resolving)
        group.load_what_is_pinned(sensor, resolve, load, proving)
    return group


def _given(**arguments: Any) -> dict[str, Any]:
    """Only what the caller gave: anything else would override the default arguments of the group and the Dag."""
    return {name: value for name, value in arguments.items() if value is not None}


def _checked_pipeline(
    group: Callable[..., KafkaLoadGroup],
    pipeline: KafkaPipeline | str,
    topics: str | Collection[str] | None,
    wait: bool,
    load: Mapping[str, Any],
) -> KafkaPipeline:
    """
    The pipeline of a group, whose arguments fit it.

    :param group: the function that makes the group.
    :param load: the arguments that the group doesn't know itself.
    :raises ConfigurationError: when one of them is the pipeline's, or neither the group nor its load has it; when the
        group waits for topics that a pattern names; or a table needs a registry that the pipeline doesn't have.
    """
    known = set(signature(group).parameters)
    for each in KafkaSparkSubmitOperator.__mro__[:-1]:
        known |= set(signature(each).parameters)
    for name in load:
        if name in KafkaPipeline.template_fields:
            raise ConfigurationError(
                f'{name}= is the pipeline\'s: pipeline=KafkaPipeline("orders_hourly", "orders", {name}=...).'
            )
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f": did you mean {near[0]}=?" if near else "."
            raise ConfigurationError(f"{group.__name__} has no argument {name}={hint}")
    found, table = as_pipeline(pipeline, topics), load.get("application")
    if wait and found.topic_pattern is not None:
        raise ConfigurationError(
            "The group's sensor takes topics by name: give the pipeline topics= instead of topic_pattern=, or set "
            "wait=False."
        )
    if isinstance(table, TableLoad):
        table.refuse_without_registry(found.schema_registry_conn_id)
    return found
