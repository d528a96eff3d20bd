"""Have Spark read exactly the records that arrive from now until there are a hundred of them.

A snapshot of where the logs end is the start, and another one is the end. The window between the two is loaded and
proved. Needs the same connections and settings as ``flights_daily``.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_offsets import (
    KafkaNewDataSensor,
    KafkaOffsetSnapshotOperator,
    KafkaPipeline,
    KafkaResolveWindowOperator,
    KafkaSparkSubmitOperator,
    KafkaVerifyWindowOperator,
    TableLoad,
    ValueFormat,
)

with DAG(dag_id="snapshots_load", schedule=None, tags=["kafka-offsets"]):
    flights = KafkaPipeline("flights_between", "flights")
    start = KafkaOffsetSnapshotOperator(task_id="start", pipeline=flights)
    arrived = KafkaNewDataSensor(
        task_id="arrived",
        pipeline=flights,
        since=start.output,
        min_records=100,
        poke_interval=2,
        timeout=600,
        deferrable=True,
    )
    end = KafkaOffsetSnapshotOperator(task_id="end", pipeline=flights)
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=flights, start=start.output, end=end.output)
    load = KafkaSparkSubmitOperator(
        task_id="load",
        window=window.output,
        application=TableLoad("{{ var.value.flights_output }}_between", value_format=ValueFormat("json", "at BIGINT")),
        retries=2,
    )
    # The records that arrive between two runs of this Dag are intentionally in no window.
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, on_hole="warn")

    start >> arrived >> end >> window >> load >> verify
