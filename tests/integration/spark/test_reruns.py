"""Writing a window again: by another driver of the same attempt, by a late one, and by another attempt."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError, LedgerCorruptError, UnprovenError
from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.published import read_published
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import driver_of, load, name_of, publish
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark import ledgers

EXPECTED = {0: list(range(10, 90)), 2: list(range(125))}


def folders(table: str, manifest: Manifest) -> set[str]:
    """What the window's folder in the output has."""
    return {path.name for path in Path(table.removeprefix("file://"), f"window={manifest.window}").iterdir()}


class TestSeveralDriversOfOneAttempt:
    """A submitter's own retry, such as YARN's: one prepared load, whose driver is started twice."""

    def test_the_second_one_finds_the_first_one_published_and_does_nothing(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        """S23, S14: nothing is read from Kafka, where a compacted topic may hold less by now."""
        first = open_window(manifest)
        run = load(first, table)
        second = open_window(manifest, driver_of(first).number)
        nowhere = {"kafka.bootstrap.servers": "127.0.0.1:1"}
        assert second.write(second.read(**nowhere), FileSink(table)) == run.result
        assert folders(table, manifest) == {f"attempt={name_of(first)}"}

    def test_the_second_one_trusts_no_counts_that_were_changed_since_they_were_published(
        self, open_window: OpenWindow, manifest: Manifest, ledger: Path, table: str
    ) -> None:
        first = open_window(manifest)
        load(first, table)
        (counts,) = ledger.rglob("*.result.json")
        counts.write_text(counts.read_text().replace('"seconds"', ' "seconds"'))
        with pytest.raises(LedgerCorruptError, match=r"result\.json is .*, though it is published"):
            load(open_window(manifest, driver_of(first).number), table)

    def test_one_that_was_not_proved_takes_nothing_from_the_other(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        first = open_window(manifest)
        with pytest.raises(UnprovenError):
            load(first, table, lambda rows: rows.where("offset <> 7"))
        second = open_window(manifest, driver_of(first).number)
        assert load(second, table).published.run == driver_of(second).run
        assert offsets(read_published(spark, ledger_uri)) == EXPECTED


class TestLateDrivers:
    def test_one_that_begins_to_write_after_another_attempt_is_published_writes_nothing(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        late, other = open_window(manifest), open_window(manifest)
        load(other, table)
        published = f"attempt {driver_of(other).number} is published"
        with pytest.raises(LedgerConflictError, match=f"{published}. To load it again, run kafka-offsets ledger rel"):
            load(late, table)
        with pytest.raises(LedgerConflictError, match=published):
            open_window(manifest, driver_of(late).number)
        assert folders(table, manifest) == {f"attempt={name_of(other)}"}

    def test_one_that_began_before_a_reload_writes_nothing(
        self, open_window: OpenWindow, manifest: Manifest, our_ledger: Ledger, table: str, tmp_path: Path
    ) -> None:
        late = open_window(manifest)
        ledgers.reload(our_ledger, manifest.window)
        with pytest.raises(CommitConflictError, match="it is to be loaded again since"):
            load(late, table)
        assert not (tmp_path / "table").exists()

    def test_one_whose_window_was_voided_writes_nothing(
        self, open_window: OpenWindow, manifest: Manifest, our_ledger: Ledger, table: str, tmp_path: Path
    ) -> None:
        late = open_window(manifest)
        our_ledger.change(lambda state: corrections.void(state, [manifest.window]))
        with pytest.raises(LedgerConflictError, match="has no window"):
            load(late, table)
        assert not (tmp_path / "table").exists()

    def test_one_whose_window_was_resolved_anew_writes_nothing(
        self, open_window: OpenWindow, manifest: Manifest, empty_manifest: Manifest, table: str
    ) -> None:
        late = open_window(manifest)
        open_window(empty_manifest)
        with pytest.raises(LedgerConflictError, match="was resolved anew, to other offsets"):
            load(late, table)


class TestAnotherLedger:
    def test_a_manifest_that_lies_in_it_is_not_loaded(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger: Path, table: str
    ) -> None:
        """A window's folder was copied into a ledger of the same name."""
        window = open_window(manifest)
        for commit in ledger.glob("log/*/*.json"):
            commit.write_text(commit.read_text().replace(manifest.ledger_id, "0e" * 16))
        with pytest.raises(LedgerConflictError, match=f"is ledger {'0e' * 16}. A ledger is moved or restored as a"):
            open_window(manifest, driver_of(window).number)


class TestReload:
    def test_a_window_that_is_to_be_loaded_again_is_read_as_it_was_until_then(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        """Each attempt's files lie in a folder of their own."""
        load(open_window(manifest), table, lambda rows: rows.withColumn("how", rows.partition * 0))
        again = open_window(manifest, again=True)
        result = again.write(again.read().selectExpr("*", "1 AS how"), FileSink(table))
        assert {row["how"] for row in read_published(spark, ledger_uri).select("how").distinct().collect()} == {0}
        publish(again, result)
        rows = read_published(spark, ledger_uri)
        assert {row["how"] for row in rows.select("how").distinct().collect()} == {1}
        assert offsets(rows) == EXPECTED
