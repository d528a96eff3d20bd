"""A table for each topic: the rows of a window's topics go to places of their own, all published or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import ConfigurationError, LedgerError, UnprovenError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.file_lists import published_files
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.spark import Attempt, DeltaSink, FileSink, IcebergSink, Sink, read_published
from airflow_kafka_offsets.spark.published import TABLES
from airflow_kafka_offsets.spark.table_load import TableLoad
from tests.integration.airflow.conftest import FOR_EVER, TaskStateStore
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.spark.conftest import MakeFlights, OpenWindow
from tests.integration.spark.publishing import load_rows
from tests.integration.spark.sinks.conftest import publish
from tests.integration.spark.sinks.faults import Died
from tests.integration.spark.sinks.tasks import START, driver, in_sparks_place, sockets
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import manifest_of

__all__ = ["driver", "in_sparks_place", "sockets"]  # fixtures, that pytest finds here

MakeByTopic = Callable[[str], Sink]
_TABLE = pytest.mark.nightly("a table; Delta has a place for each topic in the first test")
EACH_KIND = ["parquet", *(pytest.param(kind, marks=_TABLE) for kind in ("delta", "iceberg"))]
SMALL = {0: list(range(9))}
LARGE = {0: list(range(20, 60)), 2: list(range(100))}


@pytest.fixture(scope="module")
def small(make_flights: MakeFlights) -> str:
    """A topic beside ``flights``."""
    return make_flights({0: 30})


@pytest.fixture
def both(flights: str, small: str) -> Manifest:
    """A window of two topics, one of which has more rows."""
    return manifest_of([(flights, 0, 20, 60), (flights, 1, 0, 0), (flights, 2, 0, 100), (small, 0, 0, 9)])


@pytest.fixture
def make_by_topic(tmp_path: Path) -> MakeByTopic:
    """A sink of a kind with a place for each topic."""

    def make(kind: str) -> Sink:
        if kind == "iceberg":
            return IcebergSink(f"lake.{{pipeline}}.{tmp_path.name.replace('-', '_')}_{{topic}}")
        place = f"file://{tmp_path}/{{pipeline}}/{{topic}}"
        return DeltaSink(place) if kind == "delta" else FileSink(place)

    return make


@pytest.fixture(params=EACH_KIND)
def by_topic(request: pytest.FixtureRequest, make_by_topic: MakeByTopic) -> Sink:
    return make_by_topic(request.param)


class TestTables:
    @pytest.mark.parametrize("by_topic", [*EACH_KIND[:1], "delta", *EACH_KIND[2:]], indirect=True)
    def test_of_two_topics_have_their_own_rows_and_are_published_and_read_together_or_one_by_one(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        both: Manifest,
        by_topic: Sink,
        small: str,
        flights: str,
        ledger_uri: str,
    ) -> None:
        published = publish(open_window(both), by_topic)
        assert {each.name: each.rows for each in published.outputs} == {flights: 140, small: 9}
        assert published.rows == 149
        places = {each.output for each in published.outputs}
        assert len(places) == 2, places

        assert offsets(read_published(spark, ledger_uri, output=small)) == SMALL
        assert offsets(read_published(spark, ledger_uri, output=flights)) == LARGE
        assert read_published(spark, ledger_uri).count() == 149
        with pytest.raises(LedgerError, match=f"without an output other; its named outputs are: .*{small}"):
            read_published(spark, ledger_uri, output="other")

    def test_of_a_topic_without_rows_lose_those_that_its_window_had(
        self, spark: SparkSession, open_window: OpenWindow, both: Manifest, by_topic: Sink, small: str, ledger_uri: str
    ) -> None:
        """A table of a topic that never had rows isn't created."""
        publish(open_window(both), by_topic)
        none = tuple(replace(each, end_offset=0) if each.topic == small else each for each in both.ranges)
        published = publish(open_window(replace(both, ranges=none)), by_topic)
        assert [each.rows for each in published.outputs if each.name == small] == [0]
        assert read_published(spark, ledger_uri).count() == 140
        with pytest.raises(LedgerError, match="all without rows"):
            read_published(spark, ledger_uri, output=small)
        if by_topic.kind != "parquet":
            table = by_topic.outputs(both.pipeline, both.topics)[small]
            assert TABLES[by_topic.kind](str(table.place)).rows(spark).count() == 0

    def test_of_a_topic_without_offsets_is_left_as_it_is(
        self, open_window: OpenWindow, both: Manifest, make_by_topic: MakeByTopic, small: str, flights: str
    ) -> None:
        """Each commit to an idle topic's table would take as long as one with rows."""
        written: list[str] = []

        class Told(FileSink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                written.append(attempt.output)
                return super().replace(rows, attempt)

        none = tuple(replace(each, end_offset=0) if each.topic == small else each for each in both.ranges)
        published = publish(open_window(replace(both, ranges=none)), Told(str(make_by_topic("parquet").place)))
        assert written == [flights]
        assert {each.name: each.rows for each in published.outputs} == {flights: 140, small: 0}

    def test_of_which_a_driver_had_written_one_when_it_died_are_whole_after_the_next_attempt(
        self, spark: SparkSession, open_window: OpenWindow, both: Manifest, by_topic: Sink, ledger_uri: str
    ) -> None:
        """Between the two tables: nothing is published; then none is lost or doubled."""
        window, made = open_window(both), []
        write = type(by_topic).replace

        def once(sink: Sink, rows: DataFrame, attempt: Attempt) -> str | None:
            if made:
                raise Died
            made.append(sink.place)
            return write(sink, rows, attempt)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(by_topic), "replace", once)
            with pytest.raises(Died):
                window.write(window.read(), by_topic)
        with pytest.raises(LedgerError, match="no published window"):
            read_published(spark, ledger_uri)

        publish(open_window(both), by_topic)
        rows = read_published(spark, ledger_uri)
        assert rows.count() == rows.select("topic", "partition", "offset").distinct().count() == 149
        if by_topic.kind != "parquet":
            tables = by_topic.outputs(both.pipeline, both.topics).values()
            assert sum(TABLES[by_topic.kind](str(each.place)).rows(spark).count() for each in tables) == 149


class TestRead:
    def test_of_an_output_is_of_its_topic_alone_if_each_topic_is_read_on_its_own(
        self, spark: SparkSession, open_window: OpenWindow, both: Manifest, make_by_topic: MakeByTopic, ledger_uri: str
    ) -> None:
        """As the ready-made load does; otherwise Kafka is read once for all."""
        window = open_window(both)
        rows = window.read(by_topic=True)
        scans = {
            topic: str(rows.where(F.col("topic") == topic)._jdf.queryExecution().optimizedPlan()).count("RelationV2")
            for topic in (*both.topics, "other")
        }
        assert scans == {**dict.fromkeys(both.topics, 1), "other": 0}
        load_rows(window, rows.withColumn("value", F.col("value").cast("string")), make_by_topic("parquet"))
        assert read_published(spark, ledger_uri).count() == 149


class TestProof:
    def test_finds_rows_in_another_topics_table(
        self, open_window: OpenWindow, both: Manifest, small: str, make_by_topic: MakeByTopic
    ) -> None:
        """Each table has as many rows as it should, and all of the window are there."""

        class Crossed(FileSink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                other = next(topic for topic in both.topics if topic != attempt.output)
                changed = F.when(F.col("offset") == 5, other).otherwise(F.col("topic"))
                return super().replace(rows.withColumn("topic", changed), attempt)

        sink, window = make_by_topic("parquet"), open_window(both)
        with pytest.raises(UnprovenError, match=f"{small} in the output of flights-"):
            window.write(window.read(), Crossed(str(sink.place)))

    def test_covers_topics_whose_offsets_may_be_without_a_record(
        self, spark: SparkSession, open_window: OpenWindow, transactional: str, small: str, ledger_uri: str
    ) -> None:
        """What is read is counted once, for all topics."""
        both = manifest_of([(small, 0, 0, 9), (transactional, 0, 0, 17)])
        window = open_window(both, allow_gaps=True)
        loaded = load_rows(window, window.read(), FileSink(f"{ledger_uri}-out/{{topic}}"))
        assert (loaded.result.read.count, loaded.rows) == (19, 19)
        assert read_published(spark, ledger_uri, output=transactional).count() == 10


class TestNames:
    def test_of_topics_become_names_that_a_catalog_takes(
        self, spark: SparkSession, open_window: OpenWindow, both: Manifest, small: str, make_by_topic: MakeByTopic
    ) -> None:
        """Topics of these tests have a dash in their names."""
        sink = DeltaSink(f"default.t_{{topic}}_{small[-4:]}")
        published = publish(open_window(both), sink)
        places = {each.name: each.output for each in published.outputs}
        assert places[small] == f"default.t_{small.replace('-', '_')}_{small[-4:]}"
        assert spark.table(str(places[small])).count() == 9

    def test_of_which_two_would_be_one_table_are_refused_before_anything_is_read(
        self, open_window: OpenWindow, small: str, make_by_topic: MakeByTopic
    ) -> None:
        window = open_window(manifest_of([(small, 0, 0, 9), (small.replace("-", "."), 0, 0, 9)]))
        with pytest.raises(ConfigurationError, match="would both go to the table"):
            window.write(window.read(), make_by_topic("iceberg"))

    def test_are_not_those_of_a_jobs_rows(
        self, open_window: OpenWindow, both: Manifest, make_by_topic: MakeByTopic
    ) -> None:
        window = open_window(both)
        with pytest.raises(ConfigurationError, match="a place for each topic"):
            window.write_derived(lambda rows: rows.groupBy("key").count(), make_by_topic("parquet"))


def test_the_lists_of_files_are_by_topic(
    open_window: OpenWindow, both: Manifest, small: str, our_ledger: Ledger, make_by_topic: MakeByTopic
) -> None:
    publish(open_window(both), make_by_topic("parquet"))
    our_ledger.read()
    listed = {
        topic: (our_ledger.files.read(f"files/{topic}/window={both.window}/files.txt") or b"").decode().splitlines()
        for topic in both.topics
    }
    assert all(f"/{topic}/window=" in file for topic, files in listed.items() for file in files)
    assert sorted(published_files(our_ledger, None, None)[both.window]) == sorted(chain.from_iterable(listed.values()))
    assert len(listed[small]) > 0


@pytest.mark.usefixtures("driver")
def test_tasks_load_a_pipelines_topics_into_tables_of_their_own_and_name_them(
    spark: SparkSession, topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    """By the ready-made load; one of three topics is idle."""
    counts = {topic(config=FOR_EVER): count for count in (5, 0, 9)}
    for name, count in counts.items():
        at_ms = int(START.timestamp() * 1000)
        produce(name, 0, [(at_ms + number * 1000, None, b"x") for number in range(count)])
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="load", map_index=-1, try_number=1, max_tries=0)
    context: Any = {"ti": ti, "task_state_store": TaskStateStore()}
    pipeline = KafkaPipeline("shop", list(counts), ledger_root=f"file://{tmp_path}/ledger")
    times = {"start": START.isoformat(), "end": (START + timedelta(minutes=1)).isoformat()}
    window = KafkaResolveWindowOperator(task_id="resolve", pipeline=pipeline, **times).execute(context)
    table = TableLoad(f"file://{tmp_path}/{{pipeline}}/{{topic}}", sink="delta")
    loaded = KafkaSparkSubmitOperator(task_id="load", window=window, application=table, connector="given").execute(
        context
    )
    verified = KafkaVerifyWindowOperator(task_id="verify", window=window).execute(context)
    assert loaded["outputs"] == verified["outputs"]
    assert {each["name"]: each["rows"] for each in loaded["outputs"]} == counts
    assert (loaded["rows"], loaded["output"], verified["verdict"]) == (14, None, "read = written = log")
    places = {each["name"]: each["output"] for each in loaded["outputs"] if each["output"]}
    assert {name: spark.read.format("delta").load(place).count() for name, place in places.items()} == {
        name: count for name, count in counts.items() if count
    }
    assert all(place.endswith(f"/shop/{name}") for name, place in places.items())
