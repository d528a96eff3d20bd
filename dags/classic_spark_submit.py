"""Load a pinned window with Airflow's own ``SparkSubmitOperator``: prepare returns the confs that say what to read.

The application is the ready-made load. The driver runs on the worker (client deploy mode), where this package is
installed; executors don't need it. Verify publishes what was loaded. ``KafkaSparkSubmitOperator`` does all of this in
one task, and more: it ships the package to a cluster, passes credentials, and reports progress.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import (
    LOAD_APPLICATION,
    KafkaPipeline,
    KafkaPrepareLoadOperator,
    KafkaResolveWindowOperator,
    KafkaVerifyWindowOperator,
)

with DAG(
    dag_id="classic_spark_submit",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    # Without catchup, Airflow skips the days of an outage, and their records would be in no window.
    catchup=True,
    tags=["kafka-offsets"],
):
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=KafkaPipeline("classic_spark_submit", "flights"))
    prepare = KafkaPrepareLoadOperator(task_id="prepare", window=window.output)

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def needs_driver(prepared: dict[str, Any]) -> bool:
        """Skip Spark when the window is published already."""
        return bool(prepared["needs_driver"])

    load = SparkSubmitOperator(
        task_id="load",
        application=LOAD_APPLICATION,
        packages="org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        conf=prepare.output["conf"],
        application_args=[
            "--output",
            "{{ var.value.flights_output }}_classic_spark_submit",
            "--value-format",
            "json",
            "schema=at BIGINT",
        ],
    )
    verify = KafkaVerifyWindowOperator(
        task_id="verify", window=window.output, load=prepare.output, trigger_rule="none_failed"
    )

    needs_driver(prepare.output) >> load >> verify
