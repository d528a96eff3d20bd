"""Where the client and the ledger meet. Below the Airflow classes."""
