"""A load that loses rows on its way, or that fails before it publishes, by its second argument."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import FileSink, pinned_window


def shaped(rows: DataFrame, how: str) -> DataFrame:
    if how == "raises":
        raise ValueError("no carrier of that name: XX")
    return rows.where("offset % 2 = 0")


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    window = pinned_window(spark)
    try:
        window.write(shaped(window.read(), sys.argv[2]), FileSink(sys.argv[1]))
    finally:
        spark.stop()
