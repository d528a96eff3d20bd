"""Task groups: several of our tasks as one."""

from airflow_kafka_offsets.compat.oldest_airflow import require_airflow

require_airflow()
