"""Run whenever another hundred records have arrived on a topic."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_kafka_offsets import KafkaNewDataTrigger

trigger = KafkaNewDataTrigger(topics="flights", min_records=100, poll_interval_s=2)
arrived = Asset("flights_arrived", watchers=[AssetWatcher(name="flights_arrivals", trigger=trigger)])

with DAG(dag_id="on_new_data", schedule=[arrived], catchup=False, tags=["kafka-offsets"]):

    @task
    def report(triggering_asset_events: Any = None) -> list[Any]:
        """The number of new records, by topic."""
        return [each.extra["payload"] for each in triggering_asset_events[arrived]]

    report()
