"""Load a topic every hour on a job cluster of Databricks.

See docs/guides/submitters.md for what the service needs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
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
    dag_id="orders_databricks",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    render_template_as_native_obj=True,
    tags=["kafka-offsets"],
):
    orders = KafkaPipeline("orders_databricks", "orders")
    complete = KafkaWindowCompleteSensor(task_id="complete", pipeline=orders, deferrable=True)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)
    prepare = KafkaPrepareLoadOperator(
        task_id="prepare",
        window=window.output,
        cluster=SparkCluster(files="s3://lake/drivers", gives_credentials=True),
        application=TableLoad("s3://lake/orders"),
    )
    submit = DatabricksSubmitRunOperator(
        task_id="submit",
        durable=False,
        tasks=[
            {
                "task_key": "orders",
                "spark_python_task": {
                    "python_file": "{{ ti.xcom_pull(task_ids='prepare')['application'] }}",
                    "parameters": "{{ ti.xcom_pull(task_ids='prepare')['arguments'] }}",
                },
                "new_cluster": {
                    "spark_version": "16.4.x-scala2.12",
                    "node_type_id": "m6id.large",
                    "num_workers": 4,
                    "data_security_mode": "SINGLE_USER",
                    "spark_conf": "{{ ti.xcom_pull(task_ids='prepare')['conf'] }}",
                    "spark_env_vars": {
                        "PYTHONPATH": (
                            "{{ ti.xcom_pull(task_ids='prepare')['py_files'] | join(':') "
                            "| replace('s3://lake/drivers', '/Volumes/main/kafka/drivers') }}"
                        ),
                        "KAFKA_OFFSETS_SECRETS": "{{ '{{secrets/kafka/options}}' }}",
                    },
                },
            }
        ],
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, load=prepare.output, deferrable=True)

    complete >> window >> prepare >> submit >> verify
