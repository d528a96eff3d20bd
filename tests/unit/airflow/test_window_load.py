"""The task group: which tasks it has, in which order, and what reaches them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.task_groups.window_load import KafkaWindowLoad, kafka_window_load


def group(**arguments: Any) -> tuple[DAG, KafkaWindowLoad]:
    with DAG("d") as dag:
        return dag, kafka_window_load(group_id="g", pipeline="p", topics="t", **arguments)


def order(dag: DAG) -> list[str]:
    return [task.task_id for task in dag.topological_sort()]


def test_it_waits_resolves_loads_and_verifies_and_others_follow_with_the_window() -> None:
    dag, loaded = group()
    with dag:
        loaded >> KafkaCommitOffsetsOperator(task_id="commit", window=loaded.window, group="g")
    assert order(dag) == ["g.complete", "g.resolve", "g.load", "g.verify", "commit"]
    assert dag.get_task("commit").upstream_task_ids == {"g.resolve", "g.verify"}
    assert loaded.complete is not None
    assert loaded.complete.deferrable


def test_without_waiting_it_begins_with_resolving() -> None:
    dag, loaded = group(wait=False)
    assert order(dag) == ["g.resolve", "g.load", "g.verify"]
    assert loaded.complete is None


def test_arguments_reach_the_tasks_that_they_are_for() -> None:
    _, loaded = group(
        start="{{ a }}",
        end="{{ b }}",
        idle="assume_after",
        idle_after=timedelta(hours=1),
        on_truncation="clamp",
        kafka_conn_id="k",
        default_args={"retries": 3, "pool": "spark"},
        packages="connector",
        application_args=["--output", "o"],
        allow_gaps=True,
    )
    assert loaded.complete is not None
    tasks = (loaded.complete, loaded.resolve, loaded.load, loaded.verify)
    assert {(each.retries, each.pool, each.kafka_conn_id) for each in tasks} == {(3, "spark", "k")}
    assert (loaded.complete.start, loaded.resolve.end) == ("{{ a }}", "{{ b }}")
    assert (loaded.complete.idle, loaded.complete.idle_after) == ("assume_after", timedelta(hours=1))
    assert (loaded.resolve.on_truncation, loaded.load.on_truncation) == ("clamp", "clamp")
    assert (loaded.load.packages, loaded.load.application_args, loaded.load.allow_gaps) == (
        "connector",
        ["--output", "o"],
        True,
    )
