"""A Dag of days by the clocks of Berlin, each of which loads its hours as windows of their own with one Spark run."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.task_groups.window_load import kafka_window_load

HOURS = "hours"
"""The Dag, its pipeline, and its group."""
BERLIN = ZoneInfo("Europe/Berlin")
DAYS = [datetime(2026, 10, day, tzinfo=BERLIN) for day in (24, 25, 26, 27, 28)]
"""The starts of four days and their end. The second one has 25 hours."""


def hours_dag(topic: str, ledger_root: str, programs: str) -> DAG:
    """The Dag, which has no runs but those of a backfill.

    :param programs: folder with what is to run as ``spark-submit``.
    """
    (first, *_, last, _) = DAYS
    timetable = CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Berlin")
    with DAG(HOURS, schedule=timetable, start_date=first, end_date=last, catchup=False) as dag:
        load = kafka_window_load(
            pipeline=KafkaPipeline(HOURS, topic, ledger_root=ledger_root),
            split=timedelta(hours=1),
            wait=False,
            env_vars={"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            application_args=["--output", "file:///t"],
        )
        # A day whose predecessor isn't loaded yet is tried again until it is.
        again = {"retries": 99, "retry_delay": timedelta(seconds=2)}
        load >> KafkaCommitOffsetsOperator(task_id="commit", window=load.window, group=HOURS, **again)
    return dag
