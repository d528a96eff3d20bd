"""Load a topic every hour on EMR Serverless.

See docs/guides/submitters.md for what the service needs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.amazon.aws.operators.emr import EmrServerlessStartJobOperator
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
    dag_id="orders_emr_serverless",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    render_template_as_native_obj=True,
    tags=["kafka-offsets"],
):
    orders = KafkaPipeline("orders_emr_serverless", "orders")
    complete = KafkaWindowCompleteSensor(task_id="complete", pipeline=orders, deferrable=True)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)
    prepare = KafkaPrepareLoadOperator(
        task_id="prepare",
        window=window.output,
        cluster=SparkCluster(spark_version="3.5.6"),
        application=TableLoad("s3://lake/orders"),
    )
    submit = EmrServerlessStartJobOperator(
        task_id="submit",
        application_id="{{ var.value.emr_application }}",
        execution_role_arn="{{ var.value.emr_role }}",
        job_driver={
            "sparkSubmit": {
                "entryPoint": "{{ ti.xcom_pull(task_ids='prepare')['application'] }}",
                "entryPointArguments": "{{ ti.xcom_pull(task_ids='prepare')['arguments'] }}",
                "sparkSubmitParameters": "{{ ti.xcom_pull(task_ids='prepare')['options_text'] }}",
            }
        },
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, load=prepare.output, deferrable=True)

    complete >> window >> prepare >> submit >> verify
