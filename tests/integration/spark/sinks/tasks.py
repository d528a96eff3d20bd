"""Tasks of one pipeline, which load into one table: they resolve, submit to drivers that stay, and publish."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import ObjectStoragePath
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.spark import read_published
from airflow_kafka_offsets.spark.published import TABLES
from airflow_kafka_offsets.spark.sinks.file_sink import FILE_FORMATS
from dev.kafka import Broker
from tests.integration.airflow.conftest import InSparksPlace, TaskStateStore, in_sparks_place, use_connection
from tests.integration.conftest import Produce
from tests.integration.spark.sinks.resident import ASK, resident
from tests.integration.spark.test_pinned_window import offsets

__all__ = ["in_sparks_place"]  # a fixture, that pytest finds here

DRIVER = "local[2]"
"""The master by which the program in Spark's place finds the driver in this process; ``spark_default`` names it."""
XCom = dict[str, Any]
Rows = dict[int, list[int]]
"""Offsets by partition."""
START = datetime(2026, 11, 20, 6, tzinfo=UTC)
PERIOD, LENGTH = timedelta(seconds=100), timedelta(seconds=50)
"""From one window to the next, and of each."""


@pytest.fixture(scope="session")
def sockets() -> Iterator[Path]:
    """The folder of the drivers' sockets, whose names may have no more than a hundred letters."""
    with tempfile.TemporaryDirectory(prefix="drivers-") as folder:
        yield Path(folder)


@pytest.fixture
def driver(
    spark: SparkSession,
    sockets: Path,
    broker: Broker,
    in_sparks_place: InSparksPlace,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """This process's session, and what submits to it."""
    in_sparks_place(ASK)
    monkeypatch.setenv("DRIVERS", str(sockets))
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": broker.bootstrap_servers})
    with resident(spark, sockets / DRIVER):
        yield


def place_of_table(kind: str, folder: Path) -> str:
    """Where a new table is to be."""
    return f"lake.flights.t_{os.urandom(6).hex()}" if kind == "iceberg" else f"{folder.as_uri()}/table"


@dataclass(slots=True)
class Tasks:
    """A pipeline called ``loads``, and its current window.

    :param root: folder of its ledger, a URI.
    :param topic: of one partition.
    :param kind: the table's.
    :param output: the table.
    :param produce: writes to the cluster.
    :param spark: who looks.
    :param kafka_conn_id: the cluster.
    :param number: the window's.
    """

    root: str
    topic: str
    kind: str
    output: str
    produce: Produce
    spark: SparkSession
    kafka_conn_id: str = "kafka_default"
    number: int = 0
    _tries: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def ledger(self) -> Ledger:
        return Ledger(ObjectStoragePath(self.root), "loads")

    @property
    def start(self) -> datetime:
        return START + self.number * PERIOD

    def write(self, *seconds: float) -> None:
        """Records so many seconds after the window's start."""
        begun_ms = int(self.start.timestamp() * 1000)
        self.produce(self.topic, 0, [(begun_ms + int(each * 1000), None, b"x") for each in seconds])

    def resolve(self) -> XCom:
        """The current window."""
        pipeline = KafkaPipeline("loads", self.topic, kafka_conn_id=self.kafka_conn_id, ledger_root=self.root)
        return KafkaResolveWindowOperator(
            task_id="resolve",
            pipeline=pipeline,
            start=self.start.isoformat(),
            end=(self.start + LENGTH).isoformat(),
        ).execute(self._context("resolve"))

    def load(
        self, window: XCom, run: str = "r", conn_id: str = "spark_default", *, reload: bool = False
    ) -> XCom | BaseException:
        """Run the load's task; what it returned, or failed with.

        :param run: the Dag run.
        :param conn_id: the driver's.
        """
        task = KafkaSparkSubmitOperator(
            task_id="load",
            window=window,
            reload=reload,
            conn_id=conn_id,
            application_args=["--sink", self.kind, "--output", self.output],
        )
        try:
            return task.execute(self._context(run))
        except (KafkaOffsetsError, AirflowFailException) as error:
            return error.__cause__ or error

    def _context(self, run: str) -> Any:
        ti = SimpleNamespace(
            dag_id="d", run_id=run, task_id="load", map_index=-1, try_number=next(self._tries), max_tries=9
        )
        return {"ti": ti, "task_state_store": TaskStateStore()}

    def publication(self, window: XCom) -> Published | None:
        """What counts of a window."""
        return self.ledger.window(window["window"]).publication

    def in_table(self, window: XCom) -> Rows:
        """What the table holds of a window, whoever wrote it; of files, what the attempt that counts has written."""
        if self.kind in FILE_FORMATS:
            counts = self.publication(window)
            return offsets(self.spark.read.format(self.kind).load(counts.outputs[0].output)) if counts else {}
        table = TABLES[self.kind](self.output).rows(self.spark)
        return offsets(table.where(table["window"] == window["window"]))

    def read(self) -> Rows:
        """What readers see of the current window."""
        return offsets(read_published(self.spark, f"{self.root}/loads", start=self.start, end=self.start + LENGTH))

    def truth(self, window: XCom) -> Published:
        """What counts: ledger, readers and table agree on the rows, each of which is there once."""
        ledger = self.ledger
        found = ledger.window(window["window"])
        counts = found.publication
        assert counts is not None
        (only,) = ledger.pinned(found).manifest.ranges
        wanted = {0: list(range(only.start_offset, only.end_offset))}
        assert (self.in_table(window), self.read(), counts.rows) == (wanted, wanted, len(wanted[0]))
        return counts
