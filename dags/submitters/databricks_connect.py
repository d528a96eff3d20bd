"""Load a topic every hour through Databricks Connect, on a cluster with standard access.

Prepare begins an attempt at the window, and gives the task its number. The task is a client of the cluster; the cluster
reads Kafka and the ledger, and writes the table. The task passes its counts to verify, which asks Kafka and publishes.
See docs/guides/loads.md, Spark Connect.

databricks-connect and Airflow's Spark provider each install a PySpark, in the same folder. So the task runs in a
separate environment with databricks-connect, with the driver's part of this package on its PYTHONPATH (``kafka-offsets
bundle`` writes it), and gets the Kafka connection's options as an argument.
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
    KafkaWindowCompleteSensor,
)

with DAG(
    dag_id="orders_databricks_connect",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    tags=["kafka-offsets"],
):
    orders = KafkaPipeline("orders_databricks_connect", "orders")
    complete = KafkaWindowCompleteSensor(task_id="complete", pipeline=orders, deferrable=True)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=orders)
    prepare = KafkaPrepareLoadOperator(task_id="prepare", window=window.output)

    @task.external_python(python="/opt/databricks-connect/bin/python", expect_airflow=False)
    def load(prepared: dict[str, Any], cluster: str, table: str, kafka: dict[str, str]) -> dict[str, Any]:
        from databricks.connect import DatabricksSession

        from airflow_kafka_offsets.spark import DeltaSink, pinned_window

        spark = DatabricksSession.builder.clusterId(cluster).getOrCreate()
        window = prepared["ref"]
        pinned = pinned_window(spark, window["manifest"], window["sha256"], prepared["attempt"])
        return pinned.write(pinned.read(**kafka), DeltaSink(table)).to_json()

    loaded = load(
        prepared=prepare.output,
        cluster="{{ var.value.databricks_cluster }}",
        table="lake.orders",
        # Options of Spark's Kafka reader. For credentials, use Databricks' own classes: kafkashaded.org.apache.kafka…
        kafka={"kafka.bootstrap.servers": "{{ var.value.kafka_brokers }}"},
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, result=loaded)

    complete >> window >> prepare
    loaded >> verify
