"""Load exactly one day of a topic into Parquet: the example that ``make demo`` runs.

Needs a Kafka connection ``kafka_default``, a Spark connection ``spark_default``, the setting ``[kafka_offsets]
ledger_root``, and a Variable ``flights_output`` with the folder of the table.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Asset
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import (
    KafkaCommitOffsetsOperator,
    KafkaPipeline,
    KafkaResolveWindowOperator,
    KafkaSparkSubmitOperator,
    KafkaVerifyWindowOperator,
    KafkaWindowCompleteSensor,
    TableLoad,
)

flights = KafkaPipeline("flights_daily", "flights")

with DAG(
    dag_id="flights_daily",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    # Without catchup, Airflow skips the days of an outage, and their records would be in no window.
    catchup=True,
    default_args={"retries": 2},
    tags=["kafka-offsets"],
):
    complete = KafkaWindowCompleteSensor(
        task_id="complete",
        pipeline=flights,
        idle="assume_after",
        idle_after=timedelta(hours=1),
        deferrable=True,
        poke_interval=30,
    )
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=flights)
    load = KafkaSparkSubmitOperator(
        task_id="load",
        window=window.output,
        application=TableLoad("{{ var.value.flights_output }}", key_format="string", value_format="string"),
        outlets=[Asset("flights_loaded")],
    )
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output)
    commit = KafkaCommitOffsetsOperator(task_id="commit", window=window.output, group="flights-daily")

    complete >> window >> load >> verify >> commit
