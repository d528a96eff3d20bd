"""Cores: how many tasks of Spark run at the same time, as far as the driver knows."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.hadoop import is_connect


def cores(spark: SparkSession) -> int | None:
    """How many tasks run at the same time: executors that the driver hasn't got yet don't count.

    Under Spark Connect, which has no driver at hand, the conf ``spark.default.parallelism`` says it; None without.
    """
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    told = spark.conf.get("spark.default.parallelism", None)
    return int(told) if told else None
