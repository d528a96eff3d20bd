"""Operators: snapshot, resolve, load, verify, commit, reset, watch retention."""

from airflow_kafka_offsets.compat.oldest_airflow import require_airflow

require_airflow()
