"""Hooks: turn an Airflow connection or setting into a client or a ledger."""
