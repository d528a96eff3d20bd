"""A pipeline is said once: its templates, its text in a Dag, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, as_pipeline
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.operators.alerts import KafkaRetentionWatchOperator
from airflow_kafka_offsets.operators.resolve import (
    KafkaOffsetSnapshotOperator,
    KafkaResolveIncrementOperator,
    KafkaResolveWindowOperator,
)
from airflow_kafka_offsets.sensors.pipeline_sensors import KafkaNewDataSensor, KafkaWindowCompleteSensor

OF_A_PIPELINE = (
    *(KafkaResolveWindowOperator, KafkaResolveIncrementOperator, KafkaOffsetSnapshotOperator),
    *(KafkaRetentionWatchOperator, KafkaWindowCompleteSensor, KafkaNewDataSensor),
)
SIX, SEVEN, EIGHT = (f"2026-11-20T0{hour}:00Z" for hour in (6, 7, 8))
PRINTED = """
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
with DAG("of_a_pipeline", schedule=None) as dag:
    pipeline = KafkaPipeline("orders", {"orders", "clicks", "views", "returns"})
    KafkaResolveWindowOperator(task_id="resolve", pipeline=pipeline)
    KafkaResolveWindowOperator.partial(task_id="mapped", pipeline=pipeline).expand_kwargs([{"start": "1", "end": "2"}])
import json
print("text:", json.dumps(DagSerialization.serialize_dag(dag)["tasks"], sort_keys=True))
"""


def templated() -> KafkaPipeline:
    return KafkaPipeline(
        "orders_{{ params.shop }}",
        ["orders", "returns_{{ params.shop }}"],
        kafka_conn_id="kafka_{{ params.shop }}",
        isolation_level="{{ params.level }}",
        ledger_root="/ledger/{{ params.shop }}",
    )


def rendered(task: Any, shop: str) -> KafkaPipeline:
    """The pipeline, as the task sees it when it runs."""
    own = task.prepare_for_execution()
    own.render_template_fields({"params": {"shop": shop, "level": "read_uncommitted"}})
    found = own.pipeline
    assert isinstance(found, KafkaPipeline)
    return found


class TestTemplates:
    """Airflow renders the fields of a nested object in place."""

    @pytest.mark.parametrize("kind", OF_A_PIPELINE)
    def test_all_of_it_is_rendered_by_every_task(self, kind: type[Any]) -> None:
        with DAG("d", schedule=None):
            task = kind(task_id="t", pipeline=templated())
        found = rendered(task, "berlin")
        assert found == KafkaPipeline(
            "orders_berlin",
            ["orders", "returns_berlin"],
            kafka_conn_id="kafka_berlin",
            isolation_level="read_uncommitted",
            ledger_root="/ledger/berlin",
        )
        assert found.level is IsolationLevel.READ_UNCOMMITTED

    @pytest.mark.parametrize("kind", OF_A_PIPELINE)
    def test_each_run_renders_its_own_though_tasks_share_the_object(self, kind: type[Any]) -> None:
        shared = templated()
        with DAG("d", schedule=None):
            one, other = kind(task_id="one", pipeline=shared), kind(task_id="other", pipeline=shared)
        assert rendered(one, "berlin").name == "orders_berlin"
        assert rendered(one, "paris").name == "orders_paris"
        assert rendered(other, "rome").name == "orders_rome"
        assert shared == templated()

    def test_so_does_each_task_of_a_mapped_one(self) -> None:
        shared = templated()
        with DAG("d", schedule=None):
            mapped = KafkaResolveWindowOperator.partial(task_id="t", pipeline=shared).expand_kwargs(
                [{"start": SIX, "end": SEVEN}, {"start": SEVEN, "end": EIGHT}]
            )
        for shop in ("berlin", "paris"):
            task = mapped.unmap({"start": SIX, "end": SEVEN})
            assert rendered(task, shop).name == f"orders_{shop}"
        assert shared == templated()


@pytest.mark.parametrize("root", ["", " "])
def test_a_root_whose_template_has_no_value_is_not_the_setting(monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    """In another ledger, nothing is loaded yet: each window would be loaded once more."""
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", "/ledger")
    assert KafkaPipeline("orders", "orders").root == "/ledger"
    with pytest.raises(ConfigurationError, match="ledger_root is empty"):
        _ = KafkaPipeline("orders", "orders", ledger_root=root).root


class TestText:
    """Airflow compares a Dag's text with that of the last parse: one that changes by itself is a new version each
    time."""

    def test_it_names_everything_and_no_memory_address(self) -> None:
        with DAG("d", schedule=None) as dag:
            KafkaResolveWindowOperator(task_id="t", pipeline=templated())
        text = json.dumps(DagSerialization.serialize_dag(dag))
        assert "returns_{{ params.shop }}" in text
        assert not re.search(r"0x[0-9a-f]{6,}", text)

    def test_it_is_the_same_in_every_process(self) -> None:
        texts = set()
        for seed in ("1", "2"):  # by which the topics of the set come in different orders
            done = subprocess.run(
                [sys.executable, "-c", PRINTED],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            )
            texts |= {line for line in done.stdout.splitlines() if line.startswith("text:")}
        (text,) = texts
        assert "KafkaPipeline(name='orders', topics=['clicks', 'orders', 'returns', 'views']" in text


class TestArguments:
    def test_a_name_instead_of_a_pipeline_is_refused_with_an_example(self) -> None:
        with pytest.raises(ConfigurationError, match=r"takes a KafkaPipeline.*not 'orders'"):
            KafkaResolveWindowOperator(task_id="t", pipeline="orders")  # type: ignore[arg-type]

    def test_topics_beside_a_pipeline_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"with topics="):
            as_pipeline(KafkaPipeline("orders", "orders"), "clicks")

    def test_a_name_with_topics_is_the_plain_form(self) -> None:
        assert as_pipeline("orders", "orders") == KafkaPipeline("orders", "orders")

    @pytest.mark.parametrize("topics", [5, {"a": 1}, object()])
    def test_topics_that_are_no_names_are_refused(self, topics: Any) -> None:
        with pytest.raises(ConfigurationError, match="topics must be a name or a list of names"):
            KafkaPipeline("orders", topics)

    def test_another_tasks_output_goes_into_a_template(self) -> None:
        with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
            before = KafkaResolveWindowOperator(task_id="before", pipeline=KafkaPipeline("orders", "orders"))
            with pytest.raises(ConfigurationError, match="xcom_pull"):
                KafkaPipeline("orders", before.output)  # type: ignore[arg-type]  # its dependency would be unseen

    def test_topics_are_named_one_way(self) -> None:
        for given in ({}, {"topics": "t", "topic_pattern": "t.*"}):
            with pytest.raises(ConfigurationError, match="exactly one of them"):
                KafkaPipeline("p", **given).wanted()
        assert KafkaPipeline("p", ["b", "a"]).wanted() == ("b", "a")
        assert KafkaPipeline("p", topic_pattern="t.*").wanted() == re.compile("t.*")

    def test_a_task_that_needs_names_refuses_a_pattern(self) -> None:
        with pytest.raises(ConfigurationError, match="needs its topics by name"):
            KafkaPipeline("p", topic_pattern="t.*").names()
