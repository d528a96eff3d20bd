"""Writing a window again: by another attempt at it, and as another revision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    LedgerCorruptError,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import read_published
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import Attempt
from tests.integration.spark.conftest import OpenWindow, window_folder
from tests.integration.spark.publishing import Loaded, load, load_rows, result_of
from tests.integration.spark.test_pinned_window import offsets

EXPECTED = {0: list(range(10, 90)), 2: list(range(125))}


def overtaken(window: PinnedWindow, table: str, another: Callable[[], object]) -> Loaded:
    """Load a window, while another attempt does so after this one has begun."""

    class Overtaken(FileSink):
        def write(self, rows: DataFrame, attempt: Attempt) -> str | None:
            another()
            return super().write(rows, attempt)

    return load_rows(window, window.read(), Overtaken(table))


class TestRetries:
    def test_a_rerun_of_a_published_window_counts_the_published_rows_again_and_leaves_them(
        self, open_window: OpenWindow, manifest: Manifest, ledger: Path, table: str, tmp_path: Path
    ) -> None:
        """S23, S14: nothing is read from Kafka, where a compacted topic may hold less by now."""
        first, rerun = open_window(manifest), open_window(manifest, "try-2")
        load(first, table)
        run = load(rerun, table)

        assert (run.attempt, run.published_attempt, run.rows) == ("try-2", "try-1", 205)
        assert run.result == result_of(ledger, manifest, "try-1")
        assert rerun.audit == first.audit
        assert not (window_folder(ledger, manifest) / "results" / "try-2.json").exists()
        assert [path.name for path in (tmp_path / "table" / f"window={manifest.window}").iterdir()] == ["attempt=try-1"]

    def test_a_rerun_trusts_no_counts_that_were_changed_since_they_were_published(
        self, open_window: OpenWindow, manifest: Manifest, ledger: Path, table: str
    ) -> None:
        load(open_window(manifest), table)
        counts = window_folder(ledger, manifest) / "results" / "try-1.json"
        counts.write_text(counts.read_text().replace('"seconds"', ' "seconds"'))
        with pytest.raises(LedgerCorruptError, match=r"try-1\.json was changed after it was published"):
            load(open_window(manifest, "try-2"), table)

    def test_of_two_attempts_side_by_side_one_is_published_and_read(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger: Path, table: str
    ) -> None:
        """S22: Airflow's retry may run beside the attempt that it gave up on. Each says what it has counted itself."""

        run = overtaken(open_window(manifest, "try-2"), table, lambda: load(open_window(manifest, "try-1"), table))

        assert (run.attempt, run.result.attempt, run.published_attempt) == ("try-2", "try-2", "try-1")
        assert run.result.written == result_of(ledger, manifest, "try-1").written
        assert offsets(read_published(spark, f"file://{ledger}")) == EXPECTED

    def test_an_attempt_can_not_use_a_name_again(
        self, open_window: OpenWindow, empty_manifest: Manifest, table: str, ledger: Path
    ) -> None:
        """Of a window without offsets there is no folder that would tell."""
        load(open_window(empty_manifest), table)

        with pytest.raises(ConfigurationError, match="the attempt's name was used before"):
            load(open_window(empty_manifest), table)


@pytest.mark.nightly("of revisions; TestRetries writes a window again")
class TestRevisions:
    """Of revisions made from the same snapshots the first that is published counts: the later ones lack records that
    were gone by then."""

    @pytest.fixture
    def the_rest(self, manifest: Manifest) -> Manifest:
        first, *others = manifest.ranges
        lost = replace(first, start_offset=first.start_offset + 5, lost_offsets=5)
        return replace(manifest, ranges=(lost, *others))

    def test_one_that_would_not_count_is_not_written(
        self, open_window: OpenWindow, manifest: Manifest, the_rest: Manifest, table: str, tmp_path: Path
    ) -> None:
        load(open_window(manifest, "try-1"), table)
        run = load(open_window(the_rest, "try-2"), table)

        assert (run.attempt, run.published_attempt, run.rows) == ("try-2", "try-1", 205)
        assert [path.name for path in (tmp_path / "table" / f"window={manifest.window}").iterdir()] == ["attempt=try-1"]

    def test_one_that_does_not_count_any_more_is_written_for_nothing(
        self, open_window: OpenWindow, manifest: Manifest, the_rest: Manifest, table: str
    ) -> None:
        first, second = open_window(manifest, "try-1"), open_window(the_rest, "try-2")
        run = overtaken(second, table, lambda: load(first, table))

        assert (run.attempt, run.published_attempt, run.rows) == ("try-2", "try-1", 205)
