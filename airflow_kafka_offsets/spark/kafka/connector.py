"""Spark's Kafka connector: it comes with ``--packages``, and who submits by hand may leave that out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError

_NO_SOURCE = "Failed to find data source: kafka"


@contextmanager
def connector_required(spark: SparkSession) -> Iterator[None]:
    """Say which package is missing, where Spark says that it has no source of that name. A client of Spark Connect
    hears it when the rows are written.

    :raises ConfigurationError: naming it.
    """
    try:
        yield
    except AnalysisException as error:
        if _NO_SOURCE not in str(error):
            raise
        raise ConfigurationError(
            "Spark's Kafka connector is missing: add "
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version} to packages= (--packages of spark-submit)."
        ) from error
