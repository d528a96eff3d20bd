"""A driver that loads one window into several sinks, half of it and no more, so that a test can kill it or an executor.

Its arguments: a folder, in which a file ``go`` lets it go on; and a list of loads as JSON, each of a manifest's URI and
hash, the attempt's number, the sink's kind, and what the sink is made from. They run side by side.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import FileSink, Sink, pinned_window
from airflow_kafka_offsets.spark.load import SINKS
from tests.integration.spark.sinks.example import PostgresSink
from tests.integration.spark.sinks.faults import held_up

DERIVED = "derived"
"""Stands for a kind of sink: files of rows that a transform makes."""


def per_partition(records: DataFrame) -> DataFrame:
    return records.groupBy("partition").count()


@dataclass(frozen=True, slots=True)
class SlowLoad:
    """One window into one sink.

    :param output: what the sink is made from: path or name; for PostgreSQL its URL and the table's name.
    """

    manifest_uri: str
    sha256: str
    attempt: int
    kind: str
    output: tuple[str, ...]

    def run(self, spark: SparkSession, folder: Path) -> int:
        """The attempt whose rows there are."""
        window = pinned_window(spark, self.manifest_uri, self.sha256, self.attempt)
        if self.kind == DERIVED:
            sink = FileSink(*self.output)
            return window.write_derived(lambda rows: per_partition(held_up(rows, folder, but_for=0)), sink).attempt
        rows = held_up(window.read(), folder, but_for=0)
        return window.write(rows, self.sink()).attempt

    def sink(self) -> Sink:
        return PostgresSink(*self.output) if self.kind == "postgres" else SINKS[self.kind](*self.output)


def tell_of_the_first_task(spark: SparkSession, folder: Path) -> None:
    """Make a file ``first`` once a task of a stage is over and others aren't."""
    tracker = spark.sparkContext.statusTracker()
    while True:
        running = map(tracker.getStageInfo, tracker.getActiveStageIds())
        if any(each.numCompletedTasks for each in running if each is not None):
            break
        time.sleep(0.05)
    (folder / "first").touch()


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    Thread(target=tell_of_the_first_task, args=(session, Path(sys.argv[1])), daemon=True).start()
    loads = [SlowLoad(*each) for each in json.loads(sys.argv[2])]
    with ThreadPoolExecutor(len(loads)) as pool:
        print(list(pool.map(lambda each: each.run(session, Path(sys.argv[1])), loads)))
    session.stop()
