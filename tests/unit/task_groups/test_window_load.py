"""The task group: which tasks it has, in which order, and what reaches them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.serialization.serialized_objects import DagSerialization

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.task_groups.window_load import KafkaWindowLoad, kafka_window_load


def group(of_dag: dict[str, Any] | None = None, **arguments: Any) -> tuple[DAG, KafkaWindowLoad]:
    with DAG("d", default_args=of_dag or {}) as dag:
        return dag, kafka_window_load(group_id="g", pipeline="p", **({"topics": "t"} | arguments))


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
        on_data_loss="load_rest",
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
    assert (loaded.resolve.on_data_loss, loaded.load.on_data_loss) == ("load_rest", "load_rest")
    assert (loaded.load.packages, loaded.load.application_args, loaded.load.allow_gaps) == (
        "connector",
        ["--output", "o"],
        True,
    )


def test_what_is_not_given_is_what_the_dag_says_for_all_its_tasks() -> None:
    of_dag = {"kafka_conn_id": "k", "ledger_root": "s3://l", "on_data_loss": "load_rest", "idle": "fail", "retries": 5}
    of_dag |= {"isolation_level": "read_uncommitted", "on_future_record": "warn", "deferrable": True}
    _, loaded = group(of_dag, default_args={"retries": 3})
    assert loaded.complete is not None
    tasks = (loaded.complete, loaded.resolve, loaded.load, loaded.verify)
    assert {(each.retries, each.kafka_conn_id) for each in tasks} == {(3, "k")}
    assert (loaded.complete.idle, loaded.complete.isolation_level) == ("fail", "read_uncommitted")
    assert (loaded.resolve.ledger_root, loaded.resolve.on_future_record) == ("s3://l", "warn")
    assert (loaded.resolve.on_data_loss, loaded.load.on_data_loss) == ("load_rest", "load_rest")


def test_verify_follows_the_load_and_so_has_nothing_to_wait_for() -> None:
    _, loaded = group({"deferrable": True})
    assert loaded.verify.deferrable is False


def test_what_is_proved_is_what_other_dags_start_by() -> None:
    table = Asset("s3://lake/orders")
    _, loaded = group(outlets=[table], explain_gaps=True, on_future_record="warn")
    assert (loaded.verify.outlets, loaded.load.outlets) == ([table], [])
    assert (loaded.verify.explain_gaps, loaded.resolve.on_future_record) == (True, "warn")


def test_a_pattern_of_topics_is_resolved_but_can_not_be_waited_for() -> None:
    _, loaded = group(topics=None, topic_pattern=r"orders\..*", wait=False)
    assert loaded.resolve.topic_pattern == r"orders\..*"
    with pytest.raises(ConfigurationError, match="wait=False"):
        group(topics=None, topic_pattern="x")


def test_the_scheduler_and_the_ui_get_the_group_its_order_and_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever read a Dag as the scheduler does has switched links off, for the whole process.
    monkeypatch.setattr(DagSerialization, "_load_operator_extra_links", True)
    dag, _ = group()
    shown = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert sorted(shown.task_group.children["g"].children) == ["g.complete", "g.load", "g.resolve", "g.verify"]
    assert shown.get_task("g.load").upstream_task_ids == {"g.resolve"}
    links = {name: sorted(shown.get_task(f"g.{name}").extra_links) for name in ("resolve", "load", "verify")}
    assert links == {"resolve": ["Window"], "load": ["Spark UI", "Window"], "verify": ["Window"]}
