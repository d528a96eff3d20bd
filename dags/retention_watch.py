"""Fail a task a day before Kafka deletes records that the pipeline hasn't loaded, so that Airflow alerts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_kafka_offsets import KafkaPipeline, KafkaRetentionWatchOperator

with DAG(
    dag_id="retention_watch",
    schedule=CronTriggerTimetable("*/15 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["kafka-offsets"],
):
    # The topics are those that the pipeline's ledger has.
    KafkaRetentionWatchOperator(task_id="watch", pipeline=KafkaPipeline("flights_daily"), fail_within=timedelta(days=1))
