"""Exact Kafka offsets for Airflow: list, wait on, keep, and hand to Spark.

Imports nothing: Airflow loads this package while it is still loading itself.
"""

__version__ = "0.1.0"
