"""Load each day of a topic with one call: wait until it is complete, pin it, load it, prove it.

Needs the same connections and settings as ``flights_daily``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import KafkaCommitOffsetsOperator, TableLoad, ValueFormat, kafka_window_load

with DAG(
    dag_id="window_load",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    # Without catchup, Airflow skips the days of an outage, and their records would be in no window.
    catchup=True,
    default_args={"retries": 2},
    tags=["kafka-offsets"],
):
    flights = kafka_window_load(
        group_id="flights",
        pipeline="window_load",
        topics="flights",
        idle="assume_after",
        idle_after=timedelta(hours=1),
        application=TableLoad(
            "{{ var.value.flights_output }}_window_load",
            sink="orc",
            value_format=ValueFormat("json", "carrier STRING, dest STRING"),
        ),
    )
    flights >> KafkaCommitOffsetsOperator(task_id="commit", window=flights.window, group="flights-daily")
