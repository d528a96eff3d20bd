"""Events of outlet assets: what they hold, and that a Dag which is scheduled on them works on the same offsets."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references import WindowRef
from dev import ROOT
from dev.airflow_services import AirflowServices
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import Context, Resolve, at
from tests.patience import PATIENCE_S

TABLE = Asset("table", uri="s3://lake/table")
DEADLINE_S = 600.0
EXTENT = {"start": "2026-11-20T06:00:02.000Z", "end": "2026-11-20T06:00:07.000Z"}


@pytest.fixture
def events(context: Context) -> OutletEventAccessors:
    """What a task's context takes events by: Airflow's own."""
    context["outlet_events"] = OutletEventAccessors()
    return context["outlet_events"]


class TestExtra:
    def test_that_of_a_resolved_window_is_its_reference(
        self, ten: str, context: Context, events: OutletEventAccessors
    ) -> None:
        window = KafkaResolveWindowOperator(
            task_id="r", pipeline=KafkaPipeline("loads", ten), start=at(2), end=at(7), outlets=[TABLE]
        ).execute(context)
        assert events[TABLE].extra == window | EXTENT
        assert json.loads(json.dumps(window)) == window

    def test_that_of_a_loaded_window_adds_attempt_rows_and_output(
        self, loaded: dict[str, Any], context: Context, events: OutletEventAccessors
    ) -> None:
        report = KafkaSparkSubmitOperator(
            task_id="l", window=loaded, outlets=[TABLE], application_args=["--output", "file:///t"]
        ).execute(context)
        assert (report["rows"], report["output"]) == (5, "file:/out")
        assert events[TABLE].extra == report | loaded | EXTENT

    def test_that_of_a_proved_window_adds_the_proof(
        self, loaded: dict[str, Any], context: Context, events: OutletEventAccessors
    ) -> None:
        report = KafkaVerifyWindowOperator(task_id="v", window=loaded, outlets=[TABLE]).execute(context)
        assert events[TABLE].extra == loaded | report | EXTENT
        assert (report["verdict"], report["read"], report["output"]) == ("read = written = log", 5, "file:/out")

    def test_it_is_taken_wherever_a_window_is(
        self, loaded: dict[str, Any], context: Context, events: OutletEventAccessors
    ) -> None:
        KafkaVerifyWindowOperator(task_id="v", window=loaded, outlets=[TABLE]).execute(context)
        extra = dict(events[TABLE].extra)
        assert WindowRef.from_json(extra) == WindowRef.from_json(loaded)
        assert (
            KafkaSparkSubmitOperator(task_id="l", window=extra, application_args=["--output", "file:///t"]).execute(
                context
            )["rows"]
            == 5
        )
        assert KafkaCommitOffsetsOperator(task_id="c", window=extra, group="g").execute(context)["committed"] == 1

    def test_what_else_is_noted_on_the_event_stays(
        self, loaded: dict[str, Any], context: Context, events: OutletEventAccessors
    ) -> None:
        events[TABLE].extra["owner"] = "me"
        KafkaVerifyWindowOperator(task_id="v", window=loaded, outlets=[TABLE]).execute(context)
        assert (events[TABLE].extra["owner"], events[TABLE].extra["sha256"]) == ("me", loaded["sha256"])

    def test_an_alias_gets_none(self, loaded: dict[str, Any], context: Context, events: OutletEventAccessors) -> None:
        KafkaVerifyWindowOperator(task_id="v", window=loaded, outlets=[AssetAlias("some")]).execute(context)
        assert len(events) == 0

    def test_a_window_that_is_not_proved_gets_none(
        self, ten: str, resolve: Resolve, context: Context, events: OutletEventAccessors
    ) -> None:
        operator = KafkaVerifyWindowOperator(task_id="v", window=resolve(ten, at(2), at(7)), outlets=[TABLE])
        with pytest.raises(AirflowFailException):
            operator.execute(context)
        assert len(events) == 0


LOADER = """
from airflow.sdk import DAG, Asset

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator

names = ("topics", "start", "end", "ledger_root", "output", "path", "jars")
given = {each: "{{ dag_run.conf['%s'] }}" % each for each in names}

with DAG("loader", schedule=None):
    loads = KafkaPipeline("loads", given["topics"], ledger_root=given["ledger_root"])
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=loads, start=given["start"], end=given["end"])
    KafkaSparkSubmitOperator(
        task_id="load",
        window=window.output,
        application_args=["--output", given["output"]],
        jars=given["jars"],
        env_vars={"PATH": given["path"]},
        outlets=[Asset("flights_loaded")],
    )
"""
READER = """
from datetime import datetime

from airflow.sdk import DAG, Asset, task

loaded = Asset("flights_loaded")

with DAG("reader", schedule=[loaded]):

    @task
    def read(triggering_asset_events=None):
        from pyspark.sql import SparkSession

        from airflow_kafka_offsets.spark import read_published

        (event,) = triggering_asset_events[loaded]
        bounds = {each: datetime.fromisoformat(event.extra[each]) for each in ("start", "end")}
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        rows = read_published(spark, event.extra["ledger_root"] + "/" + event.extra["pipeline"], **bounds)
        found = sorted(each["offset"] for each in rows.select("offset").collect())
        spark.stop()
        return found

    read()
"""
BY_PARTITION = """
from datetime import datetime

from airflow.sdk import DAG, Asset, CronPartitionTimetable, PartitionedAssetTimetable, task

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator

hour = Asset("hour_resolved")

# Runs that are asked for, and none of the schedule's own.
with DAG("by_partition", schedule=CronPartitionTimetable("0 * * * *", timezone="UTC"), start_date=datetime(2999, 1, 1)):
    given = {each: "{{ dag_run.conf['%s'] }}" % each for each in ("topics", "ledger_root")}
    hours = KafkaPipeline("hours", given["topics"], ledger_root=given["ledger_root"])
    KafkaResolveWindowOperator(task_id="resolve", pipeline=hours, outlets=[hour])

with DAG("by_partition_after", schedule=PartitionedAssetTimetable(assets=hour)):

    @task
    def report(triggering_asset_events=None, partition_key=None):
        return [partition_key, [each.extra for each in triggering_asset_events[hour]]]

    report()
"""


@pytest.fixture(scope="module")
def airflow(airflow_services: AirflowServices) -> Iterator[AirflowServices]:
    """With the Dags of these tests, and the example Dag as it is."""
    example = (ROOT / "dags" / "on_window_loaded.py").read_text(encoding="utf-8")
    texts = {"loader": LOADER, "reader": READER, "by_partition": BY_PARTITION, "on_window_loaded": example}
    files = {airflow_services.dags_folder / f"{name}.py": text for name, text in texts.items()}
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    yield airflow_services
    for file in files:
        file.unlink()


class TestScheduling:
    """On a whole Airflow: its scheduler makes the runs, and its workers read the events."""

    @pytest.mark.nightly("a driver under a whole Airflow; the test below has a window's event start a Dag")
    def test_dags_after_a_load_prove_commit_and_read_the_same_offsets(
        self, airflow: AirflowServices, ten: str, ledger_root: Path, tmp_path: Path
    ) -> None:
        """The example Dag ``on_window_loaded``, and one that reads the rows; the load is Spark's."""
        make_ready(airflow, "flights_loaded", "loader", "on_window_loaded", "reader")
        conf = {
            "topics": ten,
            "start": at(2),
            "end": at(7),
            "ledger_root": ledger_root.as_uri(),
            "output": (tmp_path / "table").as_uri(),
            "path": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "jars": jars_of("connector"),
        }
        run_id = airflow.trigger("loader", conf)
        after = first_run(airflow, "on_window_loaded")
        assert airflow.runs("loader")[run_id] == "success"
        (window,) = result(airflow, "on_window_loaded", after, "windows")
        load = result(airflow, "loader", run_id, "load")
        told = {each: load[each] for each in ("rows", "output", "attempt")}
        assert window == window | result(airflow, "loader", run_id, "resolve") | told | EXTENT
        assert result(airflow, "on_window_loaded", after, "bounds") == [[EXTENT["start"], EXTENT["end"]]]
        assert result(airflow, "on_window_loaded", after, "verify")["offsets"] == 5
        assert result(airflow, "on_window_loaded", after, "commit") == {
            "group": "flights-warehouse",
            "committed": 1,
            "kept": 0,
        }
        assert result(airflow, "reader", first_run(airflow, "reader"), "read") == [2, 3, 4, 5, 6]

    @pytest.mark.nightly("a minute of an Airflow; waits/test_watchers.py has an event start a Dag there")
    def test_a_dag_by_partition_gets_the_key_with_the_window(
        self, airflow: AirflowServices, ten: str, ledger_root: Path
    ) -> None:
        """The event has the key of the run that it comes from."""
        make_ready(airflow, "hour_resolved", "by_partition", "by_partition_after")
        key = "2026-11-20T06:00:00"
        conf = {"topics": ten, "ledger_root": ledger_root.as_uri()}
        body = {"logical_date": None, "partition_key": key, "conf": conf}
        httpx.post(f"{airflow.url}/api/v2/dags/by_partition/dagRuns", json=body, timeout=PATIENCE_S).raise_for_status()
        after = first_run(airflow, "by_partition_after")
        found, (window,) = result(airflow, "by_partition_after", after, "report")
        assert (found, window["window"]) == (key, "20261120T060000000Z_20261120T070000000Z")
        assert WindowRef.from_json(window).offsets == 10


def make_ready(airflow: AirflowServices, asset: str, *dag_ids: str) -> None:
    """Wait until the Dags are there and their asset is active, without which a task with it as an outlet fails."""
    for dag_id in dag_ids:
        airflow.unpause(dag_id)
    airflow.wait_until(lambda: airflow.query("SELECT 1 FROM asset_active WHERE name = ?", asset), DEADLINE_S)


def first_run(airflow: AirflowServices, dag_id: str) -> str:
    """Wait until a Dag's only run has succeeded; its id."""
    airflow.wait_until(lambda: list(airflow.runs(dag_id).values()) == ["success"], DEADLINE_S)
    return next(iter(airflow.runs(dag_id)))


def result(airflow: AirflowServices, dag_id: str, run_id: str, task_id: str) -> Any:
    """What a task returned."""
    found = "SELECT value FROM xcom WHERE dag_id = ? AND run_id = ? AND task_id = ? AND key = 'return_value'"
    ((value,),) = airflow.query(found, dag_id, run_id, task_id)
    return json.loads(value)
