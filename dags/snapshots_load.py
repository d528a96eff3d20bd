"""Have Spark read exactly the records that a consumer group reads from now until it has caught up.

A snapshot of the group's commits is the start. When the lag sensor has passed, its XCom names the group that has caught
up, and a snapshot of that group's commits is the end. The window between the two is loaded and proved, for example to
audit what the group did with those records. Needs the same connections and settings as ``flights_daily``.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.snapshot import KafkaOffsetSnapshotOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.group_lag import KafkaGroupLagSensor

PIPELINE = {"pipeline": "flights_read_again", "topics": "flights"}

with DAG(dag_id="snapshots_load", schedule=None, tags=["kafka-offsets"]):
    start = KafkaOffsetSnapshotOperator(task_id="start", group="flights-reader", **PIPELINE)
    caught_up = KafkaGroupLagSensor(
        task_id="caught_up", groups="flights-reader", topics="flights", poke_interval=2, timeout=600, deferrable=True
    )
    end = KafkaOffsetSnapshotOperator(
        task_id="end", group="{{ (ti.xcom_pull(task_ids='caught_up')['groups'] | list)[0] }}", **PIPELINE
    )
    window = KafkaResolveWindowOperator(task_id="resolve", start=start.output, end=end.output, **PIPELINE)
    load = KafkaSparkSubmitOperator(
        task_id="load",
        window=window.output,
        connector="auto",
        application_args=["--output", "{{ var.value.flights_output }}_read_again", "--json-schema", "at BIGINT"],
        retries=2,
    )
    # The records that the group reads between two runs of this Dag are intentionally in no window.
    verify = KafkaVerifyWindowOperator(task_id="verify", window=window.output, on_hole="warn")

    start >> caught_up >> end >> window >> load >> verify
