"""What somebody would write by hand for one small window: the same offsets, from Kafka into a table. It is run by
``spark-submit``, and uses nothing of this package."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession, functions as F


def main() -> None:
    """Read the offsets, and write Parquet files; or into a Delta table, in place of the window's earlier rows."""
    parser = argparse.ArgumentParser()
    for name in ("--servers", "--topic", "--starts", "--ends", "--output", "--window"):
        parser.add_argument(name, required=True)
    parser.add_argument("--delta", action="store_true")
    given = parser.parse_args()
    spark = SparkSession.builder.appName("bare").getOrCreate()
    options = {
        "kafka.bootstrap.servers": given.servers,
        "subscribe": given.topic,
        "startingOffsets": given.starts,
        "endingOffsets": given.ends,
    }
    rows = spark.read.format("kafka").options(**options).load()
    if given.delta:
        writer = rows.withColumn("window", F.lit(given.window)).write.format("delta").mode("overwrite")
        writer.option("replaceWhere", f"window = '{given.window}'").partitionBy("window").save(given.output)
    else:
        rows.write.parquet(f"{given.output}/window={given.window}")
    spark.stop()


if __name__ == "__main__":
    main()
