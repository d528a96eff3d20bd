"""Load a topic every hour on Amazon EMR, as a step of a running cluster.

See docs/guides/submitters.md for what the service needs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator
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
    dag_id="orders_emr",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    render_template_as_native_obj=True,
    tags=["kafka-offsets"],
):
    orders = KafkaPipeline("orders_emr", "orders")
    complete = KafkaWindowCompleteSensor(task_id="complete", pipeline=orders, deferrable=True)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)
    prepare = KafkaPrepareLoadOperator(
        task_id="prepare",
        window=window.output,
        cluster=SparkCluster(spark_version="3.5.6"),
        application=TableLoad("s3://lake/orders"),
    )
    words = "{{ ['spark-submit', '--deploy-mode', 'cluster'] + ti.xcom_pull(task_ids='prepare')['submit'] }}"
    submit = EmrAddStepsOperator(
        task_id="submit",
        job_flow_id="{{ var.value.emr_cluster }}",
        wait_for_completion=True,
        steps=[
            {
                "Name": "orders",
                "ActionOnFailure": "CONTINUE",
                "HadoopJarStep": {
                    "Jar": "command-runner.jar",
                    "Args": words,
                },
            }
        ],
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, load=prepare.output, deferrable=True)

    complete >> window >> prepare >> submit >> verify
