"""What the task tells while Spark runs, of a real run that is slow enough to be watched."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_kafka_offsets.operators.links import SparkUILink, WindowLink
from dev import ROOT, jars
from dev.airflow_home import environment
from dev.kafka import Broker
from tests.integration.airflow.conftest import RECORDS_A_DAY, Resolve

ROWS = 2 * RECORDS_A_DAY
LINE = re.compile(rf"([\d,]+) of {ROWS} records \((\d+) %\), ([\d,.]+) a second, ([\d.]+) s left")

# In a process of its own, as on a worker: its output is the task's log. Everything is asked ten times as often as of an
# hour's load, and executors report as often.
LOAD = """
import json, sys
from types import SimpleNamespace
from airflow_kafka_offsets.operators import spark_progress
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
for name in ("_LOOK_S", "_ASK_S", "_TELL_S"):
    setattr(spark_progress, name, getattr(spark_progress, name) / 10)
arguments, pushed = json.loads(sys.argv[1]), {}
ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", try_number=1, max_tries=0)
ti.xcom_push = lambda key, value: pushed.update({key: value})
conf = {"spark.ui.enabled": "true", "spark.executor.heartbeatInterval": "1s"}
report = KafkaSparkSubmitOperator(task_id="load", durable=False, conf=conf, **arguments).execute({"ti": ti})
print(json.dumps([report, pushed]))
"""


def test_a_slow_load_tells_how_far_it_is_and_where_to_look(
    flights: None, broker: Broker, resolve: Resolve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path, broker.bootstrap_servers).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW__LOGGING__LOGGING_LEVEL", "INFO")
    window = resolve("flights", "2013-03-09T00:00:00Z", "2013-03-10T00:00:00Z")
    connector = jars.retrieve("spark-kafka-4.0.0", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0")
    arguments = {
        "window": window,
        "application": str(Path(__file__).with_name("slow_load.py")),
        "application_args": [(tmp_path / "table").as_uri()],
        "jars": ",".join(str(each) for each in sorted(connector.glob("*.jar"))),
    }
    command = [sys.executable, "-c", LOAD, json.dumps(arguments)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    log = run.stdout + run.stderr
    assert run.returncode == 0, log[-3000:]
    report, links = json.loads(run.stdout.splitlines()[-1])

    told = [tuple(float(each.replace(",", "")) for each in line) for line in LINE.findall(log)]
    shares = [share for _, share, _, _ in told]
    assert shares == sorted(shares)
    assert any(0 < share < 100 for share in shares), log[-3000:]
    assert all(rate < ROWS for _, _, rate, _ in told)
    assert f"{ROWS} records are read" in log
    assert "No progress" not in log
    traced = [line for line in log.splitlines() if "custom metric" in line or "ClassNotFoundException" in line]
    assert not traced, f"{len(traced)} lines such as {traced[0]}: the UI's threads don't see what --jars brings"

    assert WindowLink().xcom_key not in links, "Airflow shows no link to a file"
    assert f"is in {window['manifest'].rpartition('/')[0]}" in log
    ui = links[SparkUILink().xcom_key]
    assert f"Spark application {report['application_id']} runs, its UI is {ui}" in log

    assert (report["offsets"], report["read"], report["written"], report["gaps"]) == (ROWS, ROWS, ROWS, 0)
    assert report["records_a_second"] == pytest.approx(ROWS / report["seconds"], abs=1)
    assert f"{ROWS} rows in {report['output']}; read, written and counted in" in log
