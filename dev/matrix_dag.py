"""Dags of the matrix. They load a topic with transactions, which has offsets without a record."""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_kafka_offsets.task_groups.window_load import kafka_window_load

JARS = os.environ.get("MATRIX_JARS")
"""The Kafka connector's jars, if Spark doesn't pass packages on to executors."""

CONNECTIONS = {"transactions": "spark_default"} | ({"transactions_client": "spark_client"} if JARS else {})
"""On a cluster: once with the driver on the cluster, and once on the worker."""

for name, conn_id in CONNECTIONS.items():
    with DAG(dag_id=name, schedule=None):
        kafka_window_load(
            group_id="load",
            pipeline=name,
            topics="transactions",
            start=os.environ["MATRIX_START"],
            end=os.environ["MATRIX_END"],
            wait=False,
            conn_id=conn_id,
            connector=None if JARS else "auto",
            jars=JARS,
            allow_gaps=True,
            application_args=["--output", f"{{{{ var.value.flights_output }}}}_{name}"],
        )
