"""Jobs that make other rows of the records: filtered, aggregated, exploded; and bad ones apart."""

from __future__ import annotations

import contextlib
import re
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    LedgerConflictError,
    LedgerError,
    UnprovenError,
)
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import (
    Attempt,
    DeltaSink,
    Derived,
    FileSink,
    IcebergSink,
    Sink,
    Written,
    read_published,
)
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from dev import ROOT
from tests.integration.spark.conftest import OpenWindow, flight_records
from tests.integration.spark.publishing import load, publish, result_of
from tests.integration.spark.sinks.conftest import attempt_of
from tests.integration.spark.sinks.faults import Died, dying
from tests.integration.spark.test_transforms import OUTCOMES, outcome_of, transform_of
from tests.unit.spark.manifests import manifest_of

HIGH_M = 100
"""Flights above this are dead letters here."""
ALTITUDE = "cast(get_json_object(cast(value AS string), '$.altitude_m') AS int)"
MakeSink = Callable[[str], Sink]


def per_key(records: DataFrame) -> DataFrame:
    """Flights and their highest altitude by key, of those that aren't too high."""
    low = records.withColumn("altitude_m", F.expr(ALTITUDE)).where(F.col("altitude_m") <= HIGH_M)
    return low.groupBy(F.col("key").cast("string").alias("key")).agg(
        F.count("*").alias("flights"), F.max("altitude_m").alias("highest_m")
    )


def too_high(records: DataFrame) -> DataFrame:
    return records.where(f"{ALTITUDE} > {HIGH_M}").select("topic", "partition", "offset", "value")


def expected(manifest: Manifest) -> dict[str, tuple[int, int]]:
    """What :func:`per_key` makes, counted from the records themselves."""
    flights: Counter[str] = Counter()
    highest: dict[str, int] = {}
    for each in manifest.ranges:
        for number, (_, key, _) in list(enumerate(flight_records(each.end_offset)))[each.start_offset :]:
            if number <= HIGH_M and key is not None:
                flights[key.decode()] += 1
                highest[key.decode()] = max(number, highest.get(key.decode(), 0))
    return {key: (count, highest[key]) for key, count in flights.items()}


def rows_of(found: DataFrame) -> dict[str, tuple[int, int]]:
    rows = found.collect()
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: (row["flights"], row["highest_m"]) for row in rows}


@pytest.fixture(params=["parquet", "delta"])
def make_sink(request: pytest.FixtureRequest, tmp_path: Path) -> MakeSink:
    """Sinks of one kind."""

    def make(name: str) -> Sink:
        uri = f"file://{tmp_path}/{name}"
        return DeltaSink(uri) if request.param == "delta" else FileSink(uri)

    return make


@pytest.fixture
def ledger_uri(ledger: Path) -> str:
    return f"file://{ledger}"


def derive(window: PinnedWindow, sink: Sink, dead: Sink) -> RunResult:
    """Both outputs, published."""
    result = window.write_derived(per_key, sink, too_high=Derived(too_high, dead))
    publish(window, result)
    return result


class TestOutputs:
    def test_are_made_of_each_record_once_and_appear_together(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger: Path,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        window = open_window(manifest)
        result = window.write_derived(per_key, make_sink("hourly"), too_high=Derived(too_high, make_sink("high")))
        for output in (None, "too_high"):
            with pytest.raises(LedgerError, match="no published window"):
                read_published(spark, ledger_uri, output=output)
        published = publish(window, result)

        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)
        high = read_published(spark, ledger_uri, output="too_high").select("partition", "offset").collect()
        assert sorted(map(tuple, high)) == [(2, number) for number in range(HIGH_M + 1, 125)]
        assert (published.rows, [each.rows for each in published.further]) == (7, [24])
        assert result == result_of(ledger, manifest, "try-1")
        assert (result.read.count, result.rows_written, result.records) == (205, 7, 205)
        words = "read = log (7 rows written by your job, 24 to too_high)"
        assert str(judge(manifest, result, published)).startswith(words)
        assert window.audit.count == 205

    def test_of_one_output_are_written_as_they_are_read(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        window = open_window(manifest)
        publish(window, window.write_derived(lambda rows: per_key(rows).orderBy("key"), FileSink(table, "json")))
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)

    def test_may_be_more_than_records(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        """explode, and a join that matches several."""

        def twice(records: DataFrame) -> DataFrame:
            sides = records.sparkSession.createDataFrame([("a",), ("b",)], "side string")
            return records.select(F.explode(F.array(F.lit(1), F.lit(2))).alias("copy"), "offset").join(
                F.broadcast(sides)
            )

        window = open_window(manifest)
        result = window.write_derived(twice, FileSink(table))
        assert (publish(window, result).rows, result.read.count) == (820, 205)

    def test_of_a_window_without_offsets_hold_no_row(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        empty_manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        """S6: whatever the job makes of nothing, as a total of it."""
        window = open_window(empty_manifest)
        result = window.write_derived(lambda rows: rows.agg(F.count("*").alias("flights")), make_sink("total"))
        published = publish(window, result)
        assert (published.rows, published.output) == (0, None)
        with pytest.raises(LedgerError, match="all without rows"):
            read_published(spark, ledger_uri)

    @pytest.mark.parametrize("outputs", [1, 2])
    @pytest.mark.parametrize("gaps", [False, True])
    def test_may_have_no_row_though_there_were_records(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
        outputs: int,
        gaps: bool,
    ) -> None:
        """As when all are dead letters: Spark takes a stage that is empty out of the plan, with what it has counted."""

        def none(records: DataFrame) -> DataFrame:
            return records.where("key = 'never'").groupBy("key").count()

        window = open_window(manifest, allow_gaps=gaps)
        further = {"all": Derived(lambda rows: rows.select("offset"), make_sink("all"))} if outputs == 2 else {}
        result = window.write_derived(none, make_sink("none"), **further)
        assert (publish(window, result).rows, result.read.count) == (0, 205)
        if further:
            assert read_published(spark, ledger_uri, output="all").count() == 205
        assert spark.conf.get("spark.sql.adaptive.optimizer.excludedRules", None) is None

    def test_of_a_window_that_was_read_with_strict_time_are_all_rows(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        window = open_window(manifest)
        window.read(strict_time=True)
        derive(window, make_sink("hourly"), make_sink("high"))
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)

    def test_of_a_log_with_gaps_are_held_against_the_log(
        self, spark: SparkSession, open_window: OpenWindow, transactional: str, ledger_uri: str, make_sink: MakeSink
    ) -> None:
        """E12, S18: ten records at seventeen offsets."""
        manifest = manifest_of([(transactional, 0, 0, 17)])
        with pytest.raises(UnprovenError, match=r"made of 10 records, but the window has 17 offsets.*allow gaps"):
            open_window(manifest).write_derived(per_key, make_sink("first"))
        window = open_window(manifest, "try-2", allow_gaps=True)
        result = derive(window, make_sink("hourly"), make_sink("high"))
        assert (result.records, result.read.count, result.unread) == (10, 10, ())
        assert sum(flights for flights, _ in rows_of(read_published(spark, ledger_uri)).values()) == 10


PAGE = (ROOT / "docs" / "guides" / "jobs.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## What a transform may do")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| `(.+)` \| ([a-z ]+) \| ([a-z ]+) \|$", re.MULTILINE)
JOBS = [
    (job, outcome, gaps)
    for job, *outcomes in ROW.findall(TABLE)
    for outcome, gaps in zip(outcomes, (False, True), strict=True)
]
"""What the docs say of jobs: on a window where every offset has a record, and where some may be without one."""


class TestTheTableOfTheDocs:
    """S25."""

    @pytest.fixture(autouse=True)
    def functions_run_here(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        """Python functions of a query run by this Python, which has PyArrow."""
        monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)

    def test_has_rows(self) -> None:
        assert len(JOBS) == 2 * TABLE.count("\n| `") > 20
        assert {outcome for _, outcome, _ in JOBS} == OUTCOMES.keys()

    @pytest.mark.parametrize(("job", "outcome", "gaps"), JOBS)
    def test_says_what_happens(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        transactional: str,
        table: str,
        job: str,
        outcome: str,
        gaps: bool,
    ) -> None:
        window = open_window(manifest_of([(transactional, 0, 0, 17)]) if gaps else manifest, allow_gaps=gaps)
        assert outcome_of(lambda: window.write_derived(transform_of(job, spark), FileSink(table, "json"))) == outcome


def subquery(records: DataFrame) -> DataFrame:
    """Reads all of them for a condition, and not all of them for its rows."""
    records.createOrReplaceTempView("seen")
    least = "(SELECT min(`offset`) FROM seen)"
    return records.sparkSession.sql(f"SELECT `offset` FROM (SELECT * FROM seen LIMIT 50) WHERE `offset` >= {least}")


def exists(records: DataFrame) -> DataFrame:
    records.createOrReplaceTempView("seen")
    found = "EXISTS (SELECT 1 FROM seen WHERE `offset` = 20)"
    return records.sparkSession.sql(f"SELECT `offset` FROM seen WHERE {found}")


class Own(FileSink):
    """A sink of a user's that doesn't say where it writes."""

    kind = "own"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.kind, self._place, self.place = "own", self.place, None

    def _folder(self, attempt: Attempt) -> str:
        return f"{self._place}/{attempt.window}/{attempt.name}"


class TestRefusals:
    def test_a_read_that_is_stopped_early_is_not_proved(
        self, open_window: OpenWindow, manifest: Manifest, table: str, window_folders: WindowFolders
    ) -> None:
        """S25."""
        window = open_window(manifest)
        with pytest.raises(UnprovenError, match="stopped early, by limit"):
            window.write_derived(lambda rows: rows.limit(50).groupBy("partition").count(), FileSink(table))
        assert window_folders.publication(manifest.window) is None

    @pytest.mark.parametrize(
        ("job", "words"),
        [
            (lambda rows: rows.union(rows), "uses its records 2 times"),
            (
                lambda rows: rows.where(F.col("offset") > rows.select(F.avg("offset")).scalar()),
                "uses its records 2 times",
            ),
            (subquery, "uses its records 2 times"),
            (exists, "uses its records 2 times"),
            (lambda rows: rows.join(rows.groupBy("partition").count(), "partition"), "uses its records 2 times"),
            (lambda rows: rows.orderBy("offset"), "orderBy.* which has Spark read them twice"),
            (lambda rows: rows.where("false"), "don't come from its records"),
            (lambda rows: rows.sparkSession.range(3), "don't come from its records"),
            (lambda rows: rows.withColumn("window", F.lit("x")), "a column window"),
            (lambda rows: rows.limit(max(1, rows.count() - 200)), "ran an action on its records"),
            (lambda rows: rows.count(), "returned int"),
        ],
    )
    def test_what_can_not_be_counted_is_refused_before_anything_is_written(
        self,
        open_window: OpenWindow,
        manifest: Manifest,
        tmp_path: Path,
        table: str,
        job: Callable[[DataFrame], Any],
        words: str,
    ) -> None:
        with pytest.raises(ConfigurationError, match=words):
            open_window(manifest).write_derived(job, FileSink(table))
        assert not (tmp_path / "table").exists()

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (FileSink("file:///OUT/x"), FileSink("file:/OUT/x/")),
            (FileSink("file:///OUT/x"), FileSink("file:///OUT/x", "json")),
            (DeltaSink("file:///OUT/x"), DeltaSink("file:/OUT/x")),
            (DeltaSink("file:///OUT/x"), FileSink("file:///OUT/x")),
            (IcebergSink("lake.flights.x"), IcebergSink("lake.flights.`x`")),
            (Own("file:///OUT/x"), Own("file:///OUT/y")),
        ],
        ids=["slashes", "formats", "a table's path", "a table and files", "backticks", "nobody knows where"],
    )
    def test_two_outputs_have_two_places(
        self, open_window: OpenWindow, manifest: Manifest, one: Sink, other: Sink
    ) -> None:
        with pytest.raises(ConfigurationError, match="Two outputs go to"):
            derive(open_window(manifest), one, other)

    def test_two_names_of_one_table_are_noticed_once_both_are_written(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, window_folders: WindowFolders
    ) -> None:
        """As where a session's catalog is the one that the other name says."""
        name = f"t{uuid.uuid4().hex[:8]}"
        one, other = IcebergSink(f"lake.flights.{name}"), IcebergSink(f"lake.flights.{name}")
        other.place = "elsewhere"
        with pytest.raises(ConfigurationError, match="Two outputs go to"):
            derive(open_window(manifest), one, other)
        assert window_folders.publication(manifest.window) is None

    def test_what_another_transform_does_with_an_outputs_records_is_noticed(
        self, open_window: OpenWindow, manifest: Manifest, make_sink: MakeSink
    ) -> None:
        """They would be counted by the wrong action."""
        given: list[DataFrame] = []

        def some(records: DataFrame) -> DataFrame:
            given.append(records)
            return records.limit(50).select("offset")

        def counting(records: DataFrame) -> DataFrame:
            given[-1].count()
            return records.select("offset")

        def joining(records: DataFrame) -> DataFrame:
            return records.join(given[-1].groupBy("partition").count(), "partition").select("offset")

        for number, (other, words) in enumerate([(counting, "ran an action on its"), (joining, "another output's")]):
            window = open_window(manifest, f"try-{number}")
            with pytest.raises(ConfigurationError, match=words):
                window.write_derived(some, make_sink("some"), other=Derived(other, make_sink("other")))

    def test_a_sink_that_keeps_an_earlier_attempts_rows_is_told_to_write(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        class Keeping(FileSink):
            def write(self, rows: DataFrame, attempt: Attempt) -> Written:
                written = super().write(rows, attempt)
                return replace(written, attempt=min(attempt.earlier)) if attempt.earlier else written

        open_window(manifest).write_derived(per_key, Keeping(table))
        with pytest.raises(ConfigurationError, match="keeps the rows of attempt try-1"):
            open_window(manifest, "try-2").write_derived(per_key, Keeping(table))

    def test_a_sink_that_drops_rows_is_noticed(self, open_window: OpenWindow, manifest: Manifest, table: str) -> None:
        class Dropping(FileSink):
            def write(self, rows: DataFrame, attempt: Attempt) -> Written:
                return super().write(rows.where("key != '3'"), attempt)

        with pytest.raises(UnprovenError, match=r"made 7 rows .* holds 6"):
            open_window(manifest).write_derived(per_key, Dropping(table))


class TestReruns:
    def test_of_a_published_window_write_nothing(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        """S23."""
        first = derive(open_window(manifest), make_sink("hourly"), make_sink("high"))

        def untouched(_: DataFrame) -> DataFrame:
            raise AssertionError("there is nothing to make")

        rerun = open_window(manifest, "try-2")
        again = rerun.write_derived(untouched, make_sink("hourly"), too_high=Derived(untouched, make_sink("high")))
        assert again == first
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)

    def test_after_a_death_at_each_step_make_both_anew(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        """S1, S22: the first run dies before its first step, the next one before its second, until one comes through.
        What the others left is of attempts that aren't published, in both outputs, and is replaced."""
        sink, dead = make_sink("hourly"), make_sink("high")
        for step in range(24):
            with contextlib.suppress(Died), dying(step, sink, dead):
                derive(open_window(manifest, f"try-{step}"), sink, dead)
                break
            for output in (None, "too_high"):
                with pytest.raises(LedgerError, match="no published window"):
                    read_published(spark, ledger_uri, output=output)
        assert 4 < step < 23, "the note, both outputs and the counts are steps"
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)
        assert read_published(spark, ledger_uri, output="too_high").count() == 24
        for place, rows in ((sink, 7), (dead, 24)):
            if isinstance(place, DeltaSink):
                assert spark.read.format("delta").load(place.table).count() == rows, "nothing else lies in the table"

    def test_with_other_outputs_are_refused(
        self, open_window: OpenWindow, manifest: Manifest, make_sink: MakeSink, table: str
    ) -> None:
        derive(open_window(manifest), make_sink("hourly"), make_sink("high"))
        with pytest.raises(LedgerConflictError, match=r"with 7 rows in .*, 24 rows in .*, and this run writes"):
            open_window(manifest, "try-2").write_derived(per_key, make_sink("hourly"))
        with pytest.raises(LedgerConflictError, match="rows that a job has derived"):
            load(open_window(manifest, "try-3"), table)
        with pytest.raises(LedgerConflictError, match="hold 7 and 0 of these rows"):
            derive(open_window(manifest, "try-4"), make_sink("hourly"), make_sink("elsewhere"))

    def test_of_a_window_of_records_are_refused(
        self, open_window: OpenWindow, manifest: Manifest, make_sink: MakeSink, table: str
    ) -> None:
        load(open_window(manifest), table)
        with pytest.raises(LedgerConflictError, match="a row for each record"):
            derive(open_window(manifest, "try-2"), make_sink("hourly"), make_sink("high"))

    def test_may_name_the_further_outputs_in_another_order(
        self, open_window: OpenWindow, manifest: Manifest, make_sink: MakeSink
    ) -> None:
        names = ("a", "b")
        window = open_window(manifest)
        outputs = {name: Derived(too_high, make_sink(name)) for name in names}
        first = window.write_derived(per_key, make_sink("hourly"), **outputs)
        publish(window, first)
        turned = {name: outputs[name] for name in reversed(names)}
        assert open_window(manifest, "try-2").write_derived(per_key, make_sink("hourly"), **turned) == first

    @pytest.mark.parametrize("kind", [DeltaSink, IcebergSink])
    def test_load_a_table_again_whose_rows_another_attempt_has_replaced_by_as_many(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        ledger_uri: str,
        tmp_path: Path,
        kind: Any,
    ) -> None:
        place = f"file://{tmp_path}/t" if kind is DeltaSink else f"lake.flights.t{uuid.uuid4().hex[:8]}"
        dead = FileSink(f"file://{tmp_path}/dead")
        derive(open_window(manifest), kind(place), dead)
        rows = read_published(spark, ledger_uri).drop("window").withColumn("flights", F.lit(0).cast("bigint")).collect()
        other = attempt_of(manifest, "client", started_ms=now_ms() + 1, has_note=False, earlier=frozenset({"try-1"}))
        kind(place).write(spark.createDataFrame(rows, "key string, flights bigint, highest_m int"), other)
        with pytest.raises(LedgerConflictError):
            read_published(spark, ledger_uri)
        assert derive(open_window(manifest, "try-2"), kind(place), dead).attempt == "try-2"
        assert rows_of(read_published(spark, ledger_uri)) == expected(manifest)

    @pytest.mark.parametrize("lost", ["emptied", "elsewhere"])
    def test_of_what_retention_left_do_not_replace_the_whole_whose_rows_are_gone(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        manifest: Manifest,
        window_folders: WindowFolders,
        tmp_path: Path,
        lost: str,
    ) -> None:
        def sink(name: str) -> DeltaSink:
            return DeltaSink(f"file://{tmp_path}/{name}")

        derive(open_window(manifest), sink("a"), sink("b"))
        if lost == "emptied":
            for name in "ab":
                spark.sql(f"DELETE FROM delta.`file://{tmp_path}/{name}`")
        first = replace(manifest.ranges[0], start_offset=50, lost_offsets=40)
        rest = open_window(replace(manifest, ranges=(first, *manifest.ranges[1:])), "try-2")
        assert rest.manifest.revision == 2
        names = "ab" if lost == "emptied" else "cd"
        with pytest.raises(LedgerConflictError, match="hold 0 and 0 of these rows"):
            derive(rest, *map(sink, names))
        published = window_folders.publication(manifest.window)
        assert published is not None
        assert published.revision == 1

    def test_of_a_newer_revision_replace_both(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        flights: str,
        manifest: Manifest,
        ledger_uri: str,
        make_sink: MakeSink,
    ) -> None:
        derive(open_window(manifest), make_sink("hourly"), make_sink("high"))
        newer = replace(manifest_of([(flights, 2, 0, 200)]), cluster_id=manifest.cluster_id, end_snapshot=9)
        derive(open_window(newer, "try-2"), make_sink("hourly"), make_sink("high"))
        assert rows_of(read_published(spark, ledger_uri)) == expected(newer)
        assert read_published(spark, ledger_uri, output="too_high").count() == 99


class TestReading:
    def test_an_output_that_a_window_was_published_without(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger_uri: str, table: str
    ) -> None:
        load(open_window(manifest), table)
        with pytest.raises(LedgerError, match="without an output too_high; its further outputs are: none"):
            read_published(spark, ledger_uri, output="too_high")
