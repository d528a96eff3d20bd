"""Store a topic's offsets as a snapshot, every ten minutes.

Windows between any two of the snapshots can be loaded later, as long as Kafka keeps the records (``snapshots_load``);
and ``retention_watch`` uses the snapshots to measure how fast the logs grow. Each snapshot is as of its run's tick, not
of the moment when the task runs: a late task or a rerun stores the same offsets. A skipped run leaves no hole, because
the next window is between the snapshots on either side.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_kafka_offsets import KafkaOffsetSnapshotOperator, KafkaPipeline

with DAG(
    dag_id="snapshot_schedule",
    schedule="*/10 * * * *",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["kafka-offsets"],
):
    flights = KafkaPipeline("flights_snapshots", "flights")
    KafkaOffsetSnapshotOperator(task_id="snapshot", pipeline=flights, at="{{ dag_run.run_after | ts }}")
