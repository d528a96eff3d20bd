"""Benchmarks: this package against named peers, on real brokers, in one run. Run them with ``make bench``."""

import os

# Before anything imports Airflow, which would log each request.
os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "WARNING")
