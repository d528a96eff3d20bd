"""Combines the client and the ledger. Below the Airflow classes."""
