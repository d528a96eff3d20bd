"""Exact Kafka offsets for Airflow: list, wait on, keep, and hand to Spark.

Imports nothing from Airflow, which loads this package while it is still loading itself.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # a Spark driver may run any Python version
    raise ImportError(
        f"This is Python {sys.version.split()[0]} ({sys.executable}), and airflow-kafka-offsets needs 3.10 or newer on "
        "Spark's driver: set the conf spark.pyspark.python, or PYSPARK_PYTHON, to a newer one."
    )

__version__ = "0.1.0"
