"""The Spark application whose classes are archived. It is a separate program, because this folder has a module named
kafka."""

from __future__ import annotations

import tempfile

from pyspark.sql import Observation, SparkSession, functions as F


def load() -> None:
    """Do what a load does, on a few rows: write and read files, a shuffle, an observation, a Python worker."""
    spark = SparkSession.builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for format_ in ("parquet", "json", "orc"):
            rows = spark.range(10).withColumn("name", F.udf(str)("id"))
            rows.observe(Observation(), F.count("*")).write.format(format_).save(f"{folder}/{format_}")
            spark.read.format(format_).load(f"{folder}/{format_}").groupBy("name").agg(F.max("id")).collect()
    spark.stop()


if __name__ == "__main__":
    load()
