"""Load a topic every hour through Livy.

See docs/guides/submitters.md for what the service needs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.apache.livy.operators.livy import LivyOperator
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
    dag_id="orders_livy",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    render_template_as_native_obj=True,
    tags=["kafka-offsets"],
):
    orders = KafkaPipeline("orders_livy", "orders")
    complete = KafkaWindowCompleteSensor(task_id="complete", pipeline=orders, deferrable=True)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)
    prepare = KafkaPrepareLoadOperator(
        task_id="prepare",
        window=window.output,
        cluster=SparkCluster(spark_version="3.5.6"),
        application=TableLoad("s3://lake/orders"),
    )
    submit = LivyOperator(
        task_id="submit",
        livy_conn_id="livy_default",
        file="{{ ti.xcom_pull(task_ids='prepare')['application'] }}",
        args="{{ ti.xcom_pull(task_ids='prepare')['arguments'] }}",
        py_files="{{ ti.xcom_pull(task_ids='prepare')['py_files'] }}",
        conf="{{ ti.xcom_pull(task_ids='prepare')['conf'] }}",
        polling_interval=30,
        durable=False,
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, load=prepare.output, deferrable=True)

    complete >> window >> prepare >> submit >> verify
