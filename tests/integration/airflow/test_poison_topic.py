"""A hundred small topics in one run of Spark, one of which has a record that can't be decoded: the others are published
by that run, the task says in one table which failed and why, and its next try loads that one alone.

``TOPICS`` sets how many; windows/test_many_windows.py shows the same of three, without Spark.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from confluent_kafka import Producer

from airflow_kafka_offsets import KafkaSparkSubmitOperator, KafkaVerifyWindowOperator, TableLoad, ValueFormat
from airflow_kafka_offsets.errors import WindowsFailedError
from airflow_kafka_offsets.references import WindowRef
from dev.kafka import Broker
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import FOR_EVER, LOCAL_SPARK, T0_MS, Context, Resolve, at, fails_with
from tests.integration.conftest import MakeTopic
from tests.integration.spark.values.conftest import folder_of

TOPICS = int(os.environ.get("POISON_TOPICS", "100"))
RECORDS, POISONED, AT = 2_000, TOPICS // 2, 1_234
pytestmark = pytest.mark.nightly("a hundred topics, and Spark twice; windows/test_many_windows.py has three of them")


@pytest.fixture
def windows(topic: MakeTopic, broker: Broker, resolve: Resolve) -> list[dict[str, Any]]:
    """A window of each topic, with two thousand records; one of them isn't JSON in one topic."""
    names = [topic(config=FOR_EVER) for _ in range(TOPICS)]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for place, name in enumerate(names):
        for number in range(RECORDS):
            bad = (place, number) == (POISONED, AT)
            value = b"not JSON" if bad else json.dumps({"order_id": number}).encode()
            producer.produce(name, value, partition=0, timestamp=T0_MS + number)
        producer.poll(0)
    assert producer.flush(120) == 0
    return [resolve(name, at(0), at(3600), pipeline=name) for name in names]


def load(windows: list[dict[str, Any]], output: Path, **arguments: Any) -> KafkaSparkSubmitOperator:
    table = TableLoad(
        output.as_uri() + "/{topic}", value_format=ValueFormat("json", "order_id INT"), flatten=True, **arguments
    )
    given = {"connector": "given", "jars": jars_of("connector"), "conf": {"spark.ui.enabled": "false"}}
    return KafkaSparkSubmitOperator(task_id="load", window=windows, application=table, **given)


def published(windows: list[dict[str, Any]]) -> list[bool]:
    refs = [WindowRef.from_json(each) for each in windows]
    return [ref.ledger().window(ref.window).loaded is not None for ref in refs]


def test_all_topics_but_the_poisoned_one_are_published_and_the_next_try_loads_what_is_left(
    windows: list[dict[str, Any]],
    context: Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # of spark-submit
    output, poisoned = tmp_path / "tables", windows[POISONED]
    with pytest.raises(AirflowFailException) as failed:
        load(windows, output, bad_records="fail").execute(context)
    assert fails_with(WindowsFailedError, failed), str(failed.value)
    head, columns, *rows = str(failed.value).splitlines()
    assert head == f"1 of {TOPICS} windows failed; the other {TOPICS - 1} did not."
    assert columns.split() == ["window", "pipeline", "error", "why"]
    (told,) = rows
    assert told.split()[:3] == [poisoned["window"], poisoned["pipeline"], "UndecodableError"]
    assert f"the value of {poisoned['pipeline']}-0, offset {AT}: it isn't JSON" in told
    assert [place for place, is_there in enumerate(published(windows)) if not is_there] == [POISONED]

    context["ti"].try_number = 2
    task = load(windows, output)  # the owner has chosen to keep such records
    reports = task.execute(context)
    assert [place for place, each in enumerate(reports) if each["seconds"] is not None] == [POISONED]
    assert {each["rows"] for each in reports} == {RECORDS}
    said = "\n".join(task._printed())
    others = [each["pipeline"] for each in windows if each is not poisoned]
    assert not any(name in said for name in others), "Spark was given the one that is left alone"
    verified = KafkaVerifyWindowOperator(task_id="verify", window=windows).execute(context)
    assert {each["verdict"] for each in verified} == {"read = written = log"}
    assert folder_of(f"{output}/{poisoned['pipeline']}").is_dir()
