"""A window under Spark Connect: the session is a client of another process, and has no driver at hand."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError, LedgerError, UnprovenError
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.spark.conf import RunConf
from airflow_kafka_offsets.spark.file_sink import FileSink
from airflow_kafka_offsets.spark.pinned import PinnedWindow, pinned_window
from dev.java import java_home
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports

# The client's own libraries: gRPC's generated code and pandas.
pytestmark = pytest.mark.filterwarnings("default")

OpenConnected = Callable[..., PinnedWindow]


@pytest.fixture(scope="module")
def connect_url(connector: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of Spark Connect with the Kafka connector."""
    (port,) = free_ports(1)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]", "--jars", connector]
    confs = {"connect.grpc.binding.port": port, "ui.enabled": "false", "sql.shuffle.partitions": 2}
    for name, value in confs.items():
        command += ["--conf", f"spark.{name}={value}"]
    server = JavaServer("Spark Connect", tmp_path_factory.mktemp("connect") / "server.log")
    environment = {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": HOST}
    with pytest.MonkeyPatch.context() as patch:
        for name, text in environment.items():
            patch.setenv(name, text)
        server.launch([*command, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"])
    server.wait_until(lambda: _listens(port))
    yield f"sc://{HOST}:{port}"
    server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


@pytest.fixture
def connected(connect_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session of a client. PySpark's functions look at this variable, which ``builder.remote()`` sets for good: the
    other tests of this process have a session with a JVM."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(connect_url).create()
    yield session
    session.client.close()


@pytest.fixture
def open_connected(connected: Any, pin: Callable[..., RunConf]) -> OpenConnected:
    """Open a window by its manifest's URI and hash. The brokers' address is in a conf, as Airflow's ``config_kwargs``
    would set it."""

    def open_(manifest: Manifest) -> PinnedWindow:
        told = pin(manifest)
        for name, value in told.kafka.items():
            connected.conf.set(f"spark.kafkaOffsets.{name}", value)
        return pinned_window(connected, told.manifest_uri, told.sha256)

    return open_


class TestReading:
    def test_a_window_is_read_and_audited(self, open_connected: OpenConnected, manifest: Manifest) -> None:
        window = open_connected(manifest)
        rows = window.read().select("partition", "offset").collect()
        found = {number: sorted(row.offset for row in rows if row.partition == number) for number in (0, 2)}
        assert found == {0: list(range(10, 90)), 2: list(range(125))}
        assert window.audit.count == 205
        assert window.audit.outside_window == 0

    def test_it_is_audited_as_its_rows_are_written(
        self, open_connected: OpenConnected, manifest: Manifest, table: str
    ) -> None:
        window = open_connected(manifest)
        window.read(strict_time=True).write.parquet(table)
        assert window.audit.count == 205
        assert window.spark.read.parquet(table).where("NOT outside_window").count() == 205

    def test_an_empty_window_has_no_rows(self, open_connected: OpenConnected, empty_manifest: Manifest) -> None:
        """S6."""
        window = open_connected(empty_manifest)
        assert window.read().count() == 0
        assert window.audit.count == 0

    @pytest.mark.timeout(50)
    def test_rows_that_no_action_has_read_are_not_waited_for(
        self, open_connected: OpenConnected, manifest: Manifest
    ) -> None:
        window = open_connected(manifest)
        rows = window.read()
        with pytest.raises(UnprovenError, match="no count"):
            _ = window.audit
        assert rows.where("false").count() == 0
        with pytest.raises(UnprovenError, match="no count"):
            _ = window.audit


class TestRefusals:
    def test_publishing_needs_the_driver(self, open_connected: OpenConnected, manifest: Manifest, table: str) -> None:
        window = open_connected(manifest)
        with pytest.raises(ConfigurationError, match="Spark Connect can read and audit"):
            window.publish(window.read(), FileSink(table))
        assert not Path(table.removeprefix("file://")).exists()

    def test_a_manifest_that_was_changed_or_is_missing_is_not_read(
        self, connected: Any, pin: Callable[..., RunConf], manifest: Manifest
    ) -> None:
        told = pin(manifest)
        with pytest.raises(LedgerCorruptError, match="The manifest"):
            pinned_window(connected, told.manifest_uri, "1234")
        with pytest.raises(LedgerCorruptError, match="There is no manifest"):
            pinned_window(connected, told.manifest_uri + ".no", told.sha256)
        with pytest.raises(LedgerError, match="Reading nosuch://"):
            pinned_window(connected, "nosuch://bucket/manifest.json", told.sha256)
