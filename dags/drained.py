"""Record where a topic ends, and wait until a consumer group has read up to there: a target that doesn't move."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_offsets import KafkaOffsetSnapshotOperator, KafkaOffsetsReachedSensor, KafkaPipeline

with DAG(dag_id="drained", schedule=None, tags=["kafka-offsets"]):
    end = KafkaOffsetSnapshotOperator(task_id="end", pipeline=KafkaPipeline("flights_drained", "flights"))
    drained = KafkaOffsetsReachedSensor(
        task_id="drained", group="flights-reader", target=end.output, poke_interval=2, timeout=600, deferrable=True
    )

    end >> drained
