"""Load a pinned window with Airflow's own ``SparkSubmitOperator``: three confs say what to read.

The application is the ready-made load. The driver runs on the worker (client deploy mode), where this package is
installed; executors don't need it. Verify publishes what was loaded. ``KafkaSparkSubmitOperator`` does the same and
more: it first checks that all records are still there, ships the package to a cluster, passes credentials, reports
progress, and publishes.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION


def brokers(conn_id: str) -> str:
    """The bootstrap servers of a connection of either type."""
    return KafkaOffsetsHook(conn_id).java_settings().plain["kafka.bootstrap.servers"]


with DAG(
    dag_id="classic_spark_submit",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    # Without catchup, Airflow skips the days of an outage, and their records would be in no window.
    catchup=True,
    tags=["kafka-offsets"],
    user_defined_macros={"brokers": brokers},
):
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline="classic_spark_submit", topics="flights")
    load = SparkSubmitOperator(
        task_id="load",
        application=LOAD_APPLICATION,
        packages="org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        conf={
            "spark.kafkaOffsets.manifest": "{{ ti.xcom_pull(task_ids='resolve')['manifest'] }}",
            "spark.kafkaOffsets.sha256": "{{ ti.xcom_pull(task_ids='resolve')['sha256'] }}",
            "spark.kafkaOffsets.kafka.bootstrap.servers": "{{ brokers('kafka_default') }}",
        },
        application_args=[
            "--output",
            "{{ var.value.flights_output }}_classic_spark_submit",
            "--json-schema",
            "at BIGINT",
        ],
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output)

    window >> load >> verify
