"""Loads by Spark: does what the driver of a submitted job does, in the worker's own process, on a shared cluster.

The driver is this process, so it dies with the worker. Executors are killed by :mod:`tests.chaos.executors`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.ledger.entries import Attempted
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.sinks import sink
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from dev.spark_packages import jars_of
from tests.chaos.plan import TWINS
from tests.chaos.ranges import Offsets

EXECUTOR_MB = 512
"""The smallest heap that Spark accepts is 450 MiB."""


def connector_jars() -> str:
    """The Kafka connector's jars, for ``spark.jars``."""
    return jars_of("connector")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Spark cluster, as a driver reaches it.

    :param master: its URL.
    :param jars: the Kafka connector's, for ``spark.jars``.
    """

    master: str
    jars: str

    def session(self) -> SparkSession:
        """A session of an application with one executor with one core."""
        confs = {
            "spark.jars": self.jars,
            "spark.cores.max": "1",
            "spark.executor.memory": f"{EXECUTOR_MB}m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.log.level": "OFF",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            # Compiling the plans for a few rows takes longer than running them.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            # No matter how often executors are killed, the application mustn't give up.
            "spark.deploy.maxExecutorRetries": "-1",
        }
        builder = SparkSession.builder.master(self.master).appName("chaos")
        return builder.config(map=confs).getOrCreate()


class _Sink(FileSink):
    """Files of a store and of its twin, in one folder.

    :param meanwhile: called after the driver has checked that these are the window's topics, and before it reads them.
    """

    def __init__(self, output: Path, store: str, meanwhile: Callable[[], None]) -> None:
        first = {twin: each for each, twin in TWINS.items()}.get(store, store)
        super().__init__((output / first).as_uri())
        self._meanwhile = meanwhile

    def replace(self, rows: DataFrame, attempt: sink.Attempt) -> str | None:
        self._meanwhile()
        return super().replace(rows, attempt)


class SparkLoader:
    """Loads windows with one session, which is created when it is first needed.

    :param output: the folder for the output.
    """

    def __init__(self, cluster: Cluster, bootstrap_servers: str, output: Path) -> None:
        self._cluster = cluster
        self._kafka = {"kafka.bootstrap.servers": bootstrap_servers}
        self._output = output
        self._session: SparkSession | None = None

    def close(self) -> None:
        if self._session is not None:
            self._session.stop()

    def load(
        self, store: str, ledger: Ledger, pinned: PinnedManifest, attempt: Attempted, meanwhile: Callable[[], None]
    ) -> None:
        """Read and write what an attempt has of a window, and write the counts to the ledger."""
        self._session = self._session or self._cluster.session()
        # Transactions leave gaps.
        conf = RunConf(pinned.uri, pinned.sha256, attempt.number, self._kafka, ledger.state.number, allow_gaps=True)
        window = PinnedWindow.open(self._session, conf)
        window.write(window.read(), _Sink(self._output, store, meanwhile))


def published_offsets(output: str | None) -> Offsets:
    """The offsets that a driver has written to its folder."""
    found: dict[tuple[str, int], list[int]] = {}
    for file in [] if output is None else Path(urlsplit(output).path).glob("*.parquet"):
        for key, offsets in offsets_in(str(file)).items():
            found.setdefault(key, []).extend(offsets)
    return found


def offsets_in(file: str) -> Offsets:
    """The offsets in a file, read without Spark."""
    found: dict[tuple[str, int], list[int]] = {}
    table = pyarrow.parquet.ParquetFile(urlsplit(file).path).read(["topic", "partition", "offset"])
    for topic, partition, offset in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found.setdefault((topic, partition), []).append(offset)
    return found
