"""Triggers: what the triggerer runs while a task is deferred."""

from airflow_kafka_offsets.compat.oldest_airflow import require_airflow

require_airflow()
