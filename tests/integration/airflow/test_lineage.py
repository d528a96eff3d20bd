"""What OpenLineage is told: by its provider's own extractor, and by its listener in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Asset, BaseOperator
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.proof.run_result import Tally
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from dev import ROOT
from dev.kafka import Broker
from tests.integration.airflow.conftest import FOR_EVER, NEVER, T0, Context, InSparksPlace, Resolve, at
from tests.integration.airflow.loads import publish_counted
from tests.integration.conftest import MakeTopic
from tests.patience import RUN_S

# The provider and its client, which is deprecating things of its own.
pytestmark = pytest.mark.filterwarnings("default")


def told(task: BaseOperator) -> dict[str, Any]:
    """What the provider takes from a task that has ended, as JSON."""
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.utils.state import TaskInstanceState
    from openlineage.client.serde import Serde

    lineage = ExtractorManager().extract_metadata(
        dagrun=SimpleNamespace(run_id="r"),
        task=task,
        task_instance_state=TaskInstanceState.SUCCESS,
        task_instance=SimpleNamespace(),
    )
    answer: dict[str, Any] = json.loads(Serde.to_json(lineage))
    return answer


def facets(dataset: Mapping[str, Any], side: str = "input") -> dict[str, Any]:
    """A dataset's facets without what the client itself adds to each."""
    return {
        key: {name: value for name, value in facet.items() if not name.startswith("_")}
        for key, facet in dataset[f"{side}Facets"].items()
    }


@pytest.fixture
def location(ten: str, resolve: Resolve) -> str:
    """Where the rows of the window are: in a table of their own."""
    window = resolve(ten, at(2), at(7))["window"]
    return f"s3a://lake/flights/window={window}/attempt=3-0000000a"


@pytest.fixture
def loaded(ten: str, resolve: Resolve, location: str, in_sparks_place: InSparksPlace) -> dict[str, Any]:
    """A published window. A load of it starts nothing."""
    window = resolve(ten, at(2), at(7))
    publish_counted(window, output=location)
    in_sparks_place(NEVER)
    return window


class TestResolve:
    def resolve(self, topics: Any, context: Context, **of: Any) -> KafkaResolveWindowOperator:
        pipeline = KafkaPipeline("loads", topics, **of)
        task = KafkaResolveWindowOperator(task_id="r", pipeline=pipeline, start=at(2), end=at(7))
        task.execute(context)
        return task

    def test_each_topic_is_a_dataset(self, ten: str, topic: MakeTopic, context: Context, broker: Broker) -> None:
        other = topic(config=FOR_EVER)
        answer = told(self.resolve([ten, other], context))
        assert [(each["namespace"], each["name"]) for each in answer["inputs"]] == [
            (f"kafka://{broker.bootstrap_servers}", name) for name in sorted([ten, other])
        ]
        assert answer["outputs"] == []

    def test_of_several_bootstrap_servers_the_first_names_the_cluster(
        self, ten: str, context: Context, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        servers = f"{broker.bootstrap_servers},localhost:1"
        monkeypatch.setenv(
            "AIRFLOW_CONN_TWO", json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}})
        )
        answer = told(self.resolve(ten, context, kafka_conn_id="two"))
        assert answer["inputs"][0]["namespace"] == f"kafka://{broker.bootstrap_servers}"

    def test_a_task_that_failed_before_it_saw_a_window_leaves_its_declared_outlets(self, context: Context) -> None:
        task = KafkaVerifyWindowOperator(task_id="v", window=None, outlets=[Asset("s3://lake/table")])
        with pytest.raises(AirflowFailException):
            task.execute(context)
        assert [(each["namespace"], each["name"]) for each in told(task)["outputs"]] == [("s3://lake", "table")]


class TestLoad:
    def test_topics_go_in_and_the_table_comes_out(
        self, loaded: dict[str, Any], location: str, ten: str, context: Context
    ) -> None:
        """The window's own folder is the part of the table that was written."""
        task = KafkaSparkSubmitOperator(task_id="l", window=loaded, application_args=["--output", "file:///t"])
        task.execute(context)
        answer = told(task)
        assert [each["name"] for each in answer["inputs"]] == [ten]
        (table,) = answer["outputs"]
        assert (table["namespace"], table["name"]) == ("s3://lake", "flights")
        assert facets(table, "output") == {
            "outputStatistics": {"rowCount": 5},
            "subset": {"outputCondition": {"locations": [location], "type": "location"}},
        }

    def test_one_that_failed_tells_what_it_was_to_read(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, context: Context
    ) -> None:
        window = resolve(ten, at(2), at(7))
        admin.delete_records({TopicPartition(ten, 0): 5})
        task = KafkaSparkSubmitOperator(task_id="l", window=window, application_args=["--output", "file:///t"])
        with pytest.raises(AirflowFailException):
            task.execute(context)
        answer = told(task)
        assert [each["name"] for each in answer["inputs"]] == [ten]
        assert answer["outputs"] == []

    def test_the_spark_providers_switch_gives_the_job_its_parent(
        self, ten: str, resolve: Resolve, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As on ``SparkSubmitOperator``. This ``spark-submit`` only notes its arguments, so nothing is published."""
        (tmp_path / "spark-submit").write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/arguments\n")
        (tmp_path / "spark-submit").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local"}))
        run = SimpleNamespace(conf={}, logical_date=T0, run_after=T0, clear_number=0)
        context["ti"].map_index, context["ti"].dag_run = -1, run
        context["ti"].get_template_context = lambda: context
        task = KafkaSparkSubmitOperator(
            task_id="l",
            window=resolve(ten, at(2), at(7)),
            application_args=["--output", "file:///t"],
            openlineage_inject_parent_job_info=True,
        )
        with pytest.raises(AirflowFailException, match="was counted"):
            task.execute(context)
        assert "spark.openlineage.parentJobName=d.t" in (tmp_path / "arguments").read_text().splitlines()

    @pytest.mark.parametrize(
        ("output", "namespace", "name"),
        [
            ("file:/data/flights", "file", "/data/flights"),
            ("file:///data/flights", "file", "/data/flights"),
            ("/data/flights", "file", "/data/flights"),
            ("/data/a#1?b", "file", "/data/a#1?b"),
            ("/data/window=7/flights", "file", "/data/window=7/flights"),
            ("s3a://lake/raw/flights", "s3://lake", "raw/flights"),
            ("gs://lake/flights", "gs://lake", "flights"),
            ("hdfs://name:8020/data/flights", "hdfs://name:8020", "/data/flights"),
            ("abfss://c@a.dfs.core.windows.net/flights", "abfss://c@a.dfs.core.windows.net", "flights"),
        ],
    )
    def test_its_output_is_named_by_openlineages_rules(self, output: str, namespace: str, name: str) -> None:
        from airflow_kafka_offsets.lineage.openlineage_facets import dataset_name

        assert dataset_name(f"{output}/window=w/attempt=a") == dataset_name(output) == (namespace, name)


class TestVerify:
    def assertions(self, task: KafkaVerifyWindowOperator) -> dict[str, bool]:
        (table,) = told(task)["inputs"]
        assert (table["namespace"], table["name"]) == ("s3://lake", "flights")
        found = facets(table)["dataQualityAssertions"]["assertions"]
        assert {each["params"]["sha256"] for each in found} == {task.window["sha256"]}
        return {each["assertion"]: each["success"] for each in found}

    def test_the_proof_is_three_assertions_on_the_table(self, loaded: dict[str, Any], context: Context) -> None:
        task = KafkaVerifyWindowOperator(task_id="v", window=loaded)
        task.execute(context)
        assert self.assertions(task) == {"read_is_manifest": True, "written_is_read": True, "window_tiles": True}

    def test_what_is_not_proved_is_an_assertion_that_failed(
        self, ten: str, resolve: Resolve, location: str, context: Context
    ) -> None:
        window = resolve(ten, at(2), at(7))
        publish_counted(window, output=location, read=Tally(6))
        task = KafkaVerifyWindowOperator(task_id="v", window=window)
        with pytest.raises(AirflowFailException, match="read 6 rows, wrote 5"):
            task.execute(context)
        assert self.assertions(task) == {"read_is_manifest": True, "written_is_read": False, "window_tiles": True}

    def test_a_hole_before_it_is_one_too(self, ten: str, resolve: Resolve, location: str, context: Context) -> None:
        first, window = resolve(ten, at(0), at(1)), resolve(ten, at(2), at(7))
        publish_counted(first)
        publish_counted(window, output=location)
        task = KafkaVerifyWindowOperator(task_id="v", window=window, on_hole="warn")
        task.execute(context)
        assert self.assertions(task) == {"read_is_manifest": True, "written_is_read": True, "window_tiles": False}


DAG = """
import json, os

from airflow.sdk import DAG

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator

with DAG("told", schedule=None) as dag:
    KafkaSparkSubmitOperator(task_id="load", window=json.loads(os.environ["GIVEN"]), application_args=["--output", "file:///t"])

if __name__ == "__main__":
    dag.test()
"""


def run_python(file: Path, text: str, **variables: str) -> str:
    """Run a file in a process of its own, and answer what it printed."""
    file.write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    run = subprocess.run(
        [sys.executable, file], env=environment, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return run.stdout


class TestProcesses:
    """The provider's listener runs where Airflow's task runner does. ``make matrix`` has Airflows without it."""

    pytestmark = pytest.mark.nightly("Airflow tasks in processes; the tests above see what the listener is given")

    def test_its_listener_sends_what_tasks_did(
        self, loaded: dict[str, Any], ten: str, tmp_path: Path, airflow_db: Path
    ) -> None:
        file = tmp_path / "events.jsonl"
        transport = {"type": "file", "log_file_path": str(file), "append": True}
        run_python(
            tmp_path / "told.py",
            DAG,
            GIVEN=json.dumps(loaded),
            AIRFLOW__CORE__DAGS_FOLDER=str(tmp_path),
            AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(transport),
            AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT="120",
        )
        events = [json.loads(line) for line in file.read_text().splitlines()]
        ends = {each["job"]["name"]: each for each in events if each["eventType"] == "COMPLETE"}
        assert set(ends) == {"told", "told.load"}
        (topic,) = ends["told.load"]["inputs"]
        assert topic["name"] == ten
        (table,) = ends["told.load"]["outputs"]
        assert (table["name"], facets(table, "output")["outputStatistics"]) == ("flights", {"rowCount": 5})
