"""Dags without catch-up, Airflow's default: after an outage they go on with the newest run; a backfill makes others."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.task_groups import kafka_window_load


def loading_dag(
    name: str, cron: str, timezone: str, ledger_root: str, programs: str, end: datetime | None = None, **arguments: Any
) -> DAG:
    """The Dag.

    :param name: of the Dag, its topic, its pipeline, and its group.
    :param programs: folder with what is to run as ``spark-submit``.
    :param end: then it has no runs of its own; a backfill reaches back as far as it likes.
    :param arguments: of the load.
    """
    timetable, start = CronDataIntervalTimetable(cron, timezone=timezone), datetime(2020, 1, 1, tzinfo=UTC)
    with DAG(name, schedule=timetable, start_date=start, end_date=end, catchup=False) as dag:
        load = kafka_window_load(
            pipeline=KafkaPipeline(name, name, ledger_root=ledger_root),
            wait=False,
            env_vars={"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            application_args=["--output", "file:///t"],
            **arguments,
        )
        # A new group begins with the first of several runs: the others are tried again until that is over.
        again = {"retries": 99, "retry_delay": timedelta(seconds=2)}
        load >> KafkaCommitOffsetsOperator(task_id="commit", window=load.window, group=name, **again)
    return dag
