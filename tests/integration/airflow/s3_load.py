"""A load whose driver dies the first time, once its rows are written."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Attempt, FileSink, pinned_window


class Mortal(FileSink):
    """Files whose driver dies once they are written, the first time."""

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        written = super().replace(rows, attempt)
        died = Path(sys.argv[2])
        if not died.exists():
            died.touch()
            os.kill(os.getppid(), signal.SIGKILL)  # its JVM, which is spark-submit
            os.kill(os.getpid(), signal.SIGKILL)
        return written


if __name__ == "__main__":
    window = pinned_window(SparkSession.builder.getOrCreate())
    window.write(window.read(), Mortal(sys.argv[1]))
