"""Run whenever a consumer group has caught up after being behind."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_kafka_offsets import KafkaLagZeroTrigger

watcher = AssetWatcher(name="flights_reader", trigger=KafkaLagZeroTrigger(groups="flights-reader", poll_interval_s=2))
caught_up = Asset("flights_read", watchers=[watcher])

with DAG(dag_id="on_lag_zero", schedule=[caught_up], catchup=False, tags=["kafka-offsets"]):

    @task
    def report(triggering_asset_events: Any = None) -> list[Any]:
        """The payloads of the watcher's events."""
        return [each.extra["payload"] for each in triggering_asset_events[caught_up]]

    report()
