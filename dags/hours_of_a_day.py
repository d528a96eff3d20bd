"""Load the hours of each day as windows of their own, all with one Spark run a day.

A month of hours is some thirty Spark runs: ``airflow backfill create --dag-id hours_of_a_day --from-date 2013-03-01
--to-date 2013-03-31``. Needs the same connections and settings as ``flights_daily``.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import KafkaCommitOffsetsOperator, TableLoad, ValueFormat, kafka_window_load

with DAG(
    dag_id="hours_of_a_day",
    # Days and hours are those of this time zone: when clocks change, a day has 23 or 25 windows.
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="America/New_York"),
    start_date=pendulum.datetime(2013, 1, 1, tz="America/New_York"),
    end_date=pendulum.datetime(2013, 12, 31, tz="America/New_York"),
    # Without catchup, Airflow skips the days of an outage, and their records would be in no window.
    catchup=True,
    default_args={"retries": 2},
    tags=["kafka-offsets"],
):
    hours = kafka_window_load(
        group_id="hours",
        pipeline="hours_of_a_day",
        topics="flights",
        split=timedelta(hours=1),
        idle="assume_after",
        idle_after=timedelta(hours=1),
        application=TableLoad(
            "{{ var.value.flights_output }}_hours",
            value_format=ValueFormat("json", "carrier STRING, dest STRING"),
            flatten=True,
        ),
    )
    hours >> KafkaCommitOffsetsOperator(task_id="commit", window=hours.window, group="flights-hours")
