"""The task group of increments: which tasks it has, in which order, and what reaches them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.resolve_increment import KafkaResolveIncrementOperator
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.spark.values.formats import ValueFormat
from airflow_kafka_offsets.task_groups.increment_load import kafka_increment_load
from airflow_kafka_offsets.task_groups.load_group import KafkaLoadGroup

GIVEN: dict[str, Any] = {"pipeline": KafkaPipeline("p", "t"), "application": TableLoad("o")}


def group(of_dag: dict[str, Any] | None = None, **arguments: Any) -> tuple[DAG, KafkaLoadGroup]:
    with DAG("d", default_args=of_dag or {}) as dag:
        return dag, kafka_increment_load(group_id="g", **(GIVEN | arguments))


def order(dag: DAG) -> list[str]:
    return [task.task_id for task in dag.topological_sort()]


def test_it_waits_resolves_loads_and_verifies_and_others_follow_with_the_increment() -> None:
    dag, loaded = group()
    with dag:
        loaded >> KafkaCommitOffsetsOperator(task_id="commit", window=loaded.window, group="g")
    assert order(dag) == ["g.new_data", "g.resolve", "g.load", "g.verify", "commit"]
    assert isinstance(loaded.resolve, KafkaResolveIncrementOperator)
    assert loaded.sensor is not None
    assert (loaded.sensor.deferrable, loaded.verify.deferrable) == (True, False)


def test_of_a_name_and_topics_it_makes_the_pipeline() -> None:
    _, loaded = group(pipeline="p", topics=["t", "u"])
    assert loaded.sensor is not None
    assert loaded.sensor.pipeline == loaded.resolve.pipeline == KafkaPipeline("p", ["t", "u"])


def test_without_waiting_it_begins_with_resolving() -> None:
    dag, loaded = group(wait=False)
    assert order(dag) == ["g.resolve", "g.load", "g.verify"]
    assert loaded.sensor is None


def test_arguments_reach_the_tasks_that_they_are_for() -> None:
    table = Asset("s3://lake/clicks")
    clicks = KafkaPipeline("p", "t", ledger_root="s3://l", kafka_conn_id="k", isolation_level="read_uncommitted")
    _, loaded = group(
        {"poke_interval": 7},
        pipeline=clicks,
        since="latest",
        min_records=100,
        max_age=timedelta(hours=1),
        on_data_loss="load_rest",
        on_hole="warn",
        outlets=[table],
        default_args={"retries": 3},
        application=TableLoad("{{ o }}", sink="delta", flatten=True, value_format=ValueFormat("json", "a INT")),
    )
    waits: Any = loaded.sensor
    assert isinstance(loaded.resolve, KafkaResolveIncrementOperator)
    tasks = (waits, loaded.resolve, loaded.load, loaded.verify)
    assert {each.retries for each in tasks} == {3}
    assert waits.pipeline == loaded.resolve.pipeline == clicks
    assert (waits.min_records, waits.max_age) == (100, timedelta(hours=1))
    assert waits.poke_interval == 7
    assert (loaded.resolve.since, loaded.load.on_data_loss) == ("latest", "load_rest")
    assert (loaded.verify.on_hole, loaded.verify.outlets, loaded.load.outlets) == ("warn", [table], [])
    assert loaded.load.application_args == [
        "--output",
        "{{ o }}",
        "--sink",
        "delta",
        "--value-format",
        "json",
        "schema=a INT",
        "--flatten",
    ]


def test_a_pattern_of_topics_is_resolved_but_can_not_be_waited_for() -> None:
    pattern = KafkaPipeline("p", topic_pattern=r"orders\..*")
    _, loaded = group(pipeline=pattern, wait=False)
    assert loaded.resolve.pipeline == pattern
    with pytest.raises(ConfigurationError, match="wait=False"):
        group(pipeline=pattern)
