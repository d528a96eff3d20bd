"""Load a topic every hour by the Spark operator on Kubernetes.

See docs/guides/submitters.md for what the service needs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
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
    dag_id="orders_spark_kubernetes",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    render_template_as_native_obj=True,
    tags=["kafka-offsets"],
):
    orders = KafkaPipeline("orders_spark_kubernetes", "orders")
    complete = KafkaWindowCompleteSensor(task_id="complete", pipeline=orders, deferrable=True)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)
    prepare = KafkaPrepareLoadOperator(
        task_id="prepare",
        window=window.output,
        cluster=SparkCluster(spark_version="3.5.6", files="s3a://lake/drivers", gives_credentials=True),
        application=TableLoad("s3a://lake/orders"),
    )
    secret = {"name": "kafka-loader", "key": "options"}
    submit = SparkKubernetesOperator(
        task_id="submit",
        durable=False,
        reattach_on_restart=False,
        namespace="spark",
        template_spec={
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": "orders", "namespace": "spark"},
            "spec": {
                "type": "Python",
                "pythonVersion": "'3'",
                "mode": "cluster",
                "sparkVersion": "3.5.6",
                "image": "registry.example.com/spark:3.5.6-python3.11",
                "mainApplicationFile": "{{ ti.xcom_pull(task_ids='prepare')['application'] }}",
                "arguments": "{{ ti.xcom_pull(task_ids='prepare')['arguments'] }}",
                "sparkConf": "{{ ti.xcom_pull(task_ids='prepare')['conf'] }}",
                "deps": {"pyFiles": "{{ ti.xcom_pull(task_ids='prepare')['py_files'] }}"},
                "restartPolicy": {"type": "Never"},
                "driver": {
                    "cores": 1,
                    "memory": "2g",
                    "serviceAccount": "spark",
                    "env": [{"name": "KAFKA_OFFSETS_SECRETS", "valueFrom": {"secretKeyRef": secret}}],
                },
                "executor": {"instances": 4, "cores": 2, "memory": "4g"},
            },
        },
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, load=prepare.output, deferrable=True)

    complete >> window >> prepare >> submit >> verify
