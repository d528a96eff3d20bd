"""Load a topic every hour by a job of AWS Glue.

See docs/guides/submitters.md for what the service needs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import (
    KafkaPipeline,
    KafkaPrepareLoadOperator,
    KafkaResolveWindowOperator,
    KafkaVerifyWindowOperator,
    KafkaWindowCompleteSensor,
    TableLoad,
)

with DAG(
    dag_id="orders_glue",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    tags=["kafka-offsets"],
):
    orders = KafkaPipeline("orders_glue", "orders")
    complete = KafkaWindowCompleteSensor(task_id="complete", pipeline=orders, deferrable=True)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)
    prepare = KafkaPrepareLoadOperator(
        task_id="prepare",
        window=window.output,
        application=TableLoad("s3://lake/orders"),
    )
    confs = "{{ ti.xcom_pull(task_ids='prepare')['conf_args'][1:] | reject('equalto', '--conf') | join(' --conf ') }}"
    submit = GlueJobOperator(
        task_id="submit",
        job_name="orders-{{ ti.xcom_pull(task_ids='prepare')['application'].split('/')[-2] }}",
        script_location="{{ ti.xcom_pull(task_ids='prepare')['application'] }}",
        iam_role_name="glue-orders",
        create_job_kwargs={"GlueVersion": "5.0", "NumberOfWorkers": 4, "WorkerType": "G.1X"},
        concurrent_run_limit=10,
        update_config=True,
        durable=False,
        script_args={
            "--conf": confs,
            "--extra-py-files": "{{ ti.xcom_pull(task_ids='prepare')['py_files'] | join(',') }}",
            "--extra-jars": "s3://lake/jars/",
            "--output": "s3://lake/orders",
        },
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, load=prepare.output, deferrable=True)

    complete >> window >> prepare >> submit >> verify
