"""What Delta Lake and Iceberg add: one commit for each window, told from others by what it carries."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    DataLossError,
    LedgerConflictError,
    LedgerError,
    UnprovenError,
)
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.publisher import publish_next
from airflow_kafka_offsets.spark import Attempt, DeltaSink, IcebergSink, Sink, read_published
from airflow_kafka_offsets.spark.session.files import HadoopFiles
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from airflow_kafka_offsets.spark.window.ledger import PinnedFolder
from airflow_kafka_offsets.spark.window.proved_write import begin
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import count, load_rows
from tests.integration.spark.sinks.conftest import EXPECTED, attempt_of, publish, write_shown
from tests.integration.spark.sinks.faults import held_up, interrupted, wait_for
from tests.integration.spark.test_pinned_window import offsets
from tests.integration.spark.test_strict_time import window_of
from tests.patience import PATIENCE_S
from tests.unit.spark.manifests import SEVEN_MS, SIX_MS, manifest_of

MakeSink = Callable[[str], Sink]
IS_ANOTHERS = "value = cast('another' AS binary)"


@pytest.mark.nightly("a newer revision beside an older one; spark/test_published.py shows which one is read")
class TestRevisions:
    """A table holds one revision of a window, whatever is published."""

    def test_a_window_of_which_a_newer_one_is_being_loaded_is_not_read(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, table_sink: TableSink
    ) -> None:
        """The rows may be the newer one's by then. One that only counts what is published replaces none."""
        publish(open_window(manifest_of([(flights, 0, 0, 9)])), table_sink)
        newer = replace(manifest_of([(flights, 0, 0, 7)]), end_snapshot=9)
        with interrupted("airflow_kafka_offsets.spark.sinks.table_sink.TableSink.write"):
            publish(open_window(newer, "try-2"), table_sink)
        with pytest.raises(LedgerConflictError, match="attempt try-2 has begun to load revision 2"):
            read_published(spark, f"file://{ledger}")

        assert publish(open_window(newer, "try-3"), table_sink) == "try-3"
        assert publish(open_window(newer, "try-4"), table_sink) == "try-3"
        assert read_published(spark, f"file://{ledger}").count() == 7

    def test_one_of_the_same_snapshots_that_has_replaced_the_published_rows_is_loaded_and_published(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, table_sink: TableSink
    ) -> None:
        """Else the ledger would say what the table doesn't hold. As long as the published rows are there, they stay."""
        whole = manifest_of([(flights, 0, 0, 9)])
        left = replace(whole, ranges=(replace(whole.ranges[0], start_offset=4, lost_offsets=4),))
        original = open_window(whole)
        rows, wrote = original.read(), table_sink.write
        the_rest = open_window(left, "try-2")

        def overtaken(frame: DataFrame, attempt: Attempt) -> str | None:
            table_sink.write = wrote  # type: ignore[method-assign]
            # Its publisher had looked before the newer one was resolved.
            stored, counted = count(original, original.write(rows, table_sink))
            assert stored.window_folders.of(counted.pinned).publications.create(counted.publication(1, None))
            wrote(frame, attempt)
            table_sink.release(spark, attempt)
            raise InterruptedError

        table_sink.write = overtaken  # type: ignore[method-assign]
        with pytest.raises(InterruptedError):
            the_rest.write(the_rest.read(), table_sink)
        with pytest.raises(LedgerConflictError, match="nobody can tell whose rows are there"):
            read_published(spark, f"file://{ledger}")

        assert publish(open_window(left, "try-3"), table_sink) == "try-3"
        assert offsets(read_published(spark, f"file://{ledger}")) == {0: [4, 5, 6, 7, 8]}


class TestCommit:
    @pytest.mark.nightly("test_reading.py reads such tables")
    def test_says_which_offsets_its_rows_are_from(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table_sink: TableSink
    ) -> None:
        manifest = manifest_of([(flights, 0, 2, 9), (flights, 2, 1, 4), (flights, 1, 0, 0)])
        window = open_window(manifest)
        publish(window, table_sink)
        if isinstance(table_sink, DeltaSink):
            name = f"delta.`{table_sink.table}`" if "/" in table_sink.table else table_sink.table
            told = spark.sql(f"DESCRIBE HISTORY {name}").where("userMetadata IS NOT NULL").first()
            marks = json.loads(told["userMetadata"])
        else:
            told = spark.table(f"{table_sink.table}.snapshots").orderBy(F.desc("committed_at")).first()
            marks = {key.removeprefix("kafka-offsets."): value for key, value in told["summary"].items()}
        assert json.loads(marks["ranges"]) == {flights: {"0": [2, 9], "2": [1, 4]}}
        assert marks["manifest"] == f"{window.folder}/manifest.json"
        sha256 = marks.get("manifest_sha256", marks.get("manifest-sha256"))
        assert (marks["pipeline"], marks["window"], sha256) == ("flights", manifest.window, window.manifest.sha256)

    def test_of_many_partitions_leaves_their_ranges_to_the_manifest(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, tmp_path: Path
    ) -> None:
        many = manifest_of([(flights, number, 10**9, 10**9 + 1) for number in range(1_000)])
        folder = (tmp_path / "window").as_uri()
        attempt = begin(open_window(many), PinnedFolder(HadoopFiles(spark), folder, many))
        assert (attempt.ranges, attempt.manifest_uri) == ("", f"{folder}/manifest.json")


@pytest.mark.nightly("attempts at a table in any order; test_every_sink.py has a second one beside the first")
class TestAttempts:
    def test_two_that_begin_at_one_moment_are_no_copies_of_a_ledger(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table_sink: TableSink
    ) -> None:
        """Each has listed the notes before the other wrote its own; the one that began later commits second."""
        manifest = manifest_of([(flights, 0, 0, 9)])
        publish(open_window(manifest), table_sink)
        window = open_window(manifest, "try-2")
        rows = window.read().withColumn("value", F.lit("another").cast("binary"))
        attempt = begin(window, PinnedFolder.of(spark, window.folder, window.manifest))
        assert attempt.earlier == {"try-1"}
        table_sink.write(rows, replace(attempt, earlier=frozenset()))
        assert offsets(table_sink.read(spark, attempt).where(IS_ANOTHERS)) == {0: list(range(9))}

    def test_rows_of_one_that_died_before_it_had_asked_where_they_came_from_are_written_anew(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, table_sink: TableSink
    ) -> None:
        """S16: while it read, another cluster was behind the address. Its rows have the window's own offsets."""
        manifest = manifest_of([(flights, 0, 0, 9)])
        window = open_window(manifest)
        with interrupted("airflow_kafka_offsets.spark.kafka.source_check.SourceCheck.after"):
            window.write(window.read().withColumn("value", F.lit("another").cast("binary")), table_sink)
        seen = 0 if table_sink.kind == "iceberg" else 9
        assert table_sink.rows(spark).where(IS_ANOTHERS).count() == seen

        assert publish(open_window(manifest, "try-2"), table_sink) == "try-2"
        rows = read_published(spark, f"file://{ledger}")
        assert (rows.count(), rows.where(IS_ANOTHERS).count()) == (9, 0)

    def test_rows_of_one_beside_this_that_has_not_asked_yet_are_not_published(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, table_sink: TableSink
    ) -> None:
        """S16: it may have read another cluster, and this one's own answer says nothing of that."""
        manifest = manifest_of([(flights, 0, 0, 9)])
        beside = open_window(manifest, "try-2")
        write = table_sink.write

        def overtaken(rows: DataFrame, attempt: Attempt) -> str | None:
            table_sink.write = write  # type: ignore[method-assign]
            with interrupted("airflow_kafka_offsets.spark.kafka.source_check.SourceCheck.after"):
                beside.write(beside.read().withColumn("value", F.lit("another").cast("binary")), table_sink)
            return write(rows, attempt)

        table_sink.write = overtaken  # type: ignore[method-assign]
        # In Iceberg they are on a branch; that it may still come to main is what the ledger knows.
        in_table = "by attempt try-2, which began after this one"
        with pytest.raises(CommitConflictError, match=f"{in_table}|attempt try-2 started later"):
            publish(open_window(manifest), table_sink)

        assert publish(open_window(manifest, "try-3"), table_sink) == "try-3"
        rows = read_published(spark, f"file://{ledger}")
        assert (rows.count(), rows.where(IS_ANOTHERS).count()) == (9, 0)

    def test_one_that_fails_before_it_has_changed_the_table_keeps_no_earlier_one_from_being_published(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, table_sink: TableSink
    ) -> None:
        """S13: what the earlier one has written may be gone from Kafka by then."""
        manifest = manifest_of([(flights, 0, 0, 9)])
        earlier = open_window(manifest)
        counted = count(earlier, earlier.write(earlier.read(), table_sink))

        later = open_window(manifest, "try-2")
        rows = later.read().withColumn("value", F.raise_error(F.lit("Could not read records in offset 3")))
        with pytest.raises(DataLossError, match="Could not read records in offset 3"):
            later.write(rows.withColumn("value", F.col("value").cast("binary")), table_sink)

        assert publish_next(*counted).attempt == "try-1"
        assert offsets(read_published(spark, f"file://{ledger}")) == {0: list(range(9))}

    def test_one_that_dies_once_it_has_changed_the_table_keeps_an_earlier_one_from_being_published(
        self, open_window: OpenWindow, flights: str, table_sink: TableSink
    ) -> None:
        manifest = manifest_of([(flights, 0, 0, 9)])
        earlier = open_window(manifest)
        counted = count(earlier, earlier.write(earlier.read(), table_sink))

        later = open_window(manifest, "try-2")
        with interrupted("airflow_kafka_offsets.spark.window.ledger.PinnedFolder.write_result"):
            later.write(later.read(), table_sink)

        with pytest.raises(CommitConflictError, match="attempt try-2 started later"):
            publish_next(*counted)

    def test_unproved_rows_are_not_among_the_published_and_the_next_attempt_replaces_them(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger: Path, table_sink: TableSink
    ) -> None:
        window = open_window(manifest)
        with pytest.raises(UnprovenError, match="lacks 1 of 125 rows"):
            window.write(window.read().where("NOT (partition = 2 AND offset = 7)"), table_sink)
        seen = 0 if table_sink.kind == "iceberg" else 204
        assert table_sink.rows(spark).count() == seen
        with pytest.raises(LedgerError, match="no published window"):
            read_published(spark, f"file://{ledger}")

        assert publish(open_window(manifest, "try-2"), table_sink) == "try-2"
        assert offsets(read_published(spark, f"file://{ledger}")) == EXPECTED

    def test_an_older_revision_that_has_begun_before_a_newer_one_is_committed_takes_no_place_of_its(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table_sink: TableSink, tmp_path: Path
    ) -> None:
        """It looked into the table before the newer one came, and can't know better until its own commit."""
        older, newer = manifest_of([(flights, 0, 0, 15)]), manifest_of([(flights, 0, 0, 9)])
        write_shown(table_sink, open_window(older).read(), attempt_of(older, "first"))
        held = held_up(open_window(older).read(), tmp_path)
        with ThreadPoolExecutor(1) as thread:
            writing = thread.submit(
                write_shown, table_sink, held, attempt_of(older, "slow", started_ms=1, earlier=frozenset({"first"}))
            )
            wait_for(tmp_path / "begun")
            try:
                write_shown(table_sink, open_window(newer).read(), attempt_of(newer, "newer", revision=2))
            finally:
                (tmp_path / "go").touch()
            with pytest.raises(LedgerConflictError, match="in revision 2, by attempt newer"):
                writing.result(PATIENCE_S)
        assert offsets(table_sink.read(spark, attempt_of(newer))) == {0: list(range(9))}

    def test_a_newer_load_whose_commit_deltas_history_has_forgotten_is_told_from_one_beside_this(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, make_sink: MakeSink
    ) -> None:
        manifest = manifest_of([(flights, 0, 0, 9)])
        rows, sink = open_window(manifest).read(), make_sink("delta")
        assert isinstance(sink, DeltaSink)
        sink.write(rows, attempt_of(manifest, "newer", revision=2))
        sink.write(rows, attempt_of(manifest, "neighbour", window="neighbour"))
        _forget_all_but_the_last_commit(spark, sink)

        with pytest.raises(LedgerConflictError, match=r"holds a newer load of it\. That load's commit is no longer"):
            sink.write(rows, attempt_of(manifest, "older"))

    def test_of_two_writes_at_the_same_time_one_gives_way_to_the_other(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table_sink: TableSink, tmp_path: Path
    ) -> None:
        """Both have read the table before either commits."""
        manifest = manifest_of([(flights, 0, 0, 15)])
        neighbour = manifest_of([(flights, 0, 15, 16)], start_ms=SIX_MS, end_ms=SEVEN_MS)
        publish(open_window(neighbour), table_sink)
        slow, fast = open_window(manifest, "try-1"), open_window(manifest, "try-2")
        held = held_up(slow.read(), tmp_path)
        with ThreadPoolExecutor(1) as thread:
            publishing = thread.submit(load_rows, slow, held, table_sink)
            wait_for(tmp_path / "begun")
            try:
                assert publish(fast, table_sink) == "try-2"
            finally:
                (tmp_path / "go").touch()
            with pytest.raises(CommitConflictError, match="Run the task again"):
                publishing.result(PATIENCE_S)
        assert offsets(table_sink.read(spark, attempt_of(manifest))) == {0: list(range(15))}


@pytest.mark.nightly("writers whose clocks differ; test_every_sink.py writes each table")
class TestClocks:
    def test_a_writer_whose_clock_is_behind_the_last_ones_finds_its_own_commit_the_newest(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, make_sink: MakeSink
    ) -> None:
        """Iceberg takes times that go back by up to a minute."""
        sink = make_sink("iceberg")
        assert isinstance(sink, IcebergSink)
        first, second = manifest_of([(flights, 0, 0, 9)]), replace(manifest_of([(flights, 0, 0, 7)]), end_snapshot=9)
        publish(open_window(first), sink)
        _put_clock_ahead(spark, sink)
        assert publish(open_window(second, "try-2"), sink) == "try-2"
        assert read_published(spark, f"file://{ledger}").count() == 7


class TestColumns:
    def test_columns_come_and_go_and_stand_in_any_order_but_never_change_their_type(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger: Path, table_sink: TableSink
    ) -> None:
        windows = (window_of(flights, 10 * n, 10 * n + 10, 10 * n, 10 * n + 10) for n in range(4))
        first, second, third, fourth = windows
        publish(open_window(first), table_sink)
        window = open_window(second)
        load_rows(window, window.read().withColumn("added", F.lit(1)).drop("key"), table_sink)
        publish(open_window(third), table_sink)

        rows = read_published(spark, f"file://{ledger}")
        assert offsets(rows) == {2: list(range(30))}
        assert offsets(rows.where("added = 1 AND key IS NULL")) == {2: list(range(10, 20))}

        changed = open_window(fourth)
        with pytest.raises(ConfigurationError, match="Spark can't write the window's rows to the"):
            changed.write(changed.read().withColumn("timestampType", F.lit("text")), table_sink)


class TestCreation:
    @pytest.mark.nightly("a rare moment of a table's beginning")
    def test_a_table_that_delta_has_only_begun_to_make_is_none_yet(
        self, open_window: OpenWindow, manifest: Manifest, tmp_path: Path
    ) -> None:
        """A driver was killed between the log's folder and its first commit."""
        table = tmp_path / "begun"
        (table / "_delta_log").mkdir(parents=True)

        assert publish(open_window(manifest), DeltaSink(str(table))) == "try-1"


class TestRefusals:
    def test_an_iceberg_table_that_is_not_partitioned_by_the_window_is_no_race(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, make_sink: MakeSink
    ) -> None:
        """Two windows may share a file, of which an overwrite can't replace a part: another try fails the same way."""
        sink, manifest = make_sink("iceberg"), manifest_of([(flights, 0, 0, 9)])
        assert isinstance(sink, IcebergSink)
        rows = open_window(manifest).read()
        made = rows.limit(0).withColumn("window", F.lit("")).writeTo(sink.table).using("iceberg")
        made.tableProperty("write.spark.accept-any-schema", "true").create()
        rows.withColumn("window", F.when(F.col("offset") < 5, manifest.window).otherwise("other")).coalesce(1).writeTo(
            sink.table
        ).append()
        with pytest.raises(ConfigurationError, match="isn't partitioned by window"):
            sink.write(rows, attempt_of(manifest))

    def test_an_iceberg_table_has_a_name(self) -> None:
        with pytest.raises(ConfigurationError, match=r"catalog\.database\.table"):
            IcebergSink("file:///data/flights")

    def test_a_session_without_the_catalog_is_told_what_it_needs(
        self, open_window: OpenWindow, manifest: Manifest
    ) -> None:
        with pytest.raises(ConfigurationError, match="iceberg-spark-runtime"):
            publish(open_window(manifest), IcebergSink("nowhere.flights.t"))


def _forget_all_but_the_last_commit(spark: SparkSession, sink: DeltaSink) -> None:
    """As Delta does with commits older than ``delta.logRetentionDuration``, once a checkpoint has what they say."""
    delta: Any = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    delta.forTable(spark._jsparkSession, sink.table).checkpoint()
    *old, _ = sorted(Path(sink.table.removeprefix("file://"), "_delta_log").glob("*.json"))
    for commit in old:
        commit.unlink()
    delta.clearCache()


def _put_clock_ahead(spark: SparkSession, sink: IcebergSink) -> None:
    """Leave what a writer leaves whose clock is almost a minute ahead, as the next version of a table's metadata."""
    catalog = spark.conf.get("spark.sql.catalog.lake.warehouse")
    assert catalog is not None
    folder = Path(catalog.removeprefix("file://"), *sink.table.split(".")[1:], "metadata")
    hint = folder / "version-hint.text"
    version = int(hint.read_text())
    metadata = json.loads((folder / f"v{version}.metadata.json").read_text())
    ahead_ms = now_ms() + 55_000
    entries = [metadata["snapshots"][-1], metadata["snapshot-log"][-1]]
    for entry in entries:
        entry["timestamp-ms"] = ahead_ms
    metadata["last-updated-ms"] = ahead_ms
    (folder / f"v{version + 1}.metadata.json").write_text(json.dumps(metadata))
    hint.write_text(str(version + 1))
