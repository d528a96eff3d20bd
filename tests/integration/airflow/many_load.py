"""An application that loads all its windows, and says how much of Java's heap is in use now and then."""

from __future__ import annotations

import sys
from itertools import count
from threading import Lock

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import DeltaSink, FileSink, PinnedWindow, Sink, load_windows

EVERY = 5
"""Windows between two looks at the heap."""


def main(sink: str, output: str) -> None:
    """Load them."""
    spark = SparkSession.builder.getOrCreate()
    loaded, lock = count(1), Lock()

    def place() -> Sink:
        return DeltaSink(output) if sink == "delta" else FileSink(output)

    def load_one(window: PinnedWindow) -> None:
        window.write(window.read(by_topic="{topic}" in output), place())
        with lock:
            number = next(loaded)
            if number % EVERY == 0:
                print(f"heap after {number}: {_used_bytes(spark)}", flush=True)

    try:
        load_windows(spark, load_one)
    finally:
        spark.stop()


def _used_bytes(spark: SparkSession) -> int:
    """What Java can't give back."""
    java = spark._jvm
    assert java is not None
    java.java.lang.System.gc()
    runtime = java.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


if __name__ == "__main__":
    main(*sys.argv[1:])
