"""Alert when a consumer group is too far behind, in offsets or in time, stands still, was moved back, or has stopped.

The callback sends the alert: replace ``alert`` with one of Airflow's notifiers.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Context
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_kafka_offsets import KafkaLagAlertOperator


def alert(context: Context) -> None:
    """Send the alert; here, log it."""
    logging.getLogger(__name__).error("Kafka: %s", context.get("exception"))


with DAG(
    dag_id="lag_alert",
    schedule=CronTriggerTimetable("*/5 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["kafka-offsets"],
):
    KafkaLagAlertOperator(
        task_id="check_groups",
        groups=["flights-reader"],
        max_lag=1_000_000,
        max_age=timedelta(minutes=30),
        on_failure_callback=alert,
    )
