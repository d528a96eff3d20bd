"""Load a topic every hour on a cluster of Google Dataproc.

See docs/guides/submitters.md for what the service needs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.google.cloud.operators.dataproc import DataprocSubmitJobOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import (
    KafkaPipeline,
    KafkaPrepareLoadOperator,
    KafkaResolveWindowOperator,
    KafkaVerifyWindowOperator,
    KafkaWindowCompleteSensor,
    SparkCluster,
    TableLoad,
)

with DAG(
    dag_id="orders_dataproc",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    render_template_as_native_obj=True,
    tags=["kafka-offsets"],
):
    orders = KafkaPipeline("orders_dataproc", "orders")
    complete = KafkaWindowCompleteSensor(task_id="complete", pipeline=orders, deferrable=True)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)
    prepare = KafkaPrepareLoadOperator(
        task_id="prepare",
        window=window.output,
        cluster=SparkCluster(spark_version="3.5.6"),
        application=TableLoad("gs://lake/orders"),
    )
    submit = DataprocSubmitJobOperator(
        task_id="submit",
        project_id="{{ var.value.gcp_project }}",
        region="europe-west1",
        job={
            "placement": {"cluster_name": "{{ var.value.dataproc_cluster }}"},
            "pyspark_job": {
                "main_python_file_uri": "{{ ti.xcom_pull(task_ids='prepare')['application'] }}",
                "python_file_uris": "{{ ti.xcom_pull(task_ids='prepare')['py_files'] }}",
                "args": "{{ ti.xcom_pull(task_ids='prepare')['arguments'] }}",
                "properties": "{{ ti.xcom_pull(task_ids='prepare')['conf'] }}",
            },
        },
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, load=prepare.output, deferrable=True)

    complete >> window >> prepare >> submit >> verify
