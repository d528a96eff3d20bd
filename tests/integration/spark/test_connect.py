"""A window under Spark Connect: the session is a client of another process, and has no driver at hand."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest

from airflow_kafka_offsets.errors import ConfigurationError, LedgerCorruptError, UnprovenError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import Sink, read_published
from airflow_kafka_offsets.spark.pinned import PinnedWindow, pinned_window
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from dev.java import java_home
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports
from tests.integration.spark.conftest import SMALL, Pin, table_confs
from tests.integration.spark.publishing import driver_of, publish
from tests.integration.spark.sinks.conftest import EXPECTED, make_sink
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.offsets.proof.results import source_of
from tests.unit.spark import ledgers

__all__ = ["make_sink"]  # a fixture, that pytest finds here

# The client's own libraries: gRPC's generated code and pandas.
pytestmark = pytest.mark.filterwarnings("default")

OpenConnected = Callable[..., PinnedWindow]


@pytest.fixture(scope="module")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server's event log."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def connect_url(
    connector: str, table_jars: str, event_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server of Spark Connect with the Kafka connector, and tables of Delta Lake and Iceberg."""
    (port,) = free_ports(1)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--jars", f"{connector},{table_jars}"]
    folder = tmp_path_factory.mktemp("connect")
    confs = {"spark.connect.grpc.binding.port": port} | SMALL | table_confs(folder / "warehouse")
    confs |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": event_log.as_uri()}
    confs |= {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    for name, value in confs.items():
        command += ["--conf", f"{name}={value}"]
    server = JavaServer("Spark Connect", folder / "server.log")
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


@pytest.fixture(scope="module")
def session(connect_url: str) -> Iterator[Any]:
    """A session of a client. One for all: closing one closes what others of its process run by."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        from pyspark.sql.connect.session import SparkSession

        made = SparkSession.builder.remote(connect_url).create()
    yield made
    made.client.close()


@pytest.fixture
def connected(session: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """PySpark's functions look at this variable, which ``builder.remote()`` sets for good: the other tests of this
    process have a session with a JVM."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return session


@pytest.fixture
def open_connected(connected: Any, pin: Pin) -> OpenConnected:
    """Open a window by its manifest's URI and hash. The brokers' address is in a conf, as Airflow's ``config_kwargs``
    would set it."""

    def open_(manifest: Manifest, attempt: int | None = None, **how: Any) -> PinnedWindow:
        told = pin(manifest, attempt, **how)
        for name, value in told.kafka.items():
            connected.conf.set(f"spark.kafkaOffsets.{name}", value)
        return pinned_window(connected, told.manifest_uri, told.sha256, told.attempt, allow_gaps=told.allow_gaps)

    return open_


def asked_of(window: PinnedWindow, result: RunResult) -> RunResult:
    """As Airflow's side keeps it, once Kafka has told that the topics are the window's own."""
    return replace(result, source=source_of(window.manifest))


class TestReading:
    def test_what_was_lost_before_the_attempt_began_is_left_out(
        self, open_connected: OpenConnected, manifest: Manifest, flights: str
    ) -> None:
        """The client reads the ledger's log by Spark jobs, checkpoints and all."""
        window = open_connected(manifest, lost=[LogRange(flights, 2, 0, 100)])
        assert offsets(window.read()) == {0: list(range(10, 90)), 2: list(range(100, 125))}

    def test_a_long_log_is_read_from_its_checkpoint(
        self, open_connected: OpenConnected, manifest: Manifest, our_ledger: Ledger, ledger: Path
    ) -> None:
        open_connected(manifest)
        for _ in range(60):
            ledgers.begin(our_ledger, our_ledger.window(manifest.window))
        window = open_connected(manifest)
        assert list((ledger / "checkpoints").iterdir())
        assert driver_of(window).number == our_ledger.state.number

    def test_an_empty_window_has_no_rows(self, open_connected: OpenConnected, empty_manifest: Manifest) -> None:
        """S6."""
        window = open_connected(empty_manifest)
        assert window.read().count() == 0

    def test_the_password_is_in_no_event_of_the_server(
        self, open_connected: OpenConnected, manifest: Manifest, table: str, event_log: Path
    ) -> None:
        """A server posts each plan, with its options, to its UI and its event log."""
        window = open_connected(manifest)
        window.spark.conf.set("spark.sql.redaction.string.regex", "ownsecret[0-9]+")
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="HUNTER2";'
        rows = window.read(**{"kafka.sasl.jaas.config": login})
        window.write(rows.where("value IS DISTINCT FROM 'ownsecret7'"), FileSink(table))
        posted = "".join(file.read_text() for file in event_log.iterdir())
        assert "SparkListenerConnectOperationStarted" in posted
        assert "sasl.jaas.config" not in posted
        assert ("HUNTER2" in posted, "ownsecret7" in posted) == (False, False)


_MORE = pytest.mark.nightly("another table or format by Spark Connect; sinks/test_every_sink.py writes each")


@pytest.fixture(params=["parquet", *(pytest.param(each, marks=_MORE) for each in ("json", "delta", "iceberg"))])
def sink(request: pytest.FixtureRequest, make_sink: Callable[[str], Sink]) -> Sink:
    return make_sink(request.param)


class TestWriting:
    """What a driver would say in the ledger is handed over; the rest is Airflow's side either way."""

    def test_a_window_is_written_and_proved_and_read_once_it_is_published(
        self,
        connected: Any,
        open_connected: OpenConnected,
        manifest: Manifest,
        sink: Sink,
        ledger: Path,
        ledger_uri: str,
    ) -> None:
        window = open_connected(manifest)
        result = window.write(window.read(), sink)

        assert (result.rows_written, result.source, result.application_id) == (205, None, None)
        assert RunResult.from_json(json.loads(json.dumps(result.to_json()))) == result
        asked = replace(result, source=source_of(window.manifest))
        assert judge(window.manifest, asked).proved
        assert not judge(window.manifest, result).proved, "nobody has asked Kafka"
        (only,) = (ledger / "windows" / manifest.window).iterdir()
        assert only.name == f"{window.manifest.sha256}.json", "a client writes nothing into the ledger"

        publish(window, asked)
        assert offsets(read_published(connected, ledger_uri)) == EXPECTED

    @pytest.mark.nightly("each sink once more by Spark Connect; the test above publishes to each")
    def test_another_client_of_a_published_attempt_is_given_its_counts(
        self, open_connected: OpenConnected, manifest: Manifest, sink: Sink
    ) -> None:
        first = open_connected(manifest)
        published = asked_of(first, first.write(first.read(), sink))
        publish(first, published)
        again = open_connected(manifest, driver_of(first).number)
        nowhere = {"kafka.bootstrap.servers": "127.0.0.1:1"}
        assert again.write(again.read(**nowhere), sink) == published

    def test_rows_that_were_dropped_are_not_proved(
        self, open_connected: OpenConnected, manifest: Manifest, table: str
    ) -> None:
        window = open_connected(manifest)
        with pytest.raises(UnprovenError, match="-2 lacks 1 of 125 rows"):
            window.write(window.read().where("NOT (partition = 2 AND offset = 7)"), FileSink(table))


class TestRefusals:
    """What a client can't do is refused before anything is read, all in the same words."""

    WORDS = "needs a session with a driver of its own, and this is a client of Spark Connect"

    def test_a_window_whose_offsets_may_have_no_record(
        self, open_connected: OpenConnected, sparse: Manifest, table: str
    ) -> None:
        window = open_connected(sparse, allow_gaps=True)
        with pytest.raises(ConfigurationError, match=rf"allow_gaps.*{self.WORDS}"):
            window.write(window.read(), FileSink(table))
        assert not Path(table.removeprefix("file://")).exists()

    def test_without_leave_it_is_not_proved(self, open_connected: OpenConnected, sparse: Manifest, table: str) -> None:
        window = open_connected(sparse)
        with pytest.raises(UnprovenError, match="-0 lacks 40 of 48 rows"):
            window.write(window.read(), FileSink(table))

    def test_derived_rows(self, open_connected: OpenConnected, manifest: Manifest, table: str) -> None:
        with pytest.raises(ConfigurationError, match=f"Deriving rows.*{self.WORDS}"):
            open_connected(manifest).write_derived(lambda rows: rows, FileSink(table))

    def test_a_write_without_an_attempt(self, connected: Any, pin: Pin, manifest: Manifest, table: str) -> None:
        told = pin(manifest)
        window = pinned_window(connected, told.manifest_uri, told.sha256)
        rows = window.read(**told.kafka)
        with pytest.raises(ConfigurationError, match="it has no attempt at it"):
            window.write(rows, FileSink(table))

    def test_a_manifest_that_was_changed_or_is_missing_is_not_read(
        self, connected: Any, pin: Pin, manifest: Manifest
    ) -> None:
        told = pin(manifest)
        with pytest.raises(LedgerCorruptError, match="The manifest"):
            pinned_window(connected, told.manifest_uri, "1234")
        with pytest.raises(LedgerCorruptError, match="There is no manifest"):
            pinned_window(connected, told.manifest_uri.replace(told.sha256, "no"), told.sha256)
        with pytest.raises(ConfigurationError, match="Spark has no client for nosuch://"):
            pinned_window(connected, "nosuch://bucket/windows/w/ab.json", told.sha256)
