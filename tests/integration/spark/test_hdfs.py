"""A ledger and a table on HDFS, as the driver sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.ledger.counted import counted as counted_by
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import FileSink
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import read_published
from airflow_kafka_offsets.spark.session.files import HadoopFiles
from dev.hdfs import Hdfs
from tests.integration.ledger.loads import publish_asked
from tests.integration.spark.conftest import Pin
from tests.integration.spark.publishing import driver_of
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.ledgers import ledger_in


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with Hdfs() as running:
        yield running


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


class TestLoad:
    def test_a_window_is_read_from_counted_in_and_found_in_a_ledger_on_hdfs(
        self, spark: SparkSession, files: HadoopFiles, hdfs: Hdfs, pin: Pin, manifest: Manifest, ledger: Path
    ) -> None:
        """The ledger's files are put there as Airflow would."""
        pipeline, here = f"{hdfs.uri}/ledger/flights", pin(manifest)
        _copy(files, ledger, pipeline)
        told = replace(here, manifest_uri=here.manifest_uri.replace(ledger.as_uri(), pipeline))

        window = PinnedWindow.open(spark, told)
        result = window.write(window.read(), FileSink(f"{hdfs.uri}/table"))
        driver = driver_of(window)
        place = f"windows/{manifest.window}/{driver.number}/{driver.run}.result.json"
        content = files.read(f"{pipeline}/{place}")
        assert content is not None
        assert RunResult.from_json(json.loads(content)) == result

        (ledger / place).parent.mkdir(parents=True)
        (ledger / place).write_bytes(content)
        _publish(ledger, manifest.window, driver.number)
        _copy(files, ledger, pipeline)
        again = PinnedWindow.open(spark, told)
        assert again.write(again.read(), FileSink(f"{hdfs.uri}/table")) == result
        assert offsets(read_published(spark, pipeline)) == {0: list(range(10, 90)), 2: list(range(125))}


def _publish(folder: Path, window: str, number: int) -> None:
    ledger = ledger_in(folder)
    (counted,) = counted_by(ledger, ledger.window(window), number)
    publish_asked(counted)


def _copy(files: HadoopFiles, folder: Path, uri: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            files.write(f"{uri}/{path.relative_to(folder)}", path.read_bytes())
