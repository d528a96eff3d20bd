"""What the guides, the reference and the README show of Dags: each block is run, and the tasks it names are there.

What they show of Spark jobs is run by ``tests/integration/spark/test_doc_blocks.py``.
"""

from __future__ import annotations

import importlib
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_kafka_offsets.get_provider_info import get_provider_info
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.spark.values.formats import ValueFormat
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit, Run
from tests.integration.client.cases.workload import new_name
from tests.integration.doc_blocks import Block, guide_blocks, name_of, replaced

LEFT_OUT = {
    "submit = ...": 'submit = EmptyOperator(task_id="submit")',
    "...,": 'task_id="load", window=window.output,',
}
"""What stands for the dots of a block."""

IMPORTS = """
from airflow.sdk import DAG, Asset, task
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.spark.table_load import TableLoad
"""
"""Of a Dag that is shown without any."""

GROUPS = {"window": "complete", "increment": "new_data"}
"""What ``kafka_window_load`` and ``kafka_increment_load`` wait for, before their other tasks."""

BLOCKS = [block for block in guide_blocks() if not block.is_of_spark]
CHECK = ("docs/guides/waits.md", 5)
"""Asks Kafka for a group's lag."""

WITHOUT_TASKS = {("docs/guides/clusters.md", 3): "conf", ("docs/guides/waits.md", 6): "caught_up"}
"""What other blocks make."""

PRODUCER = ("docs/guides/quickstart.md", 1)
"""Writes records."""

DAG_FILES = [block for block in BLOCKS if "with DAG(" in block.code]
FRAGMENTS = [block for block in BLOCKS if block not in DAG_FILES and block.key not in (CHECK, PRODUCER)]


def public_names() -> dict[str, Any]:
    """The package's operators, sensors, triggers and task group, and what Dags have from Airflow and Python."""
    info = get_provider_info()
    modules = [
        name for kind in ("operators", "sensors", "triggers") for each in info[kind] for name in each["python-modules"]
    ]
    found = {
        name: thing
        for module in (*modules, "airflow_kafka_offsets.task_groups")
        for name, thing in vars(importlib.import_module(module)).items()
        if getattr(thing, "__module__", None) == module
    }
    ours = (DAG, Asset, AssetWatcher, EmptyOperator, KafkaPipeline, TableLoad, ValueFormat, datetime, timedelta)
    return found | {each.__name__: each for each in ours} | {"UTC": UTC, "task": task}


def tasks_in(code: str) -> set[str]:
    """The tasks that a block makes, by its text."""
    named = {*re.findall(r'\btask_id="(\w+)"', code), *re.findall(r"@task\s+def (\w+)", code)}
    for kind, group_id in re.findall(r'\bkafka_(\w+)_load\(\s*(?:group_id="(\w+)")?', code):
        tasks = (GROUPS[kind], "resolve", "load", "verify")
        named |= {f"{group_id or f'{kind}_load'}.{each}" for each in tasks}
    return named


@pytest.mark.parametrize("block", FRAGMENTS, ids=name_of)
def test_a_fragment_makes_the_tasks_that_it_names(block: Block) -> None:
    names = public_names()
    with DAG("of_the_page") as dag:
        orders = KafkaPipeline("orders", "orders")
        names["window"] = names["KafkaResolveWindowOperator"](task_id="window", pipeline=orders)
        block.run(names, LEFT_OUT)
    tasks = tasks_in(replaced(block.code, LEFT_OUT))
    assert set(dag.task_ids) == tasks | {"window"}
    assert tasks or names[WITHOUT_TASKS[block.key]]


@pytest.mark.filterwarnings("default")  # Airflow's own code
@pytest.mark.parametrize("block", DAG_FILES, ids=name_of)
def test_a_dag_has_the_tasks_that_it_names(block: Block, tmp_path: Path, airflow_db: Path) -> None:
    """As Airflow loads it from a file; what a block leaves out are imports."""
    from airflow.dag_processing.dagbag import DagBag

    file = tmp_path / "dag_of_the_page.py"
    whole = "import" in block.code
    file.write_text(block.code if whole else f"{IMPORTS}{block.code}", encoding="utf-8")
    bag = DagBag(str(file), bundle_name="dags-folder")
    assert not bag.import_errors
    (dag,) = bag.dags.values()
    assert set(dag.task_ids) == tasks_in(block.code)


def test_a_condition_is_checked(ten: str, commit: Commit, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (each for each in BLOCKS if each.key == CHECK)
    group = f"reads-{ten}"
    commit(group, ten, 3)
    names: dict[str, Any] = {}
    block.run(names, {"loader": group})
    assert names["progress"].done
    assert capsys.readouterr().out.startswith("True ")


def test_records_are_written(broker: Broker, run: Run) -> None:
    (block,) = (each for each in BLOCKS if each.key == PRODUCER)
    name, names = new_name("orders"), {}
    block.run(names, {"broker-1:9092": broker.bootstrap_servers, '"orders"': f'"{name}"'})
    names["producer"].close()
    names["admin"].close()
    rows = json.loads(run("list", name, "-o", "json")[1])
    assert (len(rows), sum(row["offset"] for row in rows)) == (3, 10_801)
