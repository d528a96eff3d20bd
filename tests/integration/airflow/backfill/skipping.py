"""A Dag of hourly windows without catch-up, Airflow's default: after an outage it goes on with the newest one."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.task_groups.window_load import kafka_window_load

SKIPPING = "skipping"
"""The Dag, its pipeline, and its group."""


def skipping_dag(minute: int, topic: str, ledger_root: str, programs: str) -> DAG:
    """The Dag.

    :param minute: of each hour: the schedule ticks then.
    :param programs: folder with what is to run as ``spark-submit``.
    """
    timetable = CronDataIntervalTimetable(f"{minute} * * * *", timezone="UTC")
    with DAG(SKIPPING, schedule=timetable, start_date=datetime(2020, 1, 1, tzinfo=UTC), catchup=False) as dag:
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        load = kafka_window_load(
            pipeline=KafkaPipeline(SKIPPING, topic, ledger_root=ledger_root),
            wait=False,
            env_vars={"PATH": path},
            application_args=["--output", "file:///t"],
        )
        # A new group begins with the first of several runs: the others are tried again until that is over.
        again = {"retries": 99, "retry_delay": timedelta(seconds=2)}
        load >> KafkaCommitOffsetsOperator(task_id="commit", window=load.window, group=SKIPPING, **again)
    return dag
