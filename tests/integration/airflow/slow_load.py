"""A load that takes a quarter of a second for each record, in eight tasks of Spark's, so that tests can watch it."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession, functions as F

from airflow_kafka_offsets.spark import FileSink, pinned_window

SLEEP = "java_method('java.lang.Thread', 'sleep', 250L)"

if __name__ == "__main__":
    window = pinned_window(SparkSession.builder.getOrCreate())
    window.write(window.read().repartition(8).withColumn("slept", F.expr(SLEEP)), FileSink(sys.argv[1]))
