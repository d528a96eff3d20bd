"""The whole pipeline of an increment in one call: wait for new records, resolve, load, verify."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve_increment import KafkaResolveIncrementOperator
from airflow_kafka_offsets.sensors.new_data import KafkaNewDataSensor
from airflow_kafka_offsets.task_groups.load_group import KafkaLoadGroup, checked_pipeline, given

if TYPE_CHECKING:
    from airflow_kafka_offsets.offsets.windows.policies import FuturePolicy, HolePolicy


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
    explain_gaps: bool | None = None,
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
    :param min_records: see :class:`~airflow_kafka_offsets.sensors.new_data.KafkaNewDataSensor`, also for ``max_age``.
        By default one record is enough.
    :param on_future_record: see
        :class:`~airflow_kafka_offsets.operators.resolve_increment.KafkaResolveIncrementOperator`. By default such a
        record fails the task.
    :param explain_gaps: see :class:`~airflow_kafka_offsets.operators.verify_window.KafkaVerifyWindowOperator`, also for
        ``on_hole``. By default gaps aren't explained, and a hole fails the task.
    :param outlets: assets whose events the task ``verify`` emits, so that Dags that they start find the rows proved.
    :param default_args: arguments of all four tasks, such as ``retries``, ``retry_delay`` and ``pool``.
    :param load: all other arguments of :class:`~airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator`.
    :raises ConfigurationError: when the pipeline has a ``topic_pattern`` and the group waits.
    """
    loaded = checked_pipeline(kafka_increment_load, pipeline, topics, wait, load)
    waiting = given(min_records=min_records, max_age=max_age)
    resolving = given(since=since, on_future_record=on_future_record)
    proving = given(explain_gaps=explain_gaps, on_hole=on_hole, outlets=outlets)
    of_all: Any = dict(default_args or {})
    group = KafkaLoadGroup(group_id=group_id, default_args=of_all)
    with group:
        sensor = KafkaNewDataSensor(task_id="new_data", pipeline=loaded, deferrable=True, **waiting) if wait else None
        resolve = KafkaResolveIncrementOperator(task_id="resolve", pipeline=loaded, **resolving)
        group.load_what_is_pinned(sensor, resolve, load, proving)
    return group
