"""The whole pipeline of an increment in one call: wait for new records, resolve, load, verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.operators.resolve_increment import KafkaResolveIncrementOperator
from airflow_kafka_offsets.sensors.new_data import KafkaNewDataSensor
from airflow_kafka_offsets.task_groups.load_group import KafkaLoadGroup, given, refuse_pattern

if TYPE_CHECKING:
    from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy, FuturePolicy, HolePolicy, OverlapPolicy


class KafkaIncrementLoad(KafkaLoadGroup):
    """
    A task group that loads what is new. Made by :func:`kafka_increment_load`.

    :ivar new_data: the sensor; None if the group doesn't wait.
    """

    new_data: KafkaNewDataSensor | None


def kafka_increment_load(
    *,
    pipeline: str,
    topics: str | list[str] | None = None,
    topic_pattern: str | None = None,
    group_id: str = "increment_load",
    since: str | None = None,
    wait: bool = True,
    min_records: int | None = None,
    max_age: timedelta | float | None = None,
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
) -> KafkaIncrementLoad:
    """
    Wait until there are new records, resolve them as the run's increment, load it with Spark, and verify it.

    Increments have a pipeline of their own: they go on where the last window ends, so that windows of a schedule in the
    same pipeline would be refused. The tasks are ``new_data``, ``resolve``, ``load`` and ``verify``, below
    ``group_id``. Put tasks that do more with the increment after the group::

        clicks = kafka_increment_load(pipeline="clicks_increments", topics="clicks", application_args=[...])
        clicks >> KafkaCommitOffsetsOperator(task_id="commit", window=clicks.window, group="clicks-loader")

    An argument that isn't given comes from ``default_args`` (the group's, else the Dag's), else from the operator.

    :param pipeline: names the ledger's folder. (templated)
    :param topics: one or more topics. (templated)
    :param topic_pattern: instead of ``topics``, with ``wait=False``: a regular expression that a topic's whole name
        must match. (templated)
    :param group_id: the task group's id.
    :param since: where the first increment starts: ``earliest`` by default, ``latest``, or an instant in ISO-8601 with
        a zone. (templated)
    :param wait: wait, deferred, until enough records have arrived since the last published window. Until the first
        increment is resolved, all records in the logs are new, wherever it is going to start.
    :param min_records: see :class:`~airflow_kafka_offsets.sensors.new_data.KafkaNewDataSensor`, also for ``max_age``.
        By default one record is enough.
    :param isolation_level: which records count: ``read_committed`` by default. (templated)
    :param on_data_loss: see :class:`~airflow_kafka_offsets.operators.resolve_increment.KafkaResolveIncrementOperator`,
        also for ``on_future_record`` and ``on_overlap``. By default each fails the task.
    :param explain_gaps: see :class:`~airflow_kafka_offsets.operators.verify_window.KafkaVerifyWindowOperator`, also for
        ``on_hole``. By default gaps aren't explained, and a hole that nobody loads fails the task.
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)
    :param outlets: assets whose events the task ``verify`` emits, so that Dags that they start find the rows proved.
    :param default_args: arguments of all four tasks, such as ``retries``, ``retry_delay`` and ``pool``.
    :param load: all other arguments of :class:`~airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator`.
    :raises ConfigurationError: when ``topic_pattern`` is given and the group waits.
    """
    refuse_pattern(wait, topic_pattern)
    cluster, policy = given(kafka_conn_id=kafka_conn_id), given(on_data_loss=on_data_loss)
    records = cluster | given(topics=topics, isolation_level=isolation_level, ledger_root=ledger_root)
    resolving = policy | given(
        topic_pattern=topic_pattern, since=since, on_future_record=on_future_record, on_overlap=on_overlap
    )
    waiting = given(min_records=min_records, max_age=max_age)
    proving = given(explain_gaps=explain_gaps, on_hole=on_hole, outlets=outlets)
    of_all: Any = dict(default_args or {})
    group = KafkaIncrementLoad(group_id=group_id, default_args=of_all)
    with group:
        group.new_data = (
            KafkaNewDataSensor(task_id="new_data", pipeline=pipeline, deferrable=True, **records, **waiting)
            if wait
            else None
        )
        resolve = KafkaResolveIncrementOperator(task_id="resolve", pipeline=pipeline, **records, **resolving)
        group.load_what_is_pinned(group.new_data, resolve, cluster | policy | load, cluster | proving)
    return group
