"""A ledger and a table on HDFS, which creates a file exclusively by renaming."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.offsets.ledger_identity import LedgerIdentity
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.spark.conf import RunConf
from airflow_kafka_offsets.spark.hadoop import HadoopFiles
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import read_published
from dev.hdfs import Hdfs
from dev.kafka import Broker
from tests.integration.spark.publishing import load
from tests.integration.spark.test_pinned_window import offsets


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with Hdfs() as running:
        yield running


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


class TestExclusiveCreation:
    def test_one_of_many_writers_wins_and_the_drafts_of_the_others_are_gone(
        self, files: HadoopFiles, hdfs: Hdfs
    ) -> None:
        uri = f"{hdfs.uri}/window/committed.json"
        contents = [f"writer {number}".encode() for number in range(16)]

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda content: files.create_exclusive(uri, content), contents))

        assert won.count(True) == 1
        assert files.read(uri) == contents[won.index(True)]
        assert files.names(f"{hdfs.uri}/window") == ["committed.json"]

    def test_a_writer_whose_first_request_got_through_unheard_wins(self, files: HadoopFiles, hdfs: Hdfs) -> None:
        uri = f"{hdfs.uri}/again/committed.json"

        assert files.create_exclusive(uri, b"ours")
        assert files.create_exclusive(uri, b"ours")
        assert not files.create_exclusive(uri, b"theirs")


class TestRename:
    def test_a_folder_takes_a_free_name_and_no_other(self, files: HadoopFiles, hdfs: Hdfs) -> None:
        files.require_atomic_rename(f"{hdfs.uri}/moves", f"{hdfs.uri}/plain")
        for name in ("first", "second"):
            files.write(f"{hdfs.uri}/moves/{name}/part", name.encode())

        assert files.rename(f"{hdfs.uri}/moves/first", f"{hdfs.uri}/plain/window=1")
        assert not files.rename(f"{hdfs.uri}/moves/second", f"{hdfs.uri}/plain/window=1")
        assert files.read(f"{hdfs.uri}/plain/window=1/part") == b"first"


class TestLoad:
    def test_a_window_is_read_from_published_to_and_found_in_a_ledger_on_hdfs(
        self, spark: SparkSession, files: HadoopFiles, hdfs: Hdfs, manifest: Manifest, broker: Broker
    ) -> None:
        """The ledger's files are put there as Airflow would."""
        pipeline = f"{hdfs.uri}/ledger/flights"
        folder = f"{pipeline}/windows/{manifest.window[:6]}/{manifest.window}"
        identity = LedgerIdentity(manifest.ledger_id, manifest.pipeline)
        files.write(f"{pipeline}/pipeline.json", identity.to_bytes())
        files.write(f"{folder}/manifest.json", manifest.to_bytes())
        told = RunConf(
            f"{folder}/manifest.json", manifest.sha256, "try-1", {"kafka.bootstrap.servers": broker.bootstrap_servers}
        )

        published = load(PinnedWindow.open(spark, told), f"{hdfs.uri}/table")
        again = load(PinnedWindow.open(spark, replace(told, attempt="try-2")), f"{hdfs.uri}/table")

        assert (published.rows, again.published_attempt) == (205, "try-1")
        assert offsets(read_published(spark, pipeline)) == {0: list(range(10, 90)), 2: list(range(125))}
