"""Hooks: from an Airflow connection or setting to a client or a ledger."""
