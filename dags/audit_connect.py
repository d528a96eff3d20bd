"""Is the table complete that a sink connector writes? Each hour: pin it, wait until the connector has passed its end,
and compare the table with exactly the hour's records. This package loads nothing.

Needs the connections ``kafka_default`` and ``spark_default``, the setting ``[kafka_offsets] ledger_root``, and the
table's name in the Airflow variable ``audited_table``. The connector's consumer group is ``connect-<its name>``. Add
the package of the table's format or database to ``packages``, and its catalog to ``conf``.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Context
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import (
    AuditedTable,
    KafkaAuditTableOperator,
    KafkaOffsetsReachedSensor,
    KafkaPipeline,
    KafkaResolveWindowOperator,
    KafkaWindowCompleteSensor,
)

GROUP = "connect-flights"
FLIGHTS = KafkaPipeline("flights_audited", "flights")


def alert(context: Context) -> None:
    """Send the alert; here, log it. The message names what is missing, doubled or foreign."""
    logging.getLogger(__name__).error("The table isn't complete: %s", context.get("exception"))


with DAG(
    dag_id="audit_connect",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    # Without catchup, Airflow skips the hours of an outage, and nobody would audit them.
    catchup=True,
    max_active_runs=1,
    default_args={"retries": 2},
    tags=["kafka-offsets"],
):
    complete = KafkaWindowCompleteSensor(
        task_id="complete",
        pipeline=FLIGHTS,
        idle="assume_after",
        idle_after=timedelta(minutes=15),
        poke_interval=60,
        deferrable=True,
    )
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=FLIGHTS)
    written = KafkaOffsetsReachedSensor(
        task_id="written", group=GROUP, target=window.output, poke_interval=60, deferrable=True
    )
    audit = KafkaAuditTableOperator(
        task_id="audit",
        window=window.output,
        table=AuditedTable(table="{{ var.value.audited_table }}", preset="jdbc-connect"),
        writer_group=GROUP,
        connector="auto",
        on_failure_callback=alert,
    )

    complete >> window >> written >> audit
