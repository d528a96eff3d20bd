"""Load what is new whenever a hundred records have arrived, with one call: wait, pin it, load it, prove it.

Needs the same connections and settings as ``flights_daily``. It has a pipeline of its own: an increment goes on where
the last window of its pipeline ends, and would be in the way of the next day there.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_offsets import TableLoad, ValueFormat, kafka_increment_load

with DAG(
    dag_id="incremental",
    schedule=None,
    default_args={"retries": 2, "poke_interval": 2, "timeout": 600},
    tags=["kafka-offsets"],
):
    kafka_increment_load(
        group_id="flights",
        pipeline="flights_increments",
        topics="flights",
        min_records=100,
        application=TableLoad(
            "{{ var.value.flights_output }}_increments",
            value_format=ValueFormat("json", "carrier STRING, dest STRING"),
            flatten=True,
        ),
    )
