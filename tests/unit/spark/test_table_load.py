"""The ready-made load's arguments: what is refused when the Dag is parsed, which words and packages they become, and
how the words are read, also as AWS Glue starts it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from airflow.sdk import DAG

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.prepare_load import KafkaPrepareLoadOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.spark.load import SINKS
from airflow_kafka_offsets.spark.session.release import SparkRelease, table_confs
from airflow_kafka_offsets.spark.table_load import SinkKind, TableLoad
from airflow_kafka_offsets.spark.values.formats import ValueFormat
from airflow_kafka_offsets.task_groups import kafka_window_load

SPARK = SparkRelease("4.0.0", "2.13")
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
AVRO, DELTA = "org.apache.spark:spark-avro_2.13:4.0.0", "io.delta:delta-spark_2.13:4.0.0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"output": ""}, "needs its output"),
        ({"sink": "detla"}, "sink must be 'parquet' or"),
        ({"value_format": "arvo"}, "A format is binary, .* not 'arvo'"),
        ({"value_format": "json"}, "^value_format: The format json needs a schema"),
        ({"key_format": "json"}, "^key_format: The format json needs a schema"),
        ({"flatten": True}, "flatten= needs values with fields, and value_format='binary' has none"),
        ({"value_format": "avro", "bad_records": "dead-letter"}, "dead_letters=, where they go, are given together"),
        ({"value_format": "avro", "dead_letters": "d"}, "are given together or not at all"),
        ({"value_format": "avro", "bad_records": "dead-letter", "dead_letters": "o"}, "dead_letters= is the output"),
        (
            {"value_format": "avro", "bad_records": "dead-letter", "dead_letters": "b/{topic}"},
            "dead_letters= is one table for all topics",
        ),
        ({"output": "a/{Topic}"}, "has {Topic} in its name, which stands for nothing"),
        ({"bad_records": "fail"}, "key and value stay binary"),
        ({"bad_records": "drop", "value_format": "avro"}, "bad_records must be 'keep' or"),
    ],
    ids=lambda each: None if isinstance(each, str) else "-".join(each),
)
def test_what_contradicts_itself_is_refused_at_once(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        TableLoad(**{"output": "o"} | arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("avro", "a INT"), "A schema in DDL is for the format json, not for avro"),
        (("string", None, None, 3), "A version is for formats with a registry"),
        (("avro", None, None, "3"), "A version is a whole number"),
        (("avro", None, None, None, "M"), "A message is for the format protobuf"),
    ],
    ids=lambda each: None if isinstance(each, str) else each[0],
)
def test_a_format_takes_only_what_it_uses(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ValueFormat(*arguments)


@pytest.mark.parametrize(
    "table",
    [
        TableLoad("s3://lake/o"),
        TableLoad("o", value_format=ValueFormat("json", "a INT"), flatten=True, headers=True, min_partitions=4),
        TableLoad("o", sink="delta", value_format=ValueFormat("avro", version=2), key_format="string", flatten="v_"),
        TableLoad(
            "o", value_format=ValueFormat("protobuf", subject=["{topic}-a.B"], message="a.B"), bad_records="fail"
        ),
        TableLoad("o", value_format=ValueFormat("json", "a INT COMMENT 'see version=3', b INT")),
        TableLoad("o/{topic}", value_format="json-schema", bad_records="dead-letter", dead_letters="d"),
        TableLoad("o", key_format=ValueFormat("avro", subject=["{topic}-a.B", "c"]), flatten=False),
    ],
    ids=lambda table: " ".join(table.arguments()),
)
def test_the_load_reads_its_words_as_they_were_meant(table: TableLoad) -> None:
    found = TableLoad.of_words(table.arguments())
    assert found.formats == table.formats
    assert replace(found, value_format="json-schema", key_format="binary") == replace(
        table, value_format="json-schema", key_format="binary"
    )


def test_it_knows_all_sinks_of_the_driver() -> None:
    assert get_args(SinkKind) == tuple(SINKS)


class TestPackages:
    def test_are_those_of_its_table_and_formats(self) -> None:
        table = TableLoad("o", sink="delta", value_format="avro")
        assert SPARK.with_packages(table.kinds, [], None) == [CONNECTOR, AVRO, DELTA]
        assert "spark.sql.catalog.spark_catalog" in table_confs(table.kinds)
        assert SPARK.with_packages(TableLoad("o").kinds, ["a:b:1"], None) == ["a:b:1", CONNECTOR]
        assert table_confs(TableLoad("o").kinds) == {}

    def test_that_the_user_gives_win(self) -> None:
        table, own = TableLoad("o", sink="delta", key_format="avro"), "io.delta:delta-spark_2.13:4.0.1"
        assert SPARK.with_packages(table.kinds, [own], None) == [own, CONNECTOR, AVRO]
        jars = "/jars/spark-sql-kafka-0-10_2.13-4.0.0.jar,/jars/spark-avro_2.13-4.0.0.jar,/jars/delta-spark_2.13.jar"
        assert SPARK.with_packages(table.kinds, [], jars) == []

    def test_that_nobody_knows_are_to_be_named(self) -> None:
        with pytest.raises(ConfigurationError, match=r"delta package for Spark 4[.]9[.]0 isn't known here"):
            SparkRelease("4.9.0", "2.13").with_packages(["delta"], [], None)


class TestOperators:
    def test_take_it_as_their_application(self) -> None:
        table = TableLoad("o", value_format="string")
        for task in (
            KafkaSparkSubmitOperator(task_id="l", window={}, application=table),
            KafkaPrepareLoadOperator(task_id="p", window={}, application=table),
        ):
            assert task.application_args == ["--output", "o", "--value-format", "string"]
            with pytest.raises(ConfigurationError, match="application_args= is for own applications"):
                type(task)(task_id="t", window={}, application=table, application_args=["x"])

    def test_render_a_copy_since_tasks_may_share_it(self) -> None:
        table = TableLoad("{{ where }}/orders", value_format=ValueFormat("avro", subject="{{ where }}"))
        task = KafkaSparkSubmitOperator(task_id="l", window={}, application=table)
        task.render_template_fields({"where": "s3://lake"})  # type: ignore[arg-type]
        assert task.application_args[1] == "s3://lake/orders"
        assert task.application_args[-1] == "subject=s3://lake"
        assert (table.output, table.formats["value"].subject) == ("{{ where }}/orders", "{{ where }}")

    def test_a_forgotten_output_is_found_when_the_dag_is_parsed(self) -> None:
        with pytest.raises(ConfigurationError, match="has no output"):
            KafkaSparkSubmitOperator(task_id="l", window={})
        KafkaSparkSubmitOperator(task_id="l", window={}, application_args="{{ var.json.words }}")  # type: ignore[arg-type]

    def test_a_format_needs_the_pipelines_registry(self) -> None:
        table = TableLoad("o", value_format="avro")
        with pytest.raises(ConfigurationError, match="avro needs the pipeline's schema registry"):
            kafka_window_load(pipeline="p", topics="t", application=table)
        with DAG("d"):
            kafka_window_load(pipeline=KafkaPipeline("p", "t", schema_registry_conn_id="r"), application=table)


GLUES = [
    *("--job-bookmark-option", "job-bookmark-disable", "--JOB_ID", "j_1", "true", "--JOB_RUN_ID", "jr_1"),
    *("--JOB_NAME", "orders", "--TempDir", "s3://tmp/", "--airflow_task_uuid", "0a", "--enable-metrics=true"),
    *("--conf", "spark.a=1 --conf spark.b=2", "--extra-py-files", "s3://lake/a.zip", "--extra-jars", "s3://lake/jars/"),
]


def test_what_glue_adds_is_passed_over_and_a_format_is_one_of_its_words() -> None:
    own = [
        "--output",
        "s3://lake/orders",
        *GLUES[7:],
        "--sink",
        "delta",
        "--value-format",
        "json schema=a INT, b STRING",
    ]
    found = TableLoad.of_words([*GLUES[:7], *own])
    assert (found.output, found.sink) == ("s3://lake/orders", "delta")
    assert found.value_format == ValueFormat("json", "a INT, b STRING")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*GLUES, "--output", "o", "--snik", "delta"], "unrecognized arguments: --snik"),
        ([*GLUES, "--output", "o", "-sink", "delta"], "unrecognized arguments: -sink"),
        (["--output", "o", "--JOB_NAME", "orders"], "unrecognized arguments: --JOB_NAME orders"),
        (["--output", "o", "delta"], "unrecognized arguments: delta"),
    ],
    ids=["misspelt on Glue", "with one hyphen there", "elsewhere", "a value too much"],
)
def test_what_nobody_adds_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt option would write another table than was asked for."""
    with pytest.raises(SystemExit):
        TableLoad.of_words(words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--key-format", "avro", "subjects=a"], "^key_format: A format takes schema=, .* not 'subjects=a'"),
        (
            ["--value-format", "avro", "version=three"],
            "^value_format: A version is a whole number, 1 or more, not 'three'",
        ),
        (["--bad-records", "drop"], "bad_records must be 'keep' or"),
    ],
    ids=["an option", "a version", "bad records"],
)
def test_what_an_argument_does_not_take_is_refused_by_its_name(words: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        TableLoad.of_words(["--output", "o", *words])
