"""Files as a sink: whatever the folder is called, and whatever is in the rows, they are read back as they were."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from pyspark.sql import SparkSession, functions as F

from airflow_kafka_offsets.errors import ColumnChangedError, ConfigurationError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import FileSink, read_published
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, held
from airflow_kafka_offsets.spark.sinks.file_sink import FileFormat
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import load_rows
from tests.integration.spark.sinks.conftest import EXPECTED, Holds, publish
from tests.integration.spark.sinks.test_reading import tenth
from tests.integration.spark.test_pinned_window import offsets

NAMES = [
    "[1]",
    "{a}",
    "st*r",
    "q?x",
    "back\\slash",
    "per%20cent",
    "plus+and&amp",
    "hash#tag",
    "a, b",
    "quote'x",
    "\u00e9",
]


_ANOTHER = pytest.mark.nightly("one more name or format; the first ones show that none is a pattern")


class TestFolders:
    @pytest.mark.parametrize("name", [*NAMES[:2], *(pytest.param(name, marks=_ANOTHER) for name in NAMES[2:])])
    def test_of_any_name_are_read_as_they_are_called(
        self, open_window: OpenWindow, manifest: Manifest, holds: Holds, tmp_path: Path, name: str
    ) -> None:
        sink = FileSink(f"file://{tmp_path}/{name}")
        publish(open_window(manifest), sink)
        assert holds(sink, manifest) == EXPECTED

    @pytest.mark.parametrize(
        "file_format",
        ["parquet", *(pytest.param(each, marks=_ANOTHER) for each in get_args(FileFormat) if each != "parquet")],
    )
    def test_that_would_match_another_one_as_a_pattern_do_not(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, tmp_path: Path, file_format: FileFormat
    ) -> None:
        for name in ("start", "st[a]rt", "*"):
            window = open_window(manifest)
            assert window.write(window.read(), FileSink(f"file://{tmp_path}/{name}", file_format)).rows_written == 205


class TestRows:
    def test_json_keeps_whole_times_and_a_column_that_spark_uses_for_what_it_cannot_parse(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        """The ready-made load's field of this name is a column once a job takes its struct apart."""
        when = datetime(2026, 11, 20, 6, 0, 0, 123_456, UTC)
        window = open_window(manifest)
        rows = window.read().withColumns({"_corrupt_record": F.lit("text"), "at": F.lit(when)})
        load_rows(window, rows, FileSink(table, "json"))
        found = read_published(spark, ledger_uri)
        (text,) = found.select("_corrupt_record").distinct().collect()
        (at,) = found.select(F.unix_micros(F.to_timestamp("at"))).distinct().collect()
        assert (text[0], at[0]) == ("text", int(when.timestamp()) * 1_000_000 + 123_456)

    @pytest.mark.parametrize("file_format", get_args(FileFormat))
    def test_that_are_gone_or_broken_are_not_left_out(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        tmp_path: Path,
        file_format: FileFormat,
    ) -> None:
        """Whatever the session would skip."""
        publish(open_window(manifest), FileSink(f"file://{tmp_path}/out", file_format))
        rows = read_published(spark, ledger_uri)
        assert offsets(rows) == EXPECTED
        first, *_ = sorted((tmp_path / "out").rglob(f"*.{file_format}"))
        first.write_bytes(b"{broken")
        with (
            held(spark, "spark.sql.files.ignoreCorruptFiles", lambda _: "true"),
            held(spark, "spark.sql.files.ignoreMissingFiles", lambda _: "true"),
        ):
            with pytest.raises(JAVA_ERRORS):
                rows.count()
            first.unlink()
            with pytest.raises(JAVA_ERRORS):
                rows.count()

    def test_with_a_column_that_the_format_lacks_are_refused_by_its_name(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        window = open_window(manifest)
        rows = window.read().withColumn("since", F.lit(None))
        with pytest.raises(ConfigurationError, match="since"):
            load_rows(window, rows, FileSink(table))


class TestColumns:
    def test_are_added_and_keep_their_types_from_window_to_window(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, ledger_uri: str, tmp_path: Path
    ) -> None:
        """A window that lacks a column doesn't have it forgotten."""
        sink = FileSink(f"file://{tmp_path}/table")
        first, second, third, fourth = (open_window(tenth(flights, number)) for number in range(4))
        load_rows(first, first.read().withColumn("added", F.struct(F.lit(1).alias("a"))), sink)
        load_rows(second, second.read(), sink)
        detail = F.struct(F.lit("x").alias("b"), F.lit(2).alias("a"))
        load_rows(third, third.read().withColumn("added", detail), sink)
        rows = read_published(spark, ledger_uri, mergeSchema="true")
        found = [tuple(row) for row in rows.groupBy("added.a", "added.b").count().collect()]
        assert sorted(found, key=str) == [(1, None, 10), (2, "x", 10), (None, None, 10)]

        changed = fourth.read().withColumn("added", F.struct(F.lit(1).alias("b")))
        with pytest.raises(ColumnChangedError, match=r"added\.b is string there and int in these rows"):
            fourth.write(changed, sink)
        assert not list((tmp_path / "table").glob(f"window={fourth.manifest.window}/*/*.parquet"))
