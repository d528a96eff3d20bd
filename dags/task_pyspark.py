"""Load a pinned window in a ``@task.pyspark``: the task's own Spark session reads, parses, writes and counts it.

Prepare begins an attempt at the window, whose number the session is given; verify publishes the window.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import (
    KafkaPipeline,
    KafkaPrepareLoadOperator,
    KafkaResolveWindowOperator,
    KafkaVerifyWindowOperator,
)

CONNECTOR = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"}

with DAG(
    dag_id="task_pyspark",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    # Without catchup, Airflow skips the days of an outage, and their records would be in no window.
    catchup=True,
    tags=["kafka-offsets"],
):
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=KafkaPipeline("task_pyspark", "flights"))
    prepare = KafkaPrepareLoadOperator(task_id="prepare", window=window.output)

    @task.pyspark(conn_id="spark_default", config_kwargs=CONNECTOR, retries=2)
    def load(prepared: dict[str, Any], output: str, spark: Any) -> None:
        from pyspark.sql import functions as F

        from airflow_kafka_offsets import KafkaOffsetsHook
        from airflow_kafka_offsets.spark import FileSink, pinned_window

        if not prepared["needs_driver"]:  # the window is published already
            return
        window = prepared["ref"]
        pinned = pinned_window(spark, window["manifest"], window["sha256"], prepared["attempt"])
        kafka = KafkaOffsetsHook("kafka_default").java_settings()  # from either connection type, with credentials
        rows = pinned.read(**kafka.plain, **kafka.secret)
        flight = F.from_json(rows["value"].cast("string"), "carrier STRING, dest STRING, at BIGINT")
        pinned.write(rows.withColumn("flight", flight).drop("value"), FileSink(output))

    loaded = load(prepared=prepare.output, output="{{ var.value.flights_output }}_task_pyspark")
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, load=prepare.output)

    loaded >> verify
