"""Keep where a topic stands, every ten minutes.

Windows between any two of the snapshots can be loaded later, however long ago they were taken, as long as Kafka keeps
the records (``snapshots_load``); and ``retention_watch`` tells by them how fast the logs grow. Each is as of its
run's tick and not as of the moment in which the task came to run: a task that runs late or again stores the same. A run
that was skipped leaves no hole, as the next window is between the snapshots on either side.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_kafka_offsets.operators.snapshot import KafkaOffsetSnapshotOperator

with DAG(
    dag_id="snapshot_schedule",
    schedule="*/10 * * * *",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["kafka-offsets"],
):
    KafkaOffsetSnapshotOperator(
        task_id="snapshot", pipeline="flights_snapshots", topics="flights", at="{{ dag_run.run_after | ts }}"
    )
