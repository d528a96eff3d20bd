"""Wait until a hundred records have arrived since the last published window, and pin them as an increment."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_offsets.operators.resolve_increment import KafkaResolveIncrementOperator
from airflow_kafka_offsets.sensors.new_data import KafkaNewDataSensor

with DAG(dag_id="incremental", schedule=None, tags=["kafka-offsets"]):
    enough = KafkaNewDataSensor(
        task_id="enough",
        topics="flights",
        pipeline="flights_daily",
        min_records=100,
        poke_interval=2,
        timeout=600,
        deferrable=True,
    )
    window = KafkaResolveIncrementOperator(task_id="window", pipeline="flights_daily", topics="flights")

    enough >> window
