"""A load that takes its time over each row, so that a test can kill it half-way.

With a second argument, it reads nothing while there is a file of that name.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.spark import FileSink, pinned_window


def slowly(rows: DataFrame, held_by: list[str]) -> DataFrame:
    @F.udf("boolean")
    def wait(_offset: int) -> bool:
        time.sleep(0.2)
        while any(Path(file).exists() for file in held_by):
            time.sleep(0.1)
        return True

    return rows.withColumn("slow", wait("offset"))


if __name__ == "__main__":
    window = pinned_window(SparkSession.builder.getOrCreate())
    window.write(slowly(window.read(), sys.argv[2:]), FileSink(sys.argv[1]))
