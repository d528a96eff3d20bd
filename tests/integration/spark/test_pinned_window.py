"""Reading a pinned window from a real broker through Spark's own Kafka connector."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.kafka.reader import OLDER_SOURCES, kafka_source
from airflow_kafka_offsets.spark.pinned import PinnedWindow, pinned_window
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from tests.integration.conftest import Produce
from tests.integration.spark.conftest import MakeFlights, OpenWindow, Pin, flight_records
from tests.integration.spark.publishing import driver_of
from tests.unit.spark.manifests import SEVEN_MS, SIX_MS, manifest_of

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def offsets(rows: DataFrame) -> dict[int, list[int]]:
    """Offsets by partition, in order, with every double."""
    found: dict[int, list[int]] = {}
    for row in sorted(rows.select("partition", "offset").collect()):
        found.setdefault(row["partition"], []).append(row["offset"])
    return found


class TestExactRead:
    def test_reads_each_range_from_start_to_before_end(self, open_window: OpenWindow, manifest: Manifest) -> None:
        rows = open_window(manifest).read()

        assert offsets(rows) == {0: list(range(10, 90)), 2: list(range(125))}

    def test_records_written_later_are_not_read(
        self, open_window: OpenWindow, make_flights: MakeFlights, produce: Produce
    ) -> None:
        topic = make_flights({0: 10})
        rows = open_window(manifest_of([(topic, 0, 0, 10)])).read()
        produce(topic, 0, flight_records(10))

        assert offsets(rows) == {0: list(range(10))}

    def test_splitting_a_hot_partition_reads_the_same(self, open_window: OpenWindow, manifest: Manifest) -> None:
        rows = open_window(manifest).read(maxRecordsPerPartition="20")

        assert rows.rdd.getNumPartitions() > 2
        assert offsets(rows) == {0: list(range(10, 90)), 2: list(range(125))}

    def test_other_brokers_than_those_of_an_earlier_read_are_refused(
        self, open_window: OpenWindow, manifest: Manifest
    ) -> None:
        """Rows of the one would be proved by what the other says of its topics."""
        window = open_window(manifest)
        window.read(**{"KAFKA.bootstrap.servers": "127.0.0.1:1"})
        with pytest.raises(ConfigurationError, match=r"was read from 127.0.0.1:1, and now it is to be read from 127"):
            window.read()

    def test_what_was_lost_before_the_attempt_began_is_left_out(
        self, open_window: OpenWindow, manifest: Manifest, flights: str
    ) -> None:
        window = open_window(manifest, lost=[LogRange(flights, 0, 0, 30), LogRange(flights, 2, 0, 100)])
        rest = {0: list(range(30, 90)), 2: list(range(100, 125))}
        assert offsets(window.read()) == rest
        assert sorted(window.plan().tasks) == sorted(window.left)
        assert offsets(window.read(maxRecordsPerPartition="20")) == rest


class TestManifestIsChecked:
    """Nothing is asked of Kafka before the manifest is the pinned one: no broker is there in these tests."""

    def test_a_changed_manifest_is_refused(self, spark: SparkSession, pin: Pin, manifest: Manifest) -> None:
        conf = replace(pin(manifest), kafka=NOWHERE)
        path = Path(conf.manifest_uri.removeprefix("file://"))
        pinned = path.read_bytes()
        assert b",90," in pinned
        path.write_bytes(pinned.replace(b",90,", b",91,"))

        with pytest.raises(LedgerCorruptError, match="was changed after it was pinned"):
            PinnedWindow.open(spark, conf)

    def test_a_manifest_with_another_hash_is_refused(self, spark: SparkSession, pin: Pin, manifest: Manifest) -> None:
        with pytest.raises(LedgerCorruptError, match="expected 1234"):
            PinnedWindow.open(spark, replace(pin(manifest), sha256="1234"))

    def test_a_missing_manifest_is_named(self, spark: SparkSession, pin: Pin, manifest: Manifest) -> None:
        conf = replace(pin(manifest), manifest_uri="file:///nowhere/windows/w/1234.json")

        with pytest.raises(LedgerCorruptError, match=r"no manifest at file:///nowhere/windows/w/1234\.json"):
            PinnedWindow.open(spark, conf)


class TestEmptyWindow:
    """S6: Spark fails on an empty assignment, so Kafka isn't asked: no broker is there in these tests."""

    def test_gives_no_rows_with_the_columns_of_spark(
        self, open_window: OpenWindow, manifest: Manifest, empty_manifest: Manifest
    ) -> None:
        empty = open_window(empty_manifest).read(**NOWHERE)

        assert empty.count() == 0
        assert empty.schema == open_window(manifest).read().schema

    def test_gives_headers_when_asked_for(
        self, open_window: OpenWindow, manifest: Manifest, empty_manifest: Manifest
    ) -> None:
        """Spark ignores an option's case."""
        empty = open_window(empty_manifest).read(includeheaders="true", **NOWHERE)

        assert empty.dtypes == open_window(manifest).read(includeHeaders="true").dtypes


class TestInterface:
    """Spark's newer interface to Kafka, which its own default leaves out."""

    @pytest.fixture
    def window(self, spark: SparkSession, pin: Pin, manifest: Manifest) -> PinnedWindow:
        return PinnedWindow.open(spark.newSession(), pin(manifest))

    def test_is_used_and_the_session_stays_as_it_was(self, window: PinnedWindow) -> None:
        assert "RelationV2" in plan_of(window.read())
        assert OLDER_SOURCES not in window.spark.conf.getAll
        with pytest.raises(PySparkException):
            window.read(includeHeaders="perhaps")
        assert OLDER_SOURCES not in window.spark.conf.getAll

    def test_is_not_used_where_the_session_says_so(self, window: PinnedWindow) -> None:
        window.spark.conf.set(OLDER_SOURCES, "kafka")
        assert "RelationV2" not in plan_of(window.read())
        assert window.spark.conf.get(OLDER_SOURCES) == "kafka"

    def test_threads_of_one_session_share_it(self, window: PinnedWindow) -> None:
        with kafka_source(window.spark):
            with kafka_source(window.spark.newSession()), kafka_source(window.spark):
                pass
            assert "kafka" not in window.spark.conf.get(OLDER_SOURCES)
        assert OLDER_SOURCES not in window.spark.conf.getAll


def plan_of(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().analyzed().toString())


class TestConfs:
    @pytest.fixture
    def told(self, pin: Pin, manifest: Manifest) -> RunConf:
        return pin(manifest)

    @pytest.fixture
    def session(self, spark: SparkSession, told: RunConf) -> SparkSession:
        """One whose confs name the window, which no other test sees."""
        session = spark.newSession()
        for name, value in {"manifest": told.manifest_uri, "sha256": told.sha256, "attempt": told.attempt}.items():
            session.conf.set(f"spark.kafkaOffsets.{name}", str(value))
        return session

    def test_the_session_names_the_window_and_the_attempt(
        self, session: SparkSession, told: RunConf, manifest: Manifest
    ) -> None:
        window = pinned_window(session)
        assert window.manifest == manifest
        assert driver_of(window).number == told.attempt

    def test_a_window_that_is_given_has_an_attempt_of_its_own_or_none(
        self, session: SparkSession, told: RunConf, pin: Pin, flights: str
    ) -> None:
        """The session's is another window's."""
        assert driver_of(pinned_window(session, told.manifest_uri, told.sha256)).number == told.attempt
        other = pin(manifest_of([(flights, 0, 0, 5)], start_ms=SIX_MS, end_ms=SEVEN_MS))
        assert pinned_window(session, other.manifest_uri, other.sha256).ledger is None
        window = pinned_window(session, other.manifest_uri, other.sha256, other.attempt)
        assert driver_of(window).number == other.attempt

    def test_without_an_attempt_a_window_is_read_and_not_written(
        self, spark: SparkSession, pin: Pin, manifest: Manifest, table: str
    ) -> None:
        told = pin(manifest)
        window = PinnedWindow.open(spark, replace(told, attempt=None))
        rows = window.read()
        assert rows.count() == 205
        with pytest.raises(ConfigurationError, match=r"ledger begin flights 20261121T05.*, which says what to set"):
            window.write(rows, FileSink(table))

    def test_an_attempt_that_the_log_does_not_have_is_refused(
        self, spark: SparkSession, pin: Pin, manifest: Manifest
    ) -> None:
        told = pin(manifest)
        with pytest.raises(LedgerConflictError, match=r"Attempt 99 .* no such attempt at it. Begin one: kafka-offsets"):
            PinnedWindow.open(spark, replace(told, attempt=99))
