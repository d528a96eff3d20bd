"""Count each day's flights by hour and carrier, and publish unreadable records to a second output.

The Spark job is ``jobs/flights_per_hour.py``. Both outputs are published together, after the proof that the job used
every record of the day exactly once. Needs a Kafka connection ``kafka_default``, a Spark connection ``spark_default``,
the setting ``[kafka_offsets] ledger_root``, and a Variable ``flights_output``: the folders are
``<flights_output>_per_hour`` and ``<flights_output>_unreadable``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import kafka_window_load

JOB = Path(__file__).parent / "jobs" / "flights_per_hour.py"
OUTPUT = "{{ var.value.flights_output }}"

with DAG(
    dag_id="flights_per_hour",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 2},
    tags=["kafka-offsets"],
):
    kafka_window_load(
        pipeline="flights_per_hour",
        topics="flights",
        idle="assume_after",
        idle_after=timedelta(hours=1),
        connector="auto",
        application=str(JOB),
        application_args=[f"{OUTPUT}_per_hour", f"{OUTPUT}_unreadable"],
    )
