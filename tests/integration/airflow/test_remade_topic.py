"""A topic that is made anew between the last check before Spark reads and the read, through each way to load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from dev.kafka import Broker
from dev.spark_packages import CONNECTOR
from tests.integration.airflow.conftest import FOR_EVER, T0_MS, DagFrom
from tests.integration.airflow.example_dags import home, run_script
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.ledger.loads import windows_of

__all__ = ["home"]

pytestmark = [
    pytest.mark.nightly("a driver for each load; spark/test_source.py refuses topics that were made anew"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(900),
]

APPLICATION = str(Path(__file__).with_name("remade_topic.py"))
WAYS = ("ours", "classic", "pyspark")

DAG_FILE = """
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator

with DAG("remade", schedule=None):
    window = {{
        way: KafkaResolveWindowOperator(
            task_id=f"resolve_{{way}}",
            pipeline=KafkaPipeline(way, topic),
            start="2026-11-20T06:00:00Z",
            end="2026-11-20T07:00:00Z",
        )
        for way, topic in {topics!r}.items()
    }}
    arguments = ["{output}", "{brokers}"]
    KafkaSparkSubmitOperator(
        task_id="ours",
        window=window["ours"].output,
        application={application!r},
        application_args=arguments,
        packages={connector!r},
    )
    prepared = {{
        way: KafkaPrepareLoadOperator(task_id=f"prepare_{{way}}", window=window[way].output).output
        for way in ("classic", "pyspark")
    }}
    SparkSubmitOperator(
        task_id="classic",
        application={application!r},
        application_args=arguments,
        packages={connector!r},
        conf=prepared["classic"]["conf"],
    )

    @task.pyspark(conn_id="spark_default", config_kwargs={{"spark.jars.packages": {connector!r}}})
    def pyspark(prepared, spark):
        from airflow_kafka_offsets.spark import pinned_window
        from tests.integration.airflow.remade_topic import load_remade

        window = prepared["ref"]
        pinned = pinned_window(spark, window["manifest"], window["sha256"], prepared["attempt"])
        load_remade(pinned, *arguments, **{{"kafka.bootstrap.servers": arguments[1]}})

    pyspark(prepared["pyspark"])
"""

RUN = """
import json
from airflow.dag_processing.dagbag import DagBag
run = DagBag({file!r}, bundle_name="dags-folder").dags["remade"].test()
print(json.dumps({{ti.task_id: str(ti.state) for ti in run.get_task_instances()}}))
"""


def test_is_published_by_none_of_them(
    home: Path,
    dag_from: DagFrom,
    topic: MakeTopic,
    produce: Produce,
    broker: Broker,
) -> None:
    """S16: as many records, of the same time, at the same offsets."""
    topics = {}
    for way in WAYS:
        topics[way] = topic(config=FOR_EVER)
        produce(topics[way], 0, [(T0_MS + n * 1000, None, b"x") for n in range(10)])
    brokers = broker.bootstrap_servers
    output, application = (home / "output").as_uri(), APPLICATION
    names = {"topics": topics, "output": output, "brokers": brokers, "application": application, "connector": CONNECTOR}
    dag_from("remade", DAG_FILE.format(**names))

    result = run_script(RUN.format(file=str(home / "dags" / "remade.py")))
    said = result.stdout + result.stderr
    states = json.loads(result.stdout.splitlines()[-1])
    assert {way: states[f"resolve_{way}"] for way in WAYS} == dict.fromkeys(WAYS, "success"), said[-5000:]
    assert {way: states[way] for way in WAYS} == dict.fromkeys(WAYS, "failed"), said[-5000:]
    for way in WAYS:
        assert f"opic {topics[way]} was re-created" in said
        ledger = ledger_of(home, way)
        (window,) = windows_of(ledger)
        assert window.publication is None
        (attempt,) = window.attempts
        assert ledger.attempt(window.name, attempt.number).failure() is not None


def ledger_of(home: Path, pipeline: str) -> Ledger:
    from airflow.sdk import ObjectStoragePath

    return Ledger(ObjectStoragePath((home / "ledger").as_uri()), pipeline)
