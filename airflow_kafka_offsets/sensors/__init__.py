"""Sensors: tasks that wait until something is true in Kafka."""

from airflow_kafka_offsets.compat.oldest_airflow import require_airflow

require_airflow()
