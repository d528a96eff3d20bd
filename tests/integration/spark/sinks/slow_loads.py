"""A driver that loads one window into several sinks, slowly, so that a test can kill it or an executor.

Its argument: a list of loads as JSON, each of a manifest's URI and hash, the sink's kind, and what the sink is made
from. They run side by side. The conf ``spark.tests.lastMs`` says how long the last rows take.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import Sink, pinned_window
from airflow_kafka_offsets.spark.load import SINKS
from tests.integration.spark.sinks.example import PostgresSink
from tests.integration.spark.sinks.faults import slowly


@dataclass(frozen=True, slots=True)
class SlowLoad:
    """One window into one sink.

    :param output: what the sink is made from: path or name; for PostgreSQL its URL and the table's name.
    """

    manifest_uri: str
    sha256: str
    kind: str
    output: tuple[str, ...]

    def run(self, spark: SparkSession) -> str:
        """The attempt that is published."""
        window = pinned_window(spark, self.manifest_uri, self.sha256)
        rows = slowly(window.read(), int(spark.conf.get("spark.tests.lastMs")))
        return window.publish(rows, self.sink()).published_attempt

    def sink(self) -> Sink:
        return PostgresSink(*self.output) if self.kind == "postgres" else SINKS[self.kind](*self.output)


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    loads = [SlowLoad(*each) for each in json.loads(sys.argv[1])]
    with ThreadPoolExecutor(len(loads)) as pool:
        print(list(pool.map(lambda each: each.run(session), loads)))
    session.stop()
