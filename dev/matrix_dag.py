"""The Dag of the matrix. It loads a topic with transactions, which has offsets without a record."""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_kafka_offsets import TableLoad
from airflow_kafka_offsets.task_groups import kafka_window_load

JARS = os.environ.get("MATRIX_JARS")
"""The Kafka connector's jars, if Spark doesn't pass packages on to executors."""

with DAG(dag_id="transactions", schedule=None):
    kafka_window_load(
        group_id="load",
        pipeline="transactions",
        topics="transactions",
        start=os.environ["MATRIX_START"],
        end=os.environ["MATRIX_END"],
        wait=False,
        connector="given" if JARS else "auto",
        jars=JARS,
        allow_gaps=True,
        application=TableLoad("{{ var.value.flights_output }}_transactions"),
    )
