"""A load that fails: the task's exception is the driver's own line, and decides whether Airflow tries again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import ConfigurationError, SparkFailedError, UnprovenError
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from dev.airflow_home import environment
from dev.kafka import Broker
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import RECORDS_A_DAY, Context, Resolve, fails_with

pytestmark = pytest.mark.nightly(
    "a driver for each; test_audit_table.py has a driver's error as the task's own, windows/test_tries.py a load's"
)

FAILING_LOAD = Path(__file__).parent.parent / "spark" / "failing_load.py"
MOST_LINES = 60
"""Of spark-submit, without those by which jars are fetched: Spark's INFO alone is some 400."""

Load = Callable[..., Any]
Printed = list[str]


@pytest.fixture
def printed() -> Printed:
    """Lines of spark-submit."""
    return []


@pytest.fixture
def load(
    flights: None,
    broker: Broker,
    resolve: Resolve,
    context: Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    printed: Printed,
) -> Load:
    """Load a day of flights by a real spark-submit."""
    for name, value in environment(tmp_path, broker.bootstrap_servers).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    window = resolve("flights", "2013-03-09T00:00:00Z", "2013-03-10T00:00:00Z")

    def run(**arguments: Any) -> Any:
        jar_files = jars_of("connector")
        task = KafkaSparkSubmitOperator(task_id="load", window=window, jars=jar_files, **arguments)
        try:
            return task.execute(context)
        finally:
            assert task._output is not None
            printed.extend(task._output())

    return run


def test_rows_that_an_application_drops_are_the_tasks_own_error_for_good(
    load: Load, tmp_path: Path, printed: Printed
) -> None:
    with pytest.raises(AirflowFailException) as failed:
        load(application=str(FAILING_LOAD), application_args=[(tmp_path / "t").as_uri(), "drops"])
    assert fails_with(UnprovenError, failed)
    said = str(failed.value)
    assert said.startswith("UnprovenError: Window 20130309T000000000Z_20130310T000000000Z is not proved")
    assert f"{RECORDS_A_DAY}" in said
    assert "allow_gaps=True" in said, "as far as the counts go, the log may have no record there"
    assert "dropped" in said
    assert "spark-submit" not in said
    assert "\n" not in said
    assert len(printed) < MOST_LINES, "Spark is quiet"


def test_the_ready_made_load_says_which_argument_is_wrong(load: Load, tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException) as failed:
        load(
            application_args=[
                "--output",
                (tmp_path / "t").as_uri(),
                "--value-format",
                "json",
                "schema=no schema at, all",
            ]
        )
    assert fails_with(ConfigurationError, failed)
    assert str(failed.value).startswith("ConfigurationError: value: The schema 'no schema at, all' can't")


def test_an_applications_own_exception_is_named_and_tried_again(load: Load, tmp_path: Path, printed: Printed) -> None:
    with pytest.raises(SparkFailedError) as failed:
        load(
            application=str(FAILING_LOAD),
            application_args=[(tmp_path / "t").as_uri(), "raises"],
            conf={"spark.log.level": "INFO"},
        )
    assert str(failed.value).startswith(
        "spark-submit ended with status 1: ValueError: no carrier of that name: XX (File "
    )
    assert 'failing_load.py", line 14, in shaped)' in str(failed.value)
    assert len(printed) > 2 * MOST_LINES, "the user's own level stays"
