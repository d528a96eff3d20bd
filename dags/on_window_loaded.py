"""Run for each window that ``flights_daily`` has loaded, on the same offsets, which come with the asset's event.

A Dag of somebody else's in the same Airflow: it proves for itself what was loaded, and then moves a consumer group of
its own to the window's end.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, task

from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator

loaded = Asset("flights_loaded")

with DAG(dag_id="on_window_loaded", schedule=[loaded], catchup=False, tags=["kafka-offsets"]):

    @task
    def windows(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
        """The windows of the events: one run takes up all that have come since the last."""
        return [each.extra for each in triggering_asset_events[loaded]]

    arrived = windows()

    @task
    def bounds(loaded_windows: list[dict[str, Any]]) -> list[list[str]]:
        """What ``read_published(spark, ..., start=..., end=...)`` is bounded by, to read their rows."""
        return [[each["start"], each["end"]] for each in loaded_windows]

    bounds(arrived)
    # Whether windows are missing between these is told, and the concern of the Dag that loads them.
    verify = KafkaVerifyWindowOperator.partial(task_id="verify", on_hole="warn").expand(window=arrived)
    commit = KafkaCommitOffsetsOperator.partial(
        task_id="commit", group="flights-warehouse", max_active_tis_per_dag=1
    ).expand(window=arrived)

    verify >> commit
