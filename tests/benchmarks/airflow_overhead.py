"""How long Airflow's side of a window takes: resolve, pre-flight, submit, verify and commit, run as in their tasks.

The time of ``spark-submit``, from start to end, is subtracted: Java's start, the read, the write and the proof are
Spark's. The time that Airflow takes to start any task isn't included either.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from dev.spark_packages import jars_of
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, Clusters
from tests.benchmarks.records import write_records
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import CORES, written
from tests.benchmarks.timing import timed

_TOPIC = "loaded"
_PARTITIONS = 12
_RECORDS = 1_400
"""Records of each partition and window."""
_WINDOWS = 3
_LIMIT_S = 5.0


class _StateStore(dict[str, Any]):
    """Stands in for the store in which Airflow keeps a task's state."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


def airflow_overhead(clusters: Clusters) -> Iterator[Row]:
    """Several windows. The first one isn't counted, because it includes imports that a worker does only once."""
    counts = dict.fromkeys(range(_PARTITIONS), clusters.sizes.part(_RECORDS))
    written(clusters, _TOPIC, counts)
    for hour in range(1, _WINDOWS + 2):
        write_records(clusters.records.bootstrap_servers, _TOPIC, counts, INSTANT_MS + hour * HOUR_MS)
    servers = {"bootstrap.servers": clusters.records.bootstrap_servers}
    os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": servers})
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": f"local[{CORES}]"})
    os.environ["PATH"] += f":{Path(pyspark.__file__).parent / 'bin'}"
    clusters.say(f"loading {_WINDOWS + 1} windows")
    with tempfile.TemporaryDirectory() as folder:
        taken = [_window(Path(folder), number) for number in range(_WINDOWS + 1)][1:]
    steps = {name: statistics.median(each[name] for each in taken) for name in taken[0]}
    spark_s = steps.pop("spark")
    remark = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in steps.items())
    work = "Airflow's side of a window, without spark-submit"
    yield Row.absolute(work, sum(steps.values()), "s", limit=_LIMIT_S, requests=remark)
    yield Row.noted("… spark-submit", f"{sum(counts.values()):,} records", spark_s)


def _window(folder: Path, number: int) -> dict[str, float]:
    """The seconds of each step."""
    start_ms = INSTANT_MS + number * HOUR_MS
    context: Any = {
        "ti": SimpleNamespace(dag_id="bench", run_id=f"r{number}", task_id="t", try_number=1, max_tries=0, task=None),
        "task_state_store": _StateStore(),
    }
    resolve = KafkaResolveWindowOperator(
        task_id="resolve",
        pipeline=KafkaPipeline("bench", _TOPIC, ledger_root=(folder / "ledger").as_uri()),
        start=iso_instant(start_ms),
        end=iso_instant(start_ms + HOUR_MS),
    )
    window, resolve_s = timed(lambda: resolve.execute(context))
    load = KafkaSparkSubmitOperator(
        task_id="load",
        window=window,
        jars=jars_of("connector"),
        application_args=["--output", (folder / "table").as_uri()],
        conf={"spark.ui.enabled": "false", "spark.log.level": "ERROR"},
    )
    with _spark_timed() as spark:
        _, load_s = timed(lambda: load.execute(context))
    _, verify_s = timed(lambda: KafkaVerifyWindowOperator(task_id="verify", window=window).execute(context))
    commit = KafkaCommitOffsetsOperator(task_id="commit", window=window, group="bench")
    _, commit_s = timed(lambda: commit.execute(context))
    spark_s = sum(spark)
    return {
        "resolve": resolve_s,
        "pre-flight and submit": load_s - spark_s,
        "verify": verify_s,
        "commit": commit_s,
        "spark": spark_s,
    }


@contextmanager
def _spark_timed() -> Iterator[list[float]]:
    """The seconds that ``spark-submit`` runs, measured around the provider's hook, which starts it and waits for it."""
    seconds: list[float] = []
    submit = SparkSubmitHook.submit

    def timing(hook: SparkSubmitHook, *arguments: Any, **options: Any) -> None:
        started = time.perf_counter()
        submit(hook, *arguments, **options)
        seconds.append(time.perf_counter() - started)

    SparkSubmitHook.submit = timing  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        SparkSubmitHook.submit = submit  # type: ignore[method-assign]
