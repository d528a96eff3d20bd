"""What the task tells while Spark runs, of a real run that is slow enough to be watched."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_kafka_offsets.lineage.links import SparkUILink, WindowLink
from dev import ROOT
from dev.airflow_home import environment
from dev.kafka import Broker
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import RECORDS_A_DAY, Resolve
from tests.integration.doc_blocks import DOCS, blocks_of
from tests.patience import RUN_S

pytestmark = pytest.mark.nightly("a driver of its own; unit/submission/test_batch.py has what is shown")

ROWS = 2 * RECORDS_A_DAY
TASKS = "8"
"""Of the stage that sleeps, in ``slow_load.py``."""
LINE = re.compile(r"\[Stage \d+:[=> ]*\((\d+) \+ \d+\) / (\d+)\]")

# In a process of its own, as on a worker: its output is the task's log. Everything is said ten times as often as of an
# hour's load, and two tasks run at a time.
LOAD = """
import json, sys
from types import SimpleNamespace
from airflow_kafka_offsets.submission import batch
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
batch._LOOK_S /= 10
arguments, pushed = json.loads(sys.argv[1]), {}
ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", try_number=1, max_tries=0)
ti.xcom_push = lambda key, value: pushed.update({key: value})
conf = {"spark.ui.enabled": "true", "spark.ui.consoleProgress.update.interval": "1s"}
report = KafkaSparkSubmitOperator(task_id="load", durable=False, conf=conf, **arguments).execute({"ti": ti})
print(json.dumps([report, pushed]))
"""


def like(line: str) -> str:
    """A pattern for a line of another run."""
    if line.startswith("[Stage "):
        return LINE.pattern
    return re.sub(r"app\\-[\d\\-]+|http\S+", r"\\S+", re.sub(r"(?<![\d-])\d+(?![\d-])", r"[\\d.]+", re.escape(line)))


def test_a_slow_load_tells_how_far_it_is_and_where_to_look(
    flights: None, broker: Broker, resolve: Resolve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path, broker.bootstrap_servers).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW__LOGGING__LOGGING_LEVEL", "INFO")
    window = resolve("flights", "2013-03-09T00:00:00Z", "2013-03-10T00:00:00Z")
    arguments = {
        "window": window,
        "application": str(Path(__file__).with_name("slow_load.py")),
        "application_args": [(tmp_path / "table").as_uri()],
        "jars": jars_of("connector"),
    }
    command = [sys.executable, "-c", LOAD, json.dumps(arguments)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, check=False)
    log = run.stdout + run.stderr
    assert run.returncode == 0, log[-3000:]
    report, links = json.loads(run.stdout.splitlines()[-1])

    told = [line for line in LINE.findall(log) if line[1] == TASKS]
    done = [int(line[0]) for line in told]
    assert done == sorted(done)
    assert any(0 < each < int(TASKS) for each in done), log[-3000:]
    assert "No link to Spark's UI" not in log
    traced = [line for line in log.splitlines() if "custom metric" in line or "ClassNotFoundException" in line]
    assert not traced, f"{len(traced)} lines such as {traced[0]}: the UI's threads don't see what --jars brings"

    assert links[WindowLink().xcom_key].endswith(f"/w/{window['window']}")
    assert f"is in {window['manifest'].rpartition('/')[0]}" in log
    ui = links[SparkUILink().xcom_key]
    (_, shown, *_) = blocks_of(DOCS / "guides" / "loads.md", "text")
    for line in shown.code.splitlines():
        assert re.search(like(line), log), f"the guide shows {line}"
    assert f"Spark application {report['application_id']} is running; its UI is {ui}" in log

    assert (report["offsets"], report["read"], report["written"], report["gaps"]) == (ROWS, ROWS, ROWS, 0)
    assert report["records_a_second"] == pytest.approx(ROWS / report["seconds"], abs=1)
    assert f"{ROWS} rows in {report['output']}; read, written and counted in" in log
