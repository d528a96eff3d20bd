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
from pyspark.sql import DataFrame

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    CountedTwiceError,
    LedgerConflictError,
    LedgerCorruptError,
    LedgerError,
    UnprovenError,
)
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import Sink, read_published
from airflow_kafka_offsets.spark.pinned import PinnedWindow, pinned_window
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from dev.java import java_home
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports
from tests.integration.spark.conftest import SMALL, MakeFlights, table_confs, window_folder
from tests.integration.spark.publishing import publish
from tests.integration.spark.sinks.conftest import EXPECTED, make_sink
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.offsets.proof.results import source_of
from tests.unit.spark.manifests import FIVE_MS, manifest_of

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
def open_connected(connected: Any, pin: Callable[..., RunConf]) -> OpenConnected:
    """Open a window by its manifest's URI and hash. The brokers' address is in a conf, as Airflow's ``config_kwargs``
    would set it."""

    def open_(manifest: Manifest, *, allow_gaps: bool = False) -> PinnedWindow:
        told = pin(manifest)
        for name, value in told.kafka.items():
            connected.conf.set(f"spark.kafkaOffsets.{name}", value)
        return pinned_window(connected, told.manifest_uri, told.sha256, allow_gaps=allow_gaps)

    return open_


def asked_of(window: PinnedWindow, result: RunResult) -> RunResult:
    """As Airflow's side keeps it, once Kafka has told that the topics are the window's own."""
    return replace(result, source=source_of(window.manifest))


class TestReading:
    def test_a_window_is_read_and_audited(self, open_connected: OpenConnected, manifest: Manifest) -> None:
        window = open_connected(manifest)
        rows = window.read(counted=True).select("partition", "offset").collect()
        found = {number: sorted(row.offset for row in rows if row.partition == number) for number in (0, 2)}
        assert found == {0: list(range(10, 90)), 2: list(range(125))}
        assert window.audit.count == 205
        assert window.audit.outside_window == 0

    @pytest.mark.nightly("TestWriting proves a window by Spark Connect")
    def test_it_is_audited_as_its_rows_are_written(
        self, open_connected: OpenConnected, manifest: Manifest, table: str
    ) -> None:
        window = open_connected(manifest)
        window.read(strict_time=True, counted=True).write.parquet(table)
        assert window.audit.count == 205
        assert window.spark.read.parquet(table).where("NOT outside_window").count() == 205

    def test_an_empty_window_has_no_rows(self, open_connected: OpenConnected, empty_manifest: Manifest) -> None:
        """S6."""
        window = open_connected(empty_manifest)
        assert window.read().count() == 0
        assert window.audit.count == 0

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

    @pytest.mark.nightly("waits for rows that do not come; the first test reads a window so")
    @pytest.mark.timeout(50)
    def test_rows_that_no_action_has_read_are_not_waited_for(
        self, open_connected: OpenConnected, manifest: Manifest
    ) -> None:
        window = open_connected(manifest)
        rows = window.read(counted=True)
        with pytest.raises(UnprovenError, match="no count"):
            _ = window.audit
        assert rows.where("false").count() == 0
        with pytest.raises(UnprovenError, match="no count"):
            _ = window.audit


_MORE = pytest.mark.nightly("another table or format by Spark Connect; sinks/test_every_sink.py writes each")


@pytest.fixture(params=["parquet", *(pytest.param(each, marks=_MORE) for each in ("json", "delta", "iceberg"))])
def sink(request: pytest.FixtureRequest, make_sink: Callable[[str], Sink]) -> Sink:
    return make_sink(request.param)


class TestWriting:
    """What a driver would say in the ledger is handed over; the rest is Airflow's side either way."""

    def test_a_window_is_written_and_proved_and_read_once_it_is_published(
        self, connected: Any, open_connected: OpenConnected, manifest: Manifest, sink: Sink, ledger: Path
    ) -> None:
        window = open_connected(manifest)
        result = window.write(window.read(), sink)

        assert (result.rows_written, result.source, result.application_id) == (205, None, None)
        assert RunResult.from_json(json.loads(json.dumps(result.to_json()))) == result
        asked = replace(result, source=source_of(window.manifest))
        assert judge(window.manifest, asked).proved
        assert not judge(window.manifest, result).proved, "nobody has asked Kafka"
        assert {each.name for each in window_folder(ledger, manifest).iterdir()} == {"manifest.json", "manifest.sha256"}

        publish(window, asked)
        assert offsets(read_published(connected, f"file://{ledger}")) == EXPECTED

    @pytest.mark.nightly("each sink once more by Spark Connect; the test above publishes to each")
    def test_a_window_that_is_published_is_counted_again_and_read_from_kafka_no_more(
        self, open_connected: OpenConnected, manifest: Manifest, sink: Sink
    ) -> None:
        first, again = open_connected(manifest), open_connected(manifest)
        published = replace(first.write(first.read(), sink), source=source_of(first.manifest))
        publish(first, published)
        nowhere = {"kafka.bootstrap.servers": "127.0.0.1:1"}
        assert again.write(again.read(**nowhere), sink) == published

    @pytest.mark.nightly("each sink once more by Spark Connect; the first test publishes to each")
    def test_a_retry_replaces_the_rows_of_one_that_was_not_published(
        self, open_connected: OpenConnected, manifest: Manifest, sink: Sink
    ) -> None:
        """The ledger has no note of the first one."""
        for _ in range(2):
            window = open_connected(manifest)
            result = window.write(window.read(), sink)
            assert (result.rows_written, result.attempt) == (205, window.attempt)

    def test_rows_outside_the_windows_time_are_kept_apart(
        self, connected: Any, open_connected: OpenConnected, flights: str, table: str, ledger: Path
    ) -> None:
        window = open_connected(manifest_of([(flights, 2, 0, 250)], end_ms=FIVE_MS + 100_000))
        result = window.write(window.read(strict_time=True), FileSink(table))
        assert (result.rows_written, result.outside_written) == (250, 150)
        publish(window, result)
        assert read_published(connected, f"file://{ledger}").count() == 100
        assert read_published(connected, f"file://{ledger}", outside=True).count() == 150

    @pytest.mark.nightly("of revisions; test_published.py has them without Spark Connect")
    def test_of_two_revisions_the_newer_one_is_read_and_a_forgotten_one_is_not(
        self,
        connected: Any,
        open_connected: OpenConnected,
        window_folders: WindowFolders,
        flights: str,
        table: str,
        ledger: Path,
    ) -> None:
        made = [manifest_of([(flights, 0, 0, end)]) for end in (60, 70)]
        for snapshot, each in enumerate(made, 8):
            window = open_connected(replace(each, end_snapshot=snapshot))
            publish(window, window.write(window.read(), FileSink(table)))
        assert read_published(connected, f"file://{ledger}").count() == 70
        window_folders.forget(made[0].window, "resolved too early")
        with pytest.raises(LedgerError, match="no published window"):
            read_published(connected, f"file://{ledger}")

    @pytest.mark.nightly("of revisions; test_published.py has them without Spark Connect")
    @pytest.mark.parametrize("kind", ["delta", "iceberg"])
    def test_a_table_that_a_newer_revision_was_loaded_into_is_not_read_until_that_is_published(
        self,
        connected: Any,
        open_connected: OpenConnected,
        flights: str,
        ledger: Path,
        make_sink: Callable[[str], Sink],
        kind: str,
    ) -> None:
        """The ledger has no note of it: the table's own commits tell."""
        sink = make_sink(kind)
        first = open_connected(manifest_of([(flights, 0, 0, 60)]))
        publish(first, asked_of(first, first.write(first.read(), sink)))
        newer = open_connected(replace(manifest_of([(flights, 0, 0, 70)]), end_snapshot=9))
        assert read_published(connected, f"file://{ledger}").count() == 60

        result = asked_of(newer, newer.write(newer.read(), sink))
        with pytest.raises(
            LedgerConflictError, match=r"\(revision 1\) are published, .* holds those of .*, revision 2"
        ):
            read_published(connected, f"file://{ledger}")
        publish(newer, result)
        assert read_published(connected, f"file://{ledger}").count() == 70

    def test_rows_that_were_dropped_are_not_proved(
        self, open_connected: OpenConnected, manifest: Manifest, table: str
    ) -> None:
        window = open_connected(manifest)
        with pytest.raises(UnprovenError, match="-2 lacks 1 of 125 rows"):
            window.write(window.read().where("NOT (partition = 2 AND offset = 7)"), FileSink(table))


@pytest.mark.nightly("TestWriting writes and proves a window by Spark Connect, test_writing.py one with gaps")
class TestGaps:
    """Offsets may be without a record: Kafka is read once more after the write, to be compared with."""

    def test_a_window_with_transactions_is_proved(
        self, connected: Any, open_connected: OpenConnected, sparse: Manifest, sink: Sink, ledger: Path
    ) -> None:
        window = open_connected(sparse, allow_gaps=True)
        result = window.write(window.read(), sink)
        assert (result.read.counted, result.read.count, result.rows_written, result.unread) == (True, 8, 8, ())
        verdict = judge(window.manifest, asked_of(window, result))
        assert (verdict.proved, verdict.gaps) == (True, 40)
        publish(window, asked_of(window, result))
        assert read_published(connected, f"file://{ledger}").count() == 8

    @pytest.mark.parametrize(
        ("spoil", "why"),
        [
            (lambda rows: rows.where("offset > 0"), "read 8 rows, wrote 7: the output lacks 1 of them"),
            (lambda rows: rows.limit(3), "read 8 rows, wrote 3: the output lacks 5 of them"),
            (lambda rows: rows.where("false"), "read 8 rows, wrote 0: the output lacks 8 of them"),
            (lambda rows: rows.union(rows.where("offset = 0")), "read 8 rows, wrote 9: rows were doubled"),
            (
                lambda rows: rows.where("offset > 0").union(rows.where("offset = 12")),
                "read and wrote 8 rows each, but not the same ones",
            ),
        ],
        ids=["a filter", "a limit", "no row is left", "a row is doubled", "as many dropped as doubled"],
    )
    def test_rows_that_are_not_the_logs_are_not_proved(
        self,
        open_connected: OpenConnected,
        sparse: Manifest,
        table: str,
        spoil: Callable[[DataFrame], DataFrame],
        why: str,
    ) -> None:
        window = open_connected(sparse, allow_gaps=True)
        with pytest.raises(UnprovenError, match=why):
            window.write(spoil(window.read()), FileSink(table))

    def test_without_leave_they_are_not_proved(
        self, open_connected: OpenConnected, sparse: Manifest, table: str
    ) -> None:
        window = open_connected(sparse)
        with pytest.raises(UnprovenError, match="-0 lacks 40 of 48 rows"):
            window.write(window.read(), FileSink(table))

    def test_a_window_of_markers_alone_has_no_rows(
        self, open_connected: OpenConnected, sparse: Manifest, table: str
    ) -> None:
        (pinned,) = sparse.ranges
        window = open_connected(manifest_of([(pinned.topic, 0, 1, 6)]), allow_gaps=True)
        result = window.write(window.read(), FileSink(table))
        assert (result.read.count, result.rows_written) == (0, 0)
        assert judge(window.manifest, asked_of(window, result)).proved

    def test_a_window_that_lacks_no_record_is_not_read_again(
        self, open_connected: OpenConnected, manifest: Manifest, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        window = open_connected(manifest, allow_gaps=True)
        rows = window.read()
        monkeypatch.delattr(PinnedRead, "again")
        result = window.write(rows, FileSink(table))
        assert (result.rows_written, result.read.counted) == (205, False)
        assert judge(window.manifest, asked_of(window, result)).proved

    def test_strict_time_counts_the_logs_records(
        self, open_connected: OpenConnected, sparse: Manifest, table: str
    ) -> None:
        (pinned,) = sparse.ranges
        late = manifest_of([(pinned.topic, 0, 0, pinned.end_offset)], start_ms=FIVE_MS + 1)
        window = open_connected(late, allow_gaps=True)
        result = window.write(window.read(strict_time=True), FileSink(table))
        assert (result.read.outside_window, result.outside_written) == (8, 8)
        assert judge(window.manifest, asked_of(window, result)).proved

    def test_a_log_that_is_compacted_after_the_write_has_it_tried_again(
        self, open_connected: OpenConnected, make_flights: MakeFlights, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other read finds less than was written, as if the cleaner had come in between."""
        topic = make_flights({0: 20}, **{"cleanup.policy": "compact"})
        window = open_connected(manifest_of([(topic, 0, 0, 20)], cleanup_policy="compact"))
        with pytest.raises(UnprovenError, match="read 20 rows, wrote 19: the output lacks 1 of them"):
            window.write(window.read().where("offset <> 4"), FileSink(f"{table}/1"))
        rows, again = window.read().where("offset <> 4"), window.again
        monkeypatch.setattr(window, "again", lambda: again().where("offset > 5"))
        with pytest.raises(CountedTwiceError, match=r"19 rows were written, and Kafka has 14 .* Run the task again"):
            window.write(rows, FileSink(f"{table}/2"))

    def test_an_output_that_another_attempt_has_written_to_meanwhile_is_tried_again(
        self,
        open_connected: OpenConnected,
        sparse: Manifest,
        make_sink: Callable[[str], Sink],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The second read takes as long as the first, and the ledger has no note of either attempt."""
        sink = make_sink("delta")
        window, other = open_connected(sparse, allow_gaps=True), open_connected(sparse, allow_gaps=True)
        rows, again = window.read(), window.again

        def while_another_writes() -> DataFrame:
            with pytest.raises(UnprovenError, match="read 8 rows, wrote 7"):
                other.write(other.read().where("offset > 0"), sink)
            return again()

        monkeypatch.setattr(window, "again", while_another_writes)
        with pytest.raises(CountedTwiceError, match="its output has changed while Kafka was read again"):
            window.write(rows, sink)

    def test_rows_of_another_read_are_refused_before_they_are_written(
        self, open_connected: OpenConnected, sparse: Manifest, table: str
    ) -> None:
        rows = open_connected(sparse, allow_gaps=True).read()
        with pytest.raises(ConfigurationError, match=r"Call read\(\) first"):
            open_connected(sparse, allow_gaps=True).write(rows, FileSink(table))
        assert not Path(table.removeprefix("file://")).exists()


class TestRefusals:
    def test_strict_time_needs_the_records_timestamps(
        self, open_connected: OpenConnected, manifest: Manifest, table: str
    ) -> None:
        window = open_connected(manifest)
        with pytest.raises(ConfigurationError, match="keep it as read"):
            window.write(window.read(strict_time=True).drop("timestamp"), FileSink(table))

    def test_a_manifest_that_was_changed_or_is_missing_is_not_read(
        self, connected: Any, pin: Callable[..., RunConf], manifest: Manifest
    ) -> None:
        told = pin(manifest)
        with pytest.raises(LedgerCorruptError, match="The manifest"):
            pinned_window(connected, told.manifest_uri, "1234")
        with pytest.raises(LedgerCorruptError, match="There is no manifest"):
            pinned_window(connected, told.manifest_uri + ".no", told.sha256)
        with pytest.raises(ConfigurationError, match="Spark has no client for nosuch://"):
            pinned_window(connected, "nosuch://bucket/manifest.json", told.sha256)
