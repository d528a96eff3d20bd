"""Writing a window: whole and proved, or refused, and what is made of it once it is published."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import ConfigurationError, DataLossError, UnprovenError
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import read_published
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import Attempt, Sink
from dev.kafka import Broker
from tests.integration.conftest import Produce
from tests.integration.spark.conftest import MakeFlights, OpenWindow, Pin, delete_before, flight_records
from tests.integration.spark.publishing import driver_of, ledger_of, load, name_of, result_of
from tests.integration.spark.test_pinned_window import offsets
from tests.patience import PATIENCE_S
from tests.unit.spark.manifests import manifest_of

Shape = Callable[[DataFrame], DataFrame]
EXPECTED = {0: list(range(10, 90)), 2: list(range(125))}


class TestOneAttempt:
    def test_publishes_the_window_and_says_so(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        window = open_window(manifest)
        run = load(window, table)

        assert (run.rows, run.output) == (205, f"{table}/window={manifest.window}/attempt={name_of(window)}")
        assert run.result == result_of(window)
        assert (run.result.outputs[0].sink, run.result.apart) == ("parquet", True)
        assert f"{run.result.attempt}-{run.result.run}" == name_of(window)
        assert run.result.application_id == spark.sparkContext.applicationId
        assert offsets(read_published(spark, ledger_uri)) == EXPECTED

    def test_notes_which_application_it_is(self, open_window: OpenWindow, manifest: Manifest, table: str) -> None:
        window = open_window(manifest)
        load(window, table)
        driver = driver_of(window)
        (found,) = ledger_of(window).attempt(manifest.window, driver.number).applications()
        assert found.id == window.spark.sparkContext.applicationId

    def test_counts_what_was_read_and_written(self, open_window: OpenWindow, manifest: Manifest, table: str) -> None:
        """Read = written = log, in one pass over Kafka (S25)."""
        result = load(open_window(manifest), table).result

        assert judge(manifest, result).proved
        assert result.read.count == 205
        assert [(each.partition, each.min_offset, each.max_offset) for each in result.written] == [
            (0, 10, 89),
            (2, 0, 124),
        ]

    def test_of_what_a_loss_has_left_is_proved_as_that(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        flights: str,
        ledger_uri: str,
        table: str,
    ) -> None:
        """S13: read + lost = window. The window's manifest stays as it is."""
        lost = (LogRange(flights, 0, 0, 50), LogRange(flights, 2, 0, 125))
        window = open_window(manifest, lost=lost)
        run = load(window, table)
        assert run.rows == 40
        assert str(judge(manifest, run.result, lost)).startswith("read = written = log, 165 offsets lost before")
        assert offsets(read_published(spark, ledger_uri)) == {0: list(range(50, 90))}

    def test_of_a_window_that_is_lost_as_a_whole_has_no_rows(
        self, open_window: OpenWindow, manifest: Manifest, flights: str, table: str
    ) -> None:
        """Kafka isn't asked for it."""
        lost = [LogRange(flights, 0, 0, 90), LogRange(flights, 2, 0, 125)]
        window = open_window(manifest, lost=lost)
        run = load(window, table, **{"kafka.bootstrap.servers": "127.0.0.1:1"})
        assert (run.rows, run.output, run.result.source) == (0, None, None)

    @pytest.mark.parametrize("told", [1024.0 * 1024, None], ids=["large", "small"])
    def test_measures_records_of_windows_that_are_large_enough_to_be_split(
        self, spark: SparkSession, pin: Pin, manifest: Manifest, table: str, told: float | None
    ) -> None:
        """It takes a job of its own, and only the split plan needs their size."""
        conf = replace(pin(manifest), bytes_per_record=told)
        measured = load(PinnedWindow.open(spark, conf), table).result.read.bytes_per_record
        values = [value for count in (90, 125) for _, _, value in flight_records(count)]
        assert measured == (pytest.approx(sum(map(len, values)) / len(values), abs=3) if told else None)

    def test_tells_topics_apart(self, open_window: OpenWindow, make_flights: MakeFlights, table: str) -> None:
        """Two with the same offsets would cancel each other out of a checksum without names."""
        topics = [make_flights({0: 9}) for _ in range(2)]
        window = open_window(manifest_of([(each, 0, 0, 9) for each in sorted(topics)]))
        read = load(window, table).result.read
        assert (read.count, read.checksum != 0) == (18, True)

    def test_parquet_keeps_the_least_and_greatest_of_keys_and_offsets_and_not_of_messages(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        load(open_window(manifest), table)
        file = next(Path(table.removeprefix("file://")).rglob("*.parquet"))
        group = pq.read_metadata(file).row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        kept = {each.path_in_schema for each in columns if each.statistics and each.statistics.has_min_max}
        assert {"key", "offset"} <= kept
        assert "value" not in kept

    @pytest.mark.parametrize(("chosen", "held_as"), [(None, "INT64"), ("INT96", "INT96")])
    def test_timestamps_are_microseconds_in_parquet_unless_the_session_says_otherwise(
        self, open_window: OpenWindow, flights: str, table: str, chosen: str | None, held_as: str
    ) -> None:
        """So they have a least and a greatest value. The session stays as it was."""
        conf, name = open_window(manifest_of([(flights, 0, 0, 9)])).spark.conf, "spark.sql.parquet.outputTimestampType"
        before = conf.get(name)
        if chosen is not None:
            conf.set(name, chosen)
        try:
            loaded = load(open_window(manifest_of([(flights, 0, 0, 9)])), table)
            assert conf.get(name) == (chosen or before)
        finally:
            conf.unset(name)
        (file,) = Path(urlsplit(loaded.output or "").path).glob("*.parquet")
        held = pq.ParquetFile(file)
        number = held.schema.names.index("timestamp")
        assert held.schema.column(number).physical_type == held_as
        statistics = held.metadata.row_group(0).column(number).statistics
        assert (statistics is not None and statistics.has_min_max) == (held_as == "INT64")

    def test_leaves_no_side_files_in_the_ledger(
        self, open_window: OpenWindow, manifest: Manifest, ledger: Path, table: str
    ) -> None:
        """Hadoop's local file system would put a ``.crc`` beside each file."""
        load(open_window(manifest), table)
        assert not [path.name for path in ledger.rglob("*") if path.name.startswith(".") or ".crc" in path.name]

    def test_a_window_without_offsets_is_published_without_rows(
        self, open_window: OpenWindow, empty_manifest: Manifest, table: str, tmp_path: Path
    ) -> None:
        """S6."""
        run = load(open_window(empty_manifest), table)

        assert (run.rows, run.output) == (0, None)
        assert not (tmp_path / "table").exists()


class TestNotProved:
    @pytest.mark.parametrize(
        ("tamper", "words"),
        [
            pytest.param(
                lambda rows: rows.where("NOT (partition = 2 AND offset = 7)"), "lacks 1 of 125", id="one dropped"
            ),
            pytest.param(
                lambda rows: rows.withColumn(
                    "copies", F.expr("explode(sequence(1, if(partition = 2 AND offset = 7, 2, 1)))")
                ).drop("copies"),
                "holds 126 rows for 125 offsets",
                id="one doubled",
            ),
            pytest.param(
                lambda rows: rows.withColumn("offset", F.expr("if(partition = 2 AND offset = 7, 8L, offset)")),
                "not each of them once",
                id="one in place of another",
            ),
        ],
    )
    def test_rows_that_change_between_read_and_write_are_not_published(
        self, open_window: OpenWindow, manifest: Manifest, table: str, tamper: Shape, words: str
    ) -> None:
        window = open_window(manifest)
        with pytest.raises(UnprovenError, match=words) as refused:
            load(window, table, tamper)

        assert result_of(window).read.count == 205
        assert f"stay at {table}/window={manifest.window}/attempt={name_of(window)}" in str(refused.value)
        driver = driver_of(window)
        failure = ledger_of(window).attempt(manifest.window, driver.number).failure()
        assert failure is not None
        assert failure.error == "UnprovenError"

    def test_a_sink_may_keep_the_columns_as_other_types(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        """A hash of a partition's number is another one where it is a bigint."""

        class Wider(FileSink):
            def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
                rows, name = super().current(spark, attempt)
                return rows.withColumn("partition", F.col("partition").cast("bigint")), name

        window = open_window(manifest)
        assert window.write(window.read(), Wider(table)).rows_written == 205

    def test_a_sink_without_a_kind_is_refused_before_anything_is_read(
        self, open_window: OpenWindow, manifest: Manifest
    ) -> None:
        class Nameless(Sink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                raise AssertionError

            def current(self, spark: SparkSession, attempt: Attempt) -> tuple[DataFrame, str | None]:
                raise AssertionError

        window = open_window(manifest)
        with pytest.raises(ConfigurationError, match="Nameless has no kind"):
            window.write(window.read(), Nameless())

    def test_a_write_that_never_reads_is_not_proved(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        """Spark cuts the plan off under a filter that is always false."""
        with pytest.raises(UnprovenError, match=r"-0 lacks 80 of 80 rows, .*-2 lacks 125 of 125 rows"):
            load(open_window(manifest), table, lambda rows: rows.where("false"))


class TestGaps:
    def test_a_compacted_topic_has_gaps_that_need_no_leave(
        self, open_window: OpenWindow, make_flights: MakeFlights, produce: Produce, table: str
    ) -> None:
        """S14: of 700 records with 7 keys, those that are followed by another of their key are removed."""
        compaction = {"cleanup.policy": "compact", "segment.ms": "100", "max.compaction.lag.ms": "100"}
        compacted = make_flights({0: 700}, **compaction, **{"min.cleanable.dirty.ratio": "0.001"})
        time.sleep(0.2)
        produce(compacted, 0, flight_records(7))  # the first record after segment.ms closes the segment to be cleaned
        window = open_window(manifest_of([(compacted, 0, 0, 707)], cleanup_policy="compact"))
        deadline = time.monotonic() + PATIENCE_S
        while window.read().count() == 707:
            assert time.monotonic() < deadline
            time.sleep(1)

        assert load(window, table).rows < 707

    def test_a_transactional_topic_has_markers_that_must_be_allowed(
        self, open_window: OpenWindow, transactional: str, table: str
    ) -> None:
        """S10: 10 committed records, 5 aborted ones, and a marker for each transaction."""
        manifest = manifest_of([(transactional, 0, 0, 17)])

        with pytest.raises(UnprovenError, match="-0 lacks 7 of 17 rows"):
            load(open_window(manifest), table)
        assert load(open_window(manifest, allow_gaps=True), table).rows == 10

    def test_a_range_of_markers_alone_is_read_as_no_rows(
        self, open_window: OpenWindow, transactional: str, table: str
    ) -> None:
        manifest = manifest_of([(transactional, 0, 10, 17)])

        assert load(open_window(manifest, allow_gaps=True), table).rows == 0


class TestRefusals:
    def test_records_that_retention_removed_are_named_as_lost(
        self, open_window: OpenWindow, make_flights: MakeFlights, broker: Broker, table: str, tmp_path: Path
    ) -> None:
        """S13."""
        trimmed = make_flights({0: 20})
        delete_before(broker, tmp_path, trimmed, 5)

        with pytest.raises(DataLossError, match="Kafka no longer has every record"):
            load(open_window(manifest_of([(trimmed, 0, 0, 20)])), table)

    def test_an_output_that_can_not_be_written_is_named_before_kafka_is_read(
        self, open_window: OpenWindow, manifest: Manifest, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("in the way")

        with pytest.raises(ConfigurationError, match=r"The output folder .*/file/table.* can't be written"):
            load(open_window(manifest), f"file://{tmp_path}/file/table")

    @pytest.mark.parametrize("column", ["topic", "partition", "offset"])
    def test_the_columns_of_the_audit_must_be_kept(
        self, open_window: OpenWindow, manifest: Manifest, table: str, column: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=f"must keep the columns {column}"):
            load(open_window(manifest), table, lambda rows: rows.drop(column))

    @pytest.mark.parametrize("column", ["window", "Attempt"])
    def test_columns_of_the_folders_names_are_taken(
        self, open_window: OpenWindow, manifest: Manifest, table: str, column: str
    ) -> None:
        with pytest.raises(ConfigurationError, match="that name is reserved"):
            load(open_window(manifest), table, lambda rows: rows.withColumn(column, F.lit(1)))

    def test_a_window_is_written_once_with_one_object(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        window = open_window(manifest)
        with pytest.raises(UnprovenError):
            load(window, table, lambda rows: rows.limit(3))
        with pytest.raises(ConfigurationError, match="was written before with this object"):
            load(window, table)
