"""The command line of the ready-made load, also as AWS Glue starts it."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.spark.values.formats import ValueFormat

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
