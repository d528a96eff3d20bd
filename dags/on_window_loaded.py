"""Run for each window that ``flights_daily`` has loaded, with the same offsets, which the asset's event carries.

An example of another team's Dag in the same Airflow: it verifies itself what was loaded, and then moves a consumer
group of its own to the window's end.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, task

from airflow_kafka_offsets import KafkaCommitOffsetsOperator, KafkaVerifyWindowOperator

loaded = Asset("flights_loaded")

with DAG(dag_id="on_window_loaded", schedule=[loaded], catchup=False, tags=["kafka-offsets"]):

    @task
    def windows(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
        """The windows of the events: one run handles all events since the last run."""
        return [each.extra for each in triggering_asset_events[loaded]]

    arrived = windows()

    @task
    def bounds(loaded_windows: list[dict[str, Any]]) -> list[list[str]]:
        """The bounds for ``read_published(spark, ..., start=..., end=...)`` to read the windows' rows."""
        return [[each["start"], each["end"]] for each in loaded_windows]

    bounds(arrived)
    # Holes between these windows only cause a warning: they are the concern of the Dag that loads the windows.
    verify = KafkaVerifyWindowOperator.partial(task_id="verify", on_hole="warn").expand(window=arrived)
    commit = KafkaCommitOffsetsOperator.partial(
        task_id="commit", group="flights-warehouse", max_active_tis_per_dag=1
    ).expand(window=arrived)

    verify >> commit
