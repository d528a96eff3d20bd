"""Conditions: what a task can wait for, each a plain check that anybody may call with a client, without Airflow."""
