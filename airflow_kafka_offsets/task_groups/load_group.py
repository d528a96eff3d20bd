"""What the task groups share: a window is pinned, loaded with Spark and verified.

Which window it is, and what is waited for before, each group says itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from inspect import signature
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, as_pipeline
from airflow_kafka_offsets.operators.pipeline_operator import KafkaResolvingOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.wait_sensor import KafkaPipelineSensor
from airflow_kafka_offsets.spark.table_load import TableLoad

if TYPE_CHECKING:
    from airflow.sdk.definitions.xcom_arg import XComArg


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


def given(**arguments: Any) -> dict[str, Any]:
    """Only what the caller gave: anything else would override the default arguments of the group and the Dag."""
    return {name: value for name, value in arguments.items() if value is not None}


def checked_pipeline(
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
