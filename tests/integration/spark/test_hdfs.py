"""A ledger and a table on HDFS, as the driver sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.publication import publication_file
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.ledger_names import PUBLICATIONS
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt
from airflow_kafka_offsets.spark import FileSink
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import read_published
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.session.files import HadoopFiles
from dev.hdfs import Hdfs
from dev.kafka import Broker
from tests.integration.spark.test_pinned_window import offsets


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with Hdfs() as running:
        yield running


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


class TestLoad:
    def test_a_window_is_read_from_counted_in_and_found_in_a_ledger_on_hdfs(
        self, spark: SparkSession, files: HadoopFiles, hdfs: Hdfs, manifest: Manifest, broker: Broker
    ) -> None:
        """The ledger's files are put there as Airflow would."""
        pipeline = f"{hdfs.uri}/ledger/flights"
        folder = f"{pipeline}/windows/{manifest.window[:6]}/{manifest.window}"
        identity = {"ledger_id": manifest.ledger_id, "pipeline": manifest.pipeline}
        files.write(f"{pipeline}/pipeline.json", json.dumps(identity).encode())
        files.write(f"{folder}/manifest.json", manifest.to_bytes())
        told = RunConf(
            f"{folder}/manifest.json", manifest.sha256, "try-1", {"kafka.bootstrap.servers": broker.bootstrap_servers}
        )

        sink = FileSink(f"{hdfs.uri}/table")
        window = PinnedWindow.open(spark, told)
        result = window.write(window.read(), sink)
        content = files.read(f"{folder}/results/try-1.json")
        assert content is not None
        assert RunResult.from_json(json.loads(content)) == result
        pinned = PinnedManifest(told.manifest_uri, told.sha256, manifest)
        published = CountedAttempt(pinned, result, digest(content)).publication(1, None)
        files.write(f"{folder}/{PUBLICATIONS}/{publication_file(1)}", published.to_bytes())

        again = PinnedWindow.open(spark, replace(told, attempt="try-2"))
        assert again.write(again.read(), sink) == result
        assert offsets(read_published(spark, pipeline)) == {0: list(range(10, 90)), 2: list(range(125))}
