"""Count flights per hour and carrier. Records that lack either field, or aren't JSON, go to a second output.

The Dag ``flights_per_hour`` submits this job, with the folders of both outputs as arguments. Kafka is read only once.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.spark import Derived, FileSink, pinned_window

FLIGHT = "time_hour STRING, carrier STRING, distance INT"
READABLE = "flight.time_hour IS NOT NULL AND flight.carrier IS NOT NULL"


def parsed(records: DataFrame) -> DataFrame:
    """The records, with their JSON fields in ``flight``; a field is null if the JSON lacks it."""
    return records.withColumn("flight", F.from_json(F.col("value").cast("string"), FLIGHT))


def per_hour(records: DataFrame) -> DataFrame:
    """One row for each hour and carrier."""
    flights = parsed(records).where(READABLE).groupBy("flight.time_hour", "flight.carrier")
    return flights.agg(F.count("*").alias("flights"), F.sum("flight.distance").alias("miles"))


def unreadable(records: DataFrame) -> DataFrame:
    """The other records, unchanged."""
    return parsed(records).where(f"NOT ({READABLE})").drop("flight")


if __name__ == "__main__":
    output, dead_letters = sys.argv[1:]
    window = pinned_window(SparkSession.builder.appName("flights_per_hour").getOrCreate())
    window.write_derived(per_hour, FileSink(output), unreadable=Derived(unreadable, FileSink(dead_letters)))
