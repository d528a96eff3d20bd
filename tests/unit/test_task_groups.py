"""The task groups: which tasks they have, in which order, and what reaches them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.serialization.serialized_objects import DagSerialization

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.spark.values.formats import ValueFormat
from airflow_kafka_offsets.task_groups import KafkaLoadGroup, kafka_increment_load, kafka_window_load

GIVEN: dict[str, Any] = {"pipeline": KafkaPipeline("p", "t"), "application": TableLoad("o")}
Make = Callable[..., KafkaLoadGroup]
WAITS: dict[Make, str] = {kafka_window_load: "complete", kafka_increment_load: "new_data"}
"""The groups, and the tasks that wait in them."""
each_group = pytest.mark.parametrize("make", WAITS)


def group(
    of_dag: dict[str, Any] | None = None, make: Make = kafka_window_load, **arguments: Any
) -> tuple[DAG, KafkaLoadGroup]:
    with DAG("d", default_args=of_dag or {}) as dag:
        return dag, make(group_id="g", **(GIVEN | arguments))


def order(dag: DAG) -> list[str]:
    return [task.task_id for task in dag.topological_sort()]


@each_group
def test_it_waits_resolves_loads_and_verifies_and_others_follow_with_the_window(make: Make) -> None:
    dag, loaded = group(make=make)
    with dag:
        loaded >> KafkaCommitOffsetsOperator(task_id="commit", window=loaded.window, group="g")
    assert order(dag) == [f"g.{WAITS[make]}", "g.resolve", "g.load", "g.verify", "commit"]
    assert dag.get_task("commit").upstream_task_ids == {"g.resolve", "g.verify"}
    assert loaded.sensor is not None
    assert loaded.sensor.deferrable


@each_group
def test_without_waiting_it_begins_with_resolving(make: Make) -> None:
    dag, loaded = group(make=make, wait=False)
    assert order(dag) == ["g.resolve", "g.load", "g.verify"]
    assert loaded.sensor is None


@pytest.mark.parametrize(
    ("misspelt", "meant"), [("topcs", "topics"), ("conector", "connector"), ("aplication_args", "application_args")]
)
def test_a_misspelt_argument_is_named_with_the_one_that_was_meant(misspelt: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"window_load has no argument {misspelt}=: did you mean {meant}="):
        group(**{misspelt: "x"})


def test_arguments_of_every_operator_below_the_load_are_known() -> None:
    _, loaded = group(retries=7, pool="spark", conf={"a": "b"}, env_vars={"A": "b"}, on_data_loss="load_rest")
    assert (loaded.load.retries, loaded.load.pool) == (7, "spark")


def test_arguments_reach_the_tasks_that_they_are_for() -> None:
    _, loaded = group(
        start="{{ a }}",
        end="{{ b }}",
        idle="assume_after",
        idle_after=timedelta(hours=1),
        on_data_loss="load_rest",
        default_args={"retries": 3, "pool": "spark"},
        packages="connector",
        application=TableLoad("{{ o }}", sink="delta", flatten=True, value_format=ValueFormat("json", "a INT")),
        allow_gaps=True,
    )
    waits: Any = loaded.sensor
    tasks = (waits, loaded.resolve, loaded.load, loaded.verify)
    assert {(each.retries, each.pool) for each in tasks} == {(3, "spark")}
    assert (waits.start, loaded.resolve.end) == ("{{ a }}", "{{ b }}")
    assert (waits.idle, waits.idle_after) == ("assume_after", timedelta(hours=1))
    assert (loaded.load.on_data_loss, loaded.load.packages, loaded.load.application_args, loaded.load.allow_gaps) == (
        "load_rest",
        "connector",
        ["--output", "{{ o }}", "--sink", "delta", "--value-format", "json", "schema=a INT", "--flatten"],
        True,
    )


def test_arguments_of_an_increment_reach_the_tasks_that_they_are_for() -> None:
    clicks = KafkaPipeline("p", "t", ledger_root="s3://l", kafka_conn_id="k", isolation_level="read_uncommitted")
    _, loaded = group(
        {"poke_interval": 7},
        kafka_increment_load,
        pipeline=clicks,
        since="latest",
        min_records=100,
        max_age=timedelta(hours=1),
        on_data_loss="load_rest",
        on_hole="warn",
        default_args={"retries": 3},
    )
    waits: Any = loaded.sensor
    resolves: Any = loaded.resolve
    assert {each.retries for each in (waits, resolves, loaded.load, loaded.verify)} == {3}
    assert waits.pipeline == resolves.pipeline == clicks
    assert (waits.min_records, waits.max_age, waits.poke_interval) == (100, timedelta(hours=1), 7)
    assert (resolves.since, loaded.load.on_data_loss, loaded.verify.on_hole) == ("latest", "load_rest", "warn")


@each_group
def test_of_a_name_and_topics_it_makes_the_pipeline(make: Make) -> None:
    _, loaded = group(make=make, pipeline="p", topics=["t", "u"])
    assert loaded.sensor is not None
    assert loaded.sensor.pipeline == loaded.resolve.pipeline == KafkaPipeline("p", ["t", "u"])


@pytest.mark.parametrize("argument", ["kafka_conn_id", "isolation_level", "ledger_root", "topic_pattern"])
def test_what_the_pipeline_says_is_refused_beside_it(argument: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{argument}= is the pipeline's: pipeline=KafkaPipeline\("):
        group(**{argument: "x"})


def test_what_is_not_given_is_what_the_dag_says_for_all_its_tasks() -> None:
    of_dag = {"on_data_loss": "load_rest", "idle": "fail", "idle_after": 60, "retries": 5, "on_future_record": "warn"}
    _, loaded = group(of_dag, default_args={"retries": 3})
    waits: Any = loaded.sensor
    tasks = (waits, loaded.resolve, loaded.load, loaded.verify)
    assert {each.retries for each in tasks} == {3}
    assert (waits.idle, loaded.resolve.on_future_record) == ("fail", "warn")
    assert loaded.load.on_data_loss == "load_rest"


def test_verify_follows_the_load_and_so_has_nothing_to_wait_for() -> None:
    _, loaded = group({"deferrable": True})
    assert loaded.verify.deferrable is False


def test_what_is_proved_is_what_other_dags_start_by() -> None:
    table = Asset("s3://lake/orders")
    _, loaded = group(outlets=[table], on_hole="warn", on_future_record="warn")
    assert (loaded.verify.outlets, loaded.load.outlets) == ([table], [])
    assert (loaded.verify.on_hole, loaded.resolve.on_future_record) == ("warn", "warn")


@each_group
def test_a_pattern_of_topics_is_resolved_but_can_not_be_waited_for(make: Make) -> None:
    pattern = KafkaPipeline("p", topic_pattern=r"orders\..*")
    _, loaded = group(make=make, pipeline=pattern, wait=False)
    assert loaded.resolve.pipeline == pattern
    with pytest.raises(ConfigurationError, match="wait=False"):
        group(make=make, pipeline=pattern)


def test_the_scheduler_and_the_ui_get_the_group_its_order_and_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever read a Dag as the scheduler does has switched links off, for the whole process.
    monkeypatch.setattr(DagSerialization, "_load_operator_extra_links", True)
    dag, _ = group()
    shown = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert sorted(shown.task_group.children["g"].children) == ["g.complete", "g.load", "g.resolve", "g.verify"]
    assert shown.get_task("g.load").upstream_task_ids == {"g.resolve"}
    links = {name: sorted(shown.get_task(f"g.{name}").extra_links) for name in ("resolve", "load", "verify")}
    assert links == {"resolve": ["Window"], "load": ["Spark UI", "Window"], "verify": ["Window"]}
