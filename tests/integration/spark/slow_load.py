"""A load that takes its time over each row, so that a test can kill it half-way."""

from __future__ import annotations

import sys
import time

from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.spark import FileSink, pinned_window


def slowly(rows: DataFrame) -> DataFrame:
    @F.udf("boolean")
    def wait(_offset: int) -> bool:
        time.sleep(0.2)
        return True

    return rows.withColumn("slow", wait("offset"))


if __name__ == "__main__":
    window = pinned_window(SparkSession.builder.getOrCreate())
    window.write(slowly(window.read()), FileSink(sys.argv[1]))
