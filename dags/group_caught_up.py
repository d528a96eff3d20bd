"""Wait until a consumer group has read everything, then store a snapshot of its commits."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_offsets import KafkaGroupLagSensor, KafkaOffsetSnapshotOperator, KafkaPipeline

with DAG(dag_id="group_caught_up", schedule=None, tags=["kafka-offsets"]):
    caught_up = KafkaGroupLagSensor(
        task_id="caught_up", groups="flights-reader", topics="flights", poke_interval=2, timeout=600, deferrable=True
    )
    reader = KafkaPipeline("flights_reader", "flights")
    keep = KafkaOffsetSnapshotOperator(task_id="keep", pipeline=reader, group="flights-reader")

    caught_up >> keep
