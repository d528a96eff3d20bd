"""Run for each hour of a topic when it is complete."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_kafka_offsets import KafkaWindowCompleteTrigger

trigger = KafkaWindowCompleteTrigger(
    topics="flights", window=timedelta(hours=1), idle="assume_after", idle_after=timedelta(minutes=15)
)
hour = Asset("flights_hour", watchers=[AssetWatcher(name="flights_hours", trigger=trigger)])

with DAG(dag_id="on_window_complete", schedule=[hour], catchup=False, tags=["kafka-offsets"]):

    @task
    def report(triggering_asset_events: Any = None) -> list[Any]:
        """Start and end of each hour."""
        return [each.extra["payload"] for each in triggering_asset_events[hour]]

    report()
